"""What the command line prints: results on stdout, everything else on stderr."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pydantic import BaseModel

_BAR_WIDTH = 24
_BAR_INTERVAL_S = 0.1


def is_json_wanted(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` stands among the arguments, even if they cannot be parsed."""
    arguments = list(arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


def print_result(document: Any, *, is_json: bool, show: Callable[[], None]) -> None:
    """One JSON document, or whatever `show` prints for people."""
    if is_json:
        text = json.dumps(document, indent=2, ensure_ascii=False)
        # Anything that could move a cursor, or that the encoding cannot say, is escaped.
        if not _is_utf8(sys.stdout) or not all(map(str.isprintable, text.split("\n"))):
            text = json.dumps(document, indent=2)
        print(text)
    else:
        show()


def dump(shape: "BaseModel") -> Any:
    """A wire shape as plain JSON values."""
    return shape.model_dump(mode="json")


def print_error(code: str, message: str, *, is_json: bool) -> None:
    """An error; with ``--json`` it is the one document on stdout."""
    if is_json:
        print(json.dumps({"error": {"code": code, "message": message}}, indent=2))
    else:
        _print_marked("error", message, "31")


def print_warning(message: str) -> None:
    """Something that the user should know, although the command goes on."""
    _print_marked("warning", message, "33")


def print_message(message: str) -> None:
    """What is going on."""
    _write(sys.stderr, _tame(message) + "\n")


def print_text(text: str) -> None:
    """A line of a result."""
    _write(sys.stdout, text + "\n")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell, the last one free."""
    table = [[_plain(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(headings, *table, strict=True)]
    is_coloured = has_colours(sys.stdout)
    for number, row in enumerate([list(headings), *table]):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        print_text(f"\033[1m{line}\033[0m" if is_coloured and number == 0 else line)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values, one a line; those without a value are left out."""
    shown = [(name, _plain(value)) for name, value in fields if value not in (None, "", [])]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        print_text(f"{name.ljust(width)}  {value}")


def has_colours(stream: TextIO) -> bool:
    """Whether `stream` is a terminal that takes colours. Source: no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def format_size(size_bytes: int) -> str:
    """Such as ``1.4 MB``."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


@contextmanager
def progress_bar(
    title: str, show: Callable[[int], str] = format_size
) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, told how much of how much has gone; on a terminal only, and nothing stays.

    Args:
        title: What goes.
        show: How an amount is written; bytes unless told otherwise.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda gone, total: None
        return
    drawn_at = 0.0

    def draw(gone: int, total: int) -> None:
        nonlocal drawn_at
        now = time.monotonic()
        if now - drawn_at < _BAR_INTERVAL_S and gone < total:
            return
        drawn_at = now
        share = gone / total if total else 1.0
        bar = ("━" * round(share * _BAR_WIDTH)).ljust(_BAR_WIDTH, "─")
        amounts = f"{show(gone)} of {show(total)}"
        _write(sys.stderr, f"\r\033[K{title} {bar} {share:4.0%} {amounts}")

    try:
        yield draw
    finally:
        if drawn_at:
            _write(sys.stderr, "\r\033[K")


def _print_marked(mark: str, message: str, colour: str) -> None:
    shown = f"\033[{colour};1m{mark}:\033[0m" if has_colours(sys.stderr) else f"{mark}:"
    _write(sys.stderr, f"{shown} {_tame(message)}\n")


def _tame(text: str) -> str:
    """Lines without control characters: messages repeat what hubs and packages say."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def _plain(value: object) -> str:
    """Text of one line without control characters, which could rewrite the terminal."""
    if isinstance(value, list | tuple):
        return ", ".join(_plain(part) for part in value)
    text = " ".join(str(value).split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "") == "utf8"
