"""Text that models and tools wrote, made harmless for a terminal."""

from __future__ import annotations

import re
import unicodedata

_JOINERS = "\u200c\u200d"
"""Control how letters and emoji combine, and nothing else."""

# Everything below but line end and tabulator can move the cursor, switch colours, rewrite what
# was shown, or turn the reading direction: C0 and C1 controls, format characters, surrogates,
# private use, line and paragraph separators. So can what no version of Unicode names yet.
_REFUSED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_NEAR = "".join(chr(n) for n in range(0xA1, 0x2000) if unicodedata.category(chr(n)) in _REFUSED)
_SUSPECT = re.compile(rf"[^\n\t -~\u00a1-\u1fff]|[{_NEAR}]")


def visible(text: str) -> str:
    r"""The text with every character that is none to look at spelled out, such as ``\x1b``.

    Line ends and tabulators stay; ``\r\n`` is a line end.
    """
    return _SUSPECT.sub(_spell, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """The text as one line, white space narrowed."""
    return visible(" ".join(text.split()))


def shorten(text: str, limit: int) -> str:
    """Beginning and end of a text that is longer than so many characters, and what is left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    left_out = len(text) - head - tail
    return f"{text[:head]}\n… {left_out:,} characters left out …\n{text[len(text) - tail :]}"


def how_it_ended(reason: str, detail: str) -> str:
    """Why an attempt stopped, said once where the detail says all."""
    return detail if detail.startswith(reason) else f"{reason} {detail}".strip()


def _spell(match: re.Match[str]) -> str:
    letter = match[0]
    if letter in _JOINERS or unicodedata.category(letter) not in _REFUSED:
        return letter
    number = ord(letter)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
