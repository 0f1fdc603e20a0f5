"""Token ids as text, from the ``tokenizer.json`` that models come with."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strop.errors import ConfigError

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The text of each token; for looking at, not for tokenising."""

    texts: dict[int, str]

    def text(self, token_id: int) -> str:
        """What a token stands for; its number where it is unknown."""
        return self.texts.get(token_id, f"⟨{token_id}⟩")


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a ``tokenizer.json``, or the folder that holds one.

    Byte-level and byte-fallback tokens become text; a token that is half a character shows as
    U+FFFD.

    Raises:
        ConfigError: The file is none.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        document = json.loads(file.read_bytes())
        texts = dict(_texts(document))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{file} is no tokenizer.json: {error!r}. Name the file that came with the model."
        ) from error
    return Vocabulary(texts)


def _texts(document: dict[str, Any]) -> list[tuple[int, str]]:
    vocabulary = document["model"]["vocab"]
    # A unigram model lists pieces with their weights, others map pieces to ids.
    if isinstance(vocabulary, list):
        pieces = [(index, str(entry[0])) for index, entry in enumerate(vocabulary)]
    else:
        pieces = [(int(index), str(piece)) for piece, index in vocabulary.items()]
    is_byte_level = '"ByteLevel"' in json.dumps(
        [document.get("decoder"), document.get("pre_tokenizer")]
    )
    read = _from_byte_level if is_byte_level else _from_pieces
    added = [(int(each["id"]), str(each["content"])) for each in document.get("added_tokens") or ()]
    return [(index, read(piece)) for index, piece in pieces] + added


def _byte_letters() -> dict[str, int]:
    # Source: github.com/openai/gpt-2, src/encoder.py, bytes_to_unicode.
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }


_BYTE_LETTERS = _byte_letters()


def _from_byte_level(piece: str) -> str:
    if any(letter not in _BYTE_LETTERS for letter in piece):
        return piece
    return bytes(_BYTE_LETTERS[letter] for letter in piece).decode("utf-8", "replace")


def _from_pieces(piece: str) -> str:
    if found := _BYTE.fullmatch(piece):
        return bytes([int(found[1], 16)]).decode("utf-8", "replace")
    return piece.replace("▁", " ")
