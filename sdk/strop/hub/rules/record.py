"""RECORD, the list of a wheel's files with their hashes (steps: package, publish, install).

Source: the binary distribution format, section "The .dist-info directory" (PEP 427, PEP 376).
"""

import base64
import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from strop.errors import PackageError

ALGORITHMS = ("sha256", "sha384", "sha512")
SIGNATURES = ("RECORD.jws", "RECORD.p7s")


@dataclass(frozen=True, slots=True)
class RecordLine:
    """What RECORD says about one file."""

    path: str
    algorithm: str | None
    digest: str
    """Unpadded URL-safe base64, as RECORD holds it."""
    size_bytes: int | None


def parse_record(content: bytes, where: str) -> dict[str, RecordLine]:
    """The lines of a RECORD by path.

    Raises:
        PackageError: A line has another form, or a file has two.
    """
    lines: dict[str, RecordLine] = {}
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise PackageError(
            f"{where}: RECORD cannot be read: {error}. Build the wheel again."
        ) from None
    for row in rows:
        if not row:
            continue
        line = _parse_row(row, where)
        if line.path in lines:
            raise PackageError(f"{where}: RECORD lists {line.path!a} twice. Build the wheel again.")
        lines[line.path] = line
    return lines


def _parse_row(row: list[str], where: str) -> RecordLine:
    problem = f"{where}: RECORD has a line that cannot be read: {ascii(row)[:120]}"
    if len(row) != 3:
        raise PackageError(f"{problem}. Build the wheel again.")
    path, digest, size = row
    algorithm, _, value = digest.partition("=")
    if digest and algorithm not in ALGORITHMS:
        raise PackageError(
            f"{where}: RECORD hashes {path!a} with {ascii(algorithm)[:20]}; "
            f"allowed are {', '.join(ALGORITHMS)}. Build the wheel again."
        )
    if size and not (size.isascii() and size.isdigit() and len(size) < 20):
        raise PackageError(f"{problem}. Build the wheel again.")
    return RecordLine(path, algorithm or None, value.rstrip("="), int(size) if size else None)


def record_digest(digest: bytes) -> str:
    """`digest` as RECORD writes it."""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def write_record(lines: Iterable[tuple[str, bytes, int]], record_path: str) -> bytes:
    """A RECORD of (path, sha256, size) lines, sorted, with its own line last."""
    target = io.StringIO(newline="")
    writer = csv.writer(target, lineterminator="\n")
    for path, digest, size_bytes in sorted(lines):
        writer.writerow((path, f"sha256={record_digest(digest)}", size_bytes))
    writer.writerow((record_path, "", ""))
    return target.getvalue().encode()
