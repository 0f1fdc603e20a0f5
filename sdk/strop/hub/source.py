"""The author's tree: what it holds, its digest, and the archive it travels in (step: package)."""

import gzip
import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strop.errors import PackageError
from strop.hub.building.selection import select_paths
from strop.hub.rules.limits import DEFAULT_LIMITS, Limits
from strop.hub.rules.names import check_name, decode_name
from strop.hub.rules.tars import TarStream
from strop.hub.rules.tree import (
    EXECUTABLE,
    FILE,
    LINK,
    Mode,
    SourceMember,
    check_tree,
    digest_members,
    target_sha256,
)

__all__ = [
    "SourceFacts",
    "SourceMember",
    "copy_source",
    "extract_source_archive",
    "list_source",
    "read_source_archive",
    "tree_digest",
    "write_source_archive",
]


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a valid source archive holds."""

    tree_digest: str
    member_count: int
    unpacked_bytes: int


def list_source(folder: Path) -> list[SourceMember]:
    """Every file and link of `folder` that git would not ignore, sorted by the bytes of its path.

    As in git, a file's mode is 644, or 755 when its owner may execute it; hard links are files of
    their own; relative links inside the tree are kept.

    Raises:
        PackageError: A member cannot be shipped; the message names it.
    """
    members = [_member(folder, raw) for raw in select_paths(folder)]
    check_tree(members, str(folder))
    return members


def _member(folder: Path, raw: bytes) -> SourceMember:
    path = decode_name(raw, str(folder))
    check_name(path, str(folder))
    try:
        status = os.lstat(folder / path)
        if stat.S_ISLNK(status.st_mode):
            target = decode_name(os.readlink(os.fsencode(folder / path)), str(folder))
            return SourceMember(path, LINK, 0, target)
    except OSError as error:
        raise PackageError(f"{folder}: {path!a} cannot be read: {error.strerror}.") from None
    except UnicodeEncodeError as error:
        raise PackageError(
            f"{folder}: {path!a} is a name that this Python cannot write in {error.encoding}. "
            "Set PYTHONUTF8=1."
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise PackageError(
            f"{folder}: {path!a} is a device, pipe or socket. Remove it, or add it to .gitignore."
        )
    mode: Mode = EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE
    return SourceMember(path, mode, status.st_size)


def tree_digest(folder: Path, members: Iterable[SourceMember]) -> str:
    """The digest that tells whether a tree is the same tree, in lower-case hex."""
    return digest_members((member, _member_sha256(folder, member)) for member in members)


def _member_sha256(folder: Path, member: SourceMember) -> str:
    if member.target is not None:
        return target_sha256(member.target)
    with (folder / member.path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def copy_source(folder: Path, members: Iterable[SourceMember], tree: Path) -> None:
    """Copy what is shipped to `tree`: nothing else is built from, and nothing written to `folder`.

    Raises:
        PackageError: A file changed or vanished since it was listed.
    """
    for member in members:
        place = tree / member.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if member.target is not None:
            place.symlink_to(member.target)
            continue
        try:
            shutil.copyfile(folder / member.path, place, follow_symlinks=False)
            is_same = not place.is_symlink() and place.stat().st_size == member.size_bytes
        except OSError as error:
            raise PackageError(f"{folder}: {member.path!a} cannot be copied: {error}.") from None
        if not is_same:
            raise PackageError(f"{folder}: {member.path!a} changed meanwhile. Try again.")
        place.chmod(int(member.mode[-3:], 8))


def write_source_archive(
    folder: Path,
    members: Sequence[SourceMember],
    target: Path,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Write `members` of `folder` as a ``.tar.gz`` that depends on nothing but them.

    Sorted, owners and times zeroed, pax records only for names that the plain form cannot hold.

    Raises:
        PackageError: The tree is too large, or changed meanwhile.
    """
    limits.check_count(len(members), str(folder))
    with (
        target.open("wb") as stream,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member in sorted(members, key=lambda member: member.path.encode()):
            _add(archive, folder, member)
    # How large a tree may be depends on how small it packs: data that is compressed may be large.
    unpacked_bytes = sum(member.size_bytes for member in members)
    limits.check_size(unpacked_bytes, str(folder), target.stat().st_size)


def _add(archive: tarfile.TarFile, folder: Path, member: SourceMember) -> None:
    header = tarfile.TarInfo(member.path)
    if member.target is not None:
        header.type, header.linkname, header.mode = tarfile.SYMTYPE, member.target, 0o777
        archive.addfile(header)
        return
    header.size, header.mode = member.size_bytes, int(member.mode[-3:], 8)
    try:
        with (folder / member.path).open("rb") as stream:
            archive.addfile(header, stream)
            has_grown = stream.read(1) != b""
    except OSError as error:
        raise PackageError(f"{folder}: {member.path!a} cannot be read: {error}.") from None
    if has_grown:
        raise PackageError(f"{folder}: {member.path!a} changed meanwhile. Try again.")


def read_source_archive(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> SourceFacts:
    """Facts about the archive at `path`, when no rule is broken; nothing is written.

    Raises:
        PackageError: A rule is broken; the message names rule and member.
    """
    with path.open("rb") as stream:
        archive = TarStream(stream, path.name, limits)
        digests = [(member, _sha256(member, chunks)) for member, chunks in archive.members()]
    check_tree((member for member, _ in digests), path.name)
    return SourceFacts(digest_members(digests), len(digests), archive.unpacked_bytes)


def _sha256(member: SourceMember, chunks: Iterator[bytes]) -> str:
    if member.target is not None:
        return target_sha256(member.target)
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def extract_source_archive(path: Path, folder: Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Give the tree in the archive at `path` back as `folder`: all of it, or nothing.

    Raises:
        PackageError: A rule is broken, `folder` exists and is not empty, or writing fails.
    """
    read_source_archive(path, limits=limits)
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise PackageError(f"{folder} exists and is not an empty folder. Choose another one.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)
        tree = Path(beside) / folder.name
        try:
            tree.mkdir()
            with path.open("rb") as stream:
                _extract(TarStream(stream, path.name, limits), tree)
            os.replace(tree, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except (OSError, UnicodeEncodeError) as error:
        raise PackageError(f"{path.name} cannot be unpacked to {folder}: {error}.") from error


def _extract(archive: TarStream, tree: Path) -> None:
    links = []
    for member, chunks in archive.members():
        place = tree / member.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if member.target is not None:
            links.append((place, member.target))
            continue
        with place.open("xb") as target:
            for chunk in chunks:
                target.write(chunk)
        place.chmod(int(member.mode[-3:], 8))
    # Links come last: no file is ever written through one.
    for place, link_target in links:
        place.symlink_to(link_target)
