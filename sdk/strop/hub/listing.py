"""RECORD, a wheel's list of its files. Source: binary distribution format."""

import base64
import csv
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path


def listed_files(record: bytes) -> Iterator[tuple[str, str]]:
    """Each file that a RECORD lists, with its digest; the empty string where it has none.

    `importlib.metadata` passes over files that are missing, from Python 3.12 on.
    """
    for row in csv.reader(io.StringIO(record.decode("utf-8", "replace"))):
        if row:
            yield row[0], row[1] if len(row) > 1 else ""


def listed_digest(path: Path) -> str:
    """A file's digest as a RECORD has it, ``sha256=…``; the empty string if it cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return ""
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
