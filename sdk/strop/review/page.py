"""Trajectories as one page for a browser: nothing is fetched, all data is inside, compressed.

Everything that came from outside stands in the page as base64 of gzip, or escaped; the script
puts it there as text nodes only, and the page's policy allows no script but this one.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO

from strop.evaluation import Report
from strop.review.escaping import visible_line
from strop.review.files import Place, has_blobs
from strop.review.overview import Overview, read_overview
from strop.review.page_entry import PageEntry
from strop.review.vocabulary import Vocabulary
from strop.trajectory import Trajectory
from strop.types import JSON

MAX_PAGE_BYTES = 128 * 2**20
"""Beyond it further attempts are listed without their turns, and the page says so."""

_CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class PageResult:
    """What was written."""

    path: Path
    attempt_count: int
    left_out_count: int
    """Attempts that are listed without their turns, since the page is large enough."""
    size_bytes: int

    def to_json(self) -> dict[str, JSON]:
        """The result as JSON."""
        return {
            "path": str(self.path),
            "attempt_count": self.attempt_count,
            "left_out_count": self.left_out_count,
            "size_bytes": self.size_bytes,
        }


def write_page(
    paths: Sequence[Path],
    target: Path,
    *,
    title: str,
    vocabulary: Vocabulary | None = None,
    max_bytes: int = MAX_PAGE_BYTES,
) -> PageResult:
    """Write files of trajectories as one HTML file, in memory bounded by an entry a line.

    Args:
        paths: Files of trajectories.
        target: Replaced when all is written.
        title: Of the page.
        vocabulary: Turns token ids into text.
        max_bytes: Of the page, about.

    Raises:
        TrajectoryFileError: A line is whole but no trajectory.
    """
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as page:
            writer = _PageWriter(page, paths, vocabulary, max_bytes)
            page.write(_head(title))
            overview = read_overview(paths, writer.add)
            writer.close(overview, title)
            page.write(_foot(overview.report))
        unfinished.chmod(0o644)
        size_bytes = unfinished.stat().st_size
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    count = overview.report.attempt_count
    return PageResult(target, count, writer.left_out_count, size_bytes)


class _PageWriter:
    """Writes blocks of trajectories as they are read, and last the index to them."""

    def __init__(
        self,
        page: IO[bytes],
        paths: Sequence[Path],
        vocabulary: Vocabulary | None,
        max_bytes: int,
    ) -> None:
        self.left_out_count = 0
        # Numbers, since a page that is passed on should not tell the author's folders.
        self._file_numbers: dict[Path, int] = {path: n for n, path in enumerate(paths)}
        self._page = page
        self._vocabulary = vocabulary
        self._max_bytes = max_bytes
        self._rows: list[list[JSON]] = []
        self._token_ids: set[int] = set()
        self._block: list[str] = []
        self._block_chars = 0
        self._block_count = 0

    def add(self, place: Place, trajectory: Trajectory) -> None:
        """Take one trajectory."""
        entry = PageEntry(trajectory)
        is_left_out = self._page.tell() > self._max_bytes
        self.left_out_count += is_left_out
        where: list[JSON] = [None, 0] if is_left_out else [self._block_count, len(self._block)]
        self._rows.append([self._file_numbers[place.path], *where, *entry.row()])
        if is_left_out:
            return
        if has_blobs(trajectory):
            entry = PageEntry(place.read(has_blobs=True))
        if self._vocabulary is not None:
            self._token_ids |= entry.token_ids()
        self._block.append(json.dumps(entry.document(), separators=(",", ":")))
        self._block_chars += len(self._block[-1])
        if self._block_chars >= _CHUNK_BYTES:
            self._flush()

    def close(self, overview: Overview, title: str) -> None:
        """Write the rest and the index."""
        self._flush()
        texts = self._vocabulary
        vocabulary: dict[str, JSON] = (
            {} if texts is None else {str(i): texts.text(i) for i in sorted(self._token_ids)}
        )
        index: dict[str, JSON] = {
            "title": visible_line(title),
            "rows": list(self._rows),
            "vocabulary": vocabulary,
            "histogram": [asdict(bar) for bar in overview.histogram],
            "left_out_count": self.left_out_count,
            "torn": [f"Line {torn.line_number}" for torn in overview.torn],
        }
        self._write("index", json.dumps(index, separators=(",", ":")))

    def _flush(self) -> None:
        if self._block:
            self._write(f"block-{self._block_count}", f"[{','.join(self._block)}]")
            self._block_count += 1
        self._block = []
        self._block_chars = 0

    def _write(self, name: str, text: str) -> None:
        # No time stamp: the same files give the same page.
        packed = base64.b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0))
        self._page.write(b'<script type="text/plain" id="%s">' % name.encode("ascii"))
        self._page.write(packed)
        self._page.write(b"</script>\n")


def _head(title: str) -> bytes:
    style, script = _part("page.css"), _part("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    shown = html.escape(visible_line(title))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{shown} · Strop</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{shown}</h1></header>\n"
    ).encode()


def _foot(report: Report) -> bytes:
    body = _part("page.html").replace("{{figures}}", _figures(report))
    return f"{body}<script>{_part('page.js')}</script>\n</body>\n</html>\n".encode()


def _figures(report: Report) -> str:
    mean = "none" if report.mean_reward is None else f"{report.mean_reward:.4g}"
    if report.standard_error is not None:
        mean += f" ± {report.standard_error:.2g}"
    usage = report.usage
    figures = [
        ("mean reward", mean),
        ("attempts", f"{report.attempt_count:,}"),
        ("tasks", f"{report.task_count:,}"),
        ("failures", f"{sum(report.failures.values()):,}"),
        ("truncated", f"{report.truncated_count:,}"),
        *[(f"{kind} replies", f"{count:,}") for kind, count in report.odd_replies.items()],
        ("completion tokens", f"{usage.completion_tokens:,}"),
        *[(name, f"{value:.4g}") for name, value in report.metrics.items()],
    ]
    return "".join(
        f"<div><dt>{html.escape(visible_line(name))}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value in figures
    )


def _part(name: str) -> str:
    return files("strop.review").joinpath("page_files", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
