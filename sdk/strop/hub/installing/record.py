"""The record that an installation leaves, and what it proves (step: install)."""

import hashlib
import json
import os
import tempfile
import zipfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from strop.errors import InstallError
from strop.hub.listing import listed_digest, listed_files

INSTALL_RECORD_NAME = "strop-install.json"

State = Literal["matches", "differs", "editable", "unknown owner"]
"""How what is installed compares with what a hub published."""


@dataclass(frozen=True, slots=True)
class InstallRecord:
    """What `strop env install` installed, and from where."""

    hub: str
    owner: str
    name: str
    version: str
    digest: str
    """sha256 of the wheel."""
    record_sha256: str = ""
    """Of RECORD, which lists the sha256 of every file."""

    @property
    def reference(self) -> str:
        """The reference that names exactly this version."""
        return f"{self.owner}/{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Installation:
    """What lies in one ``.dist-info`` folder, compared with its record."""

    state: State
    record: InstallRecord | None = None
    """None for editable installations and those that others made."""
    difference: str | None = None
    """The first thing that is not as it was installed."""


def inspect_installation(dist_info: Path) -> Installation:
    """Compare every installed file with the record that `strop env install` left."""
    if _is_editable(dist_info):
        return Installation("editable")
    record = _read_record(dist_info / INSTALL_RECORD_NAME)
    if record is None:
        return Installation("unknown owner")
    difference = _first_difference(dist_info, record)
    return Installation("matches" if difference is None else "differs", record, difference)


def write_install_record(dist_info: Path, record: InstallRecord) -> None:
    """Leave `record` in the folder, listed in RECORD. Source: binary distribution format, RECORD.

    Raises:
        InstallError: the installer left no RECORD, or the folder cannot be written.
    """
    listing = dist_info / "RECORD"
    try:
        content = listing.read_bytes()
        own_path = f"{dist_info.name}/{INSTALL_RECORD_NAME}"
        if all(path != own_path for path, _ in listed_files(content)):
            # Without a hash, as RECORD itself: each of the two holds the other's digest.
            content += b"" if content.endswith(b"\n") else b"\n"
            content += f"{own_path},,\n".encode()
            _replace(listing, content)
        values = asdict(record) | {"record_sha256": hashlib.sha256(content).hexdigest()}
        text = json.dumps(values, indent=2) + "\n"
        _replace(dist_info / INSTALL_RECORD_NAME, text.encode())
    except OSError as error:
        raise InstallError(
            f"{record.reference} is installed, but its record cannot be written: {error}. "
            "Make the folder writable and install again."
        ) from error


def is_same_content(dist_info: Path, wheel: Path) -> bool:
    """Whether the installed files are exactly those of the wheel, whoever installed them."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
        content = archive.read(name)
    if name.partition("/")[0] != dist_info.name:
        return False
    return all(
        path == name or (digest and listed_digest(dist_info.parent / path) == digest)
        for path, digest in listed_files(content)
    )


def _first_difference(dist_info: Path, record: InstallRecord) -> str | None:
    try:
        content = (dist_info / "RECORD").read_bytes()
    except OSError:
        return "RECORD is missing"
    if hashlib.sha256(content).hexdigest() != record.record_sha256:
        return "RECORD was altered"
    for path, digest in listed_files(content):
        if digest and listed_digest(dist_info.parent / path) != digest:
            return f"{path} was altered or removed"
    return None


def _is_editable(dist_info: Path) -> bool:
    try:
        source = json.loads((dist_info / "direct_url.json").read_text(encoding="utf-8"))
        return bool(source["dir_info"]["editable"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _read_record(path: Path) -> InstallRecord | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return InstallRecord(
            **{field.name: str(values[field.name]) for field in fields(InstallRecord)}
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _replace(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
