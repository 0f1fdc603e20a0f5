"""Tokenizers without a file: one id a byte, or one a character of a small alphabet."""

from __future__ import annotations

import string
from collections.abc import Sequence

from strop.errors import RendererError

MARKS = ("<|im_start|>", "<|im_end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
"""The control tokens of both, in the order of their ids."""

PRINTABLE = string.printable[:95] + "\n"
"""Letters, digits, punctuation, the space and the newline of ASCII."""


class _Marks:
    _first_mark: int

    def mark(self, name: str) -> int:
        """The id of a control token."""
        if name not in MARKS:
            raise RendererError(f"no mark is called {name!r}. There are {', '.join(MARKS)}.")
        return self._first_mark + MARKS.index(name)


class ByteTokenizer(_Marks):
    """One id a byte of UTF-8; takes any text, and gives back the very same."""

    _first_mark = 256
    vocabulary_size = 256 + len(MARKS)

    def encode(self, text: str) -> list[int]:
        """The bytes; a lone surrogate has three of its own."""
        return list(text.encode("utf-8", "surrogatepass"))

    def decode(self, ids: Sequence[int]) -> str:
        """The text; bytes that are none become U+FFFD."""
        found = bytes(each for each in ids if 0 <= each < 256)
        try:
            return found.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return found.decode("utf-8", "replace")


class CharacterTokenizer(_Marks):
    """One id a character, marks first: for models so small that their vocabulary counts.

    Args:
        alphabet: The characters, each once.
    """

    _first_mark = 0

    def __init__(self, alphabet: str = PRINTABLE) -> None:
        self.alphabet = alphabet
        self._ids = {letter: len(MARKS) + index for index, letter in enumerate(alphabet)}
        if len(self._ids) < len(alphabet):
            raise RendererError("the alphabet holds a character twice. Name each once.")
        self.vocabulary_size = len(MARKS) + len(alphabet)

    def encode(self, text: str) -> list[int]:
        """The characters.

        Raises:
            RendererError: One is not in the alphabet.
        """
        try:
            return [self._ids[letter] for letter in text]
        except KeyError as error:
            raise RendererError(
                f"the alphabet of {len(self.alphabet)} characters lacks {error}."
                " Add it, or use a ByteTokenizer."
            ) from error

    def decode(self, ids: Sequence[int]) -> str:
        """The text."""
        places = (each - len(MARKS) for each in ids)
        return "".join(self.alphabet[at] for at in places if 0 <= at < len(self.alphabet))
