"""Tokenizer, template and marks from a model's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop.errors import ConfigError
from strop.models.renderer.gguf import read_metadata
from strop.models.renderer.jinja import HINT

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONTROL, _USER_DEFINED = 3, 4
_KIND = "smollm"
"""The one way to cut text into words whose ids were held against an engine's."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a renderer needs of a model."""

    tokenizer: Tokenizer
    template: str
    stop_ids: tuple[int, ...]
    variables: dict[str, Any]
    """Of the template: the texts of marks, such as ``bos_token``."""


def read_folder(folder: Path) -> ModelFiles:
    """A model's folder as the Hugging Face hub has it.

    Raises:
        ConfigError: A file is missing, or the extra ``hf`` is.
    """
    tokenizers = _import_tokenizers()
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ConfigError(f"{folder} has no tokenizer.json. Give a model's folder or a GGUF file.")
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    config = _read_json(folder / "tokenizer_config.json")
    variables = {
        name: _text_of_mark(config[name])
        for name in ("bos_token", "eos_token", "pad_token", "unk_token")
        if config.get(name) is not None
    }
    ends = _read_json(folder / "generation_config.json").get("eos_token_id", [])
    stop_ids = [*ends] if isinstance(ends, list) else [ends]
    if "eos_token" in variables:
        stop_ids.append(tokenizer.token_to_id(variables["eos_token"]))
    known = tuple(each for each in stop_ids if isinstance(each, int))
    return ModelFiles(tokenizer, _read_template(folder, config), known, variables)


def read_gguf(path: Path) -> ModelFiles:
    """A GGUF file with a byte-level tokenizer.

    Raises:
        ConfigError: It is none, or has a tokenizer of another kind, or the extra is missing.
    """
    found = read_metadata(path)
    kind, template = found.get("tokenizer.ggml.pre"), found.get("tokenizer.chat_template")
    if found.get("tokenizer.ggml.model") != "gpt2" or kind != _KIND or template is None:
        raise ConfigError(
            f"{path} has a tokenizer of the kind {kind!r}, or no chat template. Only {_KIND!r} is"
            " known here: give the folder with the model's tokenizer.json."
        )
    marks = {
        f"{name}_token": found["tokenizer.ggml.tokens"][found[f"tokenizer.ggml.{name}_token_id"]]
        for name in ("bos", "eos")
        if f"tokenizer.ggml.{name}_token_id" in found
    }
    stop_ids = (found["tokenizer.ggml.eos_token_id"],) if "eos_token" in marks else ()
    return ModelFiles(_build(found), template, stop_ids, marks)


def _build(found: Mapping[str, Any]) -> Tokenizer:
    tokenizers = _import_tokenizers()
    from tokenizers import AddedToken, decoders, models, pre_tokenizers

    tokens: list[str] = found["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in found["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer: Tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, found["tokenizer.ggml.token_type"], strict=True):
        if kind in (_CONTROL, _USER_DEFINED):
            added = AddedToken(token, special=kind == _CONTROL, normalized=False)
            add = tokenizer.add_special_tokens if added.special else tokenizer.add_tokens
            add([added])
    return tokenizer


def _read_template(folder: Path, config: Mapping[str, Any]) -> str:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = config.get("chat_template")
    if isinstance(found, list):
        by_name = {each["name"]: each["template"] for each in found}
        found = by_name.get("default")
    if not isinstance(found, str):
        raise ConfigError(
            f"{folder} has no chat template, neither as chat_template.jinja nor in"
            " tokenizer_config.json. A base model has none: use ChatmlRenderer."
        )
    return found


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _text_of_mark(mark: str | Mapping[str, Any]) -> str:
    return mark if isinstance(mark, str) else str(mark["content"])


def _import_tokenizers() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise ConfigError(f"A model's tokenizer needs the package tokenizers. {HINT}") from error
    return tokenizers
