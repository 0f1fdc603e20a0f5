"""The chat template and tokenizer of a real model: the prompt that its engine would build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from strop.errors import RendererError
from strop.models.renderer.calls import CallFormat
from strop.models.renderer.encoding import encode_messages, encode_tools, stand_in
from strop.models.renderer.jinja import compile_template
from strop.models.renderer.reading import read_text
from strop.types import Message, ToolSpec

if TYPE_CHECKING:
    from tokenizers import Tokenizer as HuggingFaceTokenizer

_SENTINEL = "\u2020here the assistant speaks\u2020"


class TemplateRenderer:
    """A Hugging Face chat template over a Hugging Face tokenizer.

    Text that looks like a mark becomes one, as in the engines that use these templates.

    Args:
        tokenizer: Of the library ``tokenizers``.
        template: A chat template, in Jinja.
        calls: How the model writes calls; told from the template when left out.
        stop_ids: What ends a completion, beside the mark that the template puts there.
        variables: Further variables of the template, such as ``enable_thinking``.

    Raises:
        ConfigError: The extra ``hf`` is missing.
        RendererError: The template ends no assistant's message with a mark.

    Example:
        >>> renderer = TemplateRenderer.read(Path("Qwen3-0.6B"))
        >>> model = CompletionsModel("qwen", "http://127.0.0.1:8000/v1", renderer)
    """

    def __init__(
        self,
        tokenizer: HuggingFaceTokenizer,
        template: str,
        *,
        calls: CallFormat | None = None,
        stop_ids: Sequence[int] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._compiled = compile_template(template)
        self._variables = dict(variables or {})
        self._calls: CallFormat = calls or call_format_of(template)
        self._marks = {
            token.content: index
            for index, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        after = self._after_sentinel((Message("user", "Hello"),))
        end, _ = self._first_mark(after)
        self._stop_ids = frozenset({self._marks[end], *stop_ids})
        prompt = self._text((Message("user", "Hello"),), ())
        self._is_thinking = prompt.rstrip().endswith("<think>")

    @classmethod
    def read(cls, path: Path, *, calls: CallFormat | None = None, **variables: Any) -> Self:
        """The renderer of a model that lies on this machine; nothing is downloaded.

        Args:
            path: A model's folder (``tokenizer.json`` and its like), or a GGUF file.
            calls: As above.
            **variables: Further variables of the template.

        Raises:
            ConfigError: Something is missing there, or the extra ``hf`` is.
        """
        from strop.models.renderer.files import read_folder, read_gguf

        found = read_folder(path) if path.is_dir() else read_gguf(path)
        return cls(
            found.tokenizer,
            found.template,
            calls=calls,
            stop_ids=found.stop_ids,
            variables=found.variables | variables,
        )

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """What ends a completion."""
        return tuple(sorted(self._stop_ids))

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """The prompt's ids, up to where the assistant begins."""
        return self._encode(self._text(messages, tools))

    def parse(self, ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        """What an assistant said with `ids`, up to the first id that ends a completion."""
        end = next((at for at, each in enumerate(ids) if each in self._stop_ids), len(ids))
        text: str = self._tokenizer.decode(list(ids[:end]), skip_special_tokens=False)
        return read_text(text, self._calls, tools, is_thinking=self._is_thinking)

    def extend(self, ids: Sequence[int], observation: Sequence[Message]) -> list[int]:
        """The next prompt's ids.

        The template is rendered over a stand-in for what came before; what it writes from the
        end of the assistant's message on is added. What it would change before that, such as
        earlier thoughts that it drops, stays: the model saw it when it sampled.

        Raises:
            RendererError: The template refuses `observation` after an assistant's message.
        """
        _, rest = self._first_mark(self._after_sentinel(observation))
        added = self._encode(rest)
        is_ended = bool(ids) and ids[-1] in self._stop_ids
        return [*ids, *(added[1:] if is_ended else added)]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _text(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> str:
        return self._compiled(
            **self._variables,
            messages=encode_messages(messages),
            tools=encode_tools(tools) or None,
            add_generation_prompt=True,
        )

    def _after_sentinel(self, observation: Sequence[Message]) -> str:
        text = self._text((*stand_in(observation, _SENTINEL), *observation), ())
        _, found, after = text.rpartition(_SENTINEL)
        if not found:
            raise RendererError("the chat template leaves out what the assistant said")
        return after

    def _first_mark(self, text: str) -> tuple[str, str]:
        """The mark that ends the assistant's message, and the text from there on."""
        places = ((text.find(mark), mark) for mark in self._marks)
        at, mark = min(((at, mark) for at, mark in places if at >= 0), default=(-1, ""))
        if at < 0:
            raise RendererError(
                "the chat template ends the assistant's message with no control token of the"
                " tokenizer, so no conversation can be extended. Do both belong to one model?"
            )
        return mark, text[at:]


def call_format_of(template: str) -> CallFormat:
    """How a model writes calls, told from its chat template."""
    if "<function=" in template:
        return "qwen"
    if "<tool_call>" in template:
        return "hermes"
    return "llama" if "<|python_tag|>" in template else "none"
