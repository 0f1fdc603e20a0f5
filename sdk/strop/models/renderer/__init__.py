"""From text to tokens and back, without ever tokenising again what a model sampled.

`ChatmlRenderer` and `CharacterRenderer` need nothing. `TemplateRenderer` speaks the chat
template and tokenizer of a Hugging Face model or a GGUF file, and needs the extra ``hf``.
"""

from strop.models.renderer.calls import CallFormat, read_calls
from strop.models.renderer.memory import TokenMemory
from strop.models.renderer.plain import CharacterRenderer, ChatmlRenderer
from strop.models.renderer.protocol import Renderer, Tokenizer
from strop.models.renderer.template import TemplateRenderer
from strop.models.renderer.tokenizer import ByteTokenizer, CharacterTokenizer

__all__ = [
    "ByteTokenizer",
    "CallFormat",
    "CharacterRenderer",
    "CharacterTokenizer",
    "ChatmlRenderer",
    "Renderer",
    "TemplateRenderer",
    "TokenMemory",
    "Tokenizer",
    "read_calls",
]
