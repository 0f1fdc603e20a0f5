"""Source archives that somebody else made are refused unless they have the one form we write."""

import contextlib
import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop.errors import PackageError
from strop.hub.rules.limits import MIB, Limits
from strop.hub.source import extract_source_archive, read_source_archive


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    for key, value in fields.items():
        setattr(header, key, value)
    return header, content


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def tar(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=form) as archive:
        for header, content in members:
            archive.addfile(header, io.BytesIO(content))
    return target.getvalue()


def packed(folder: Path, content: bytes) -> Path:
    path = folder / "x.source.tar.gz"
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


def patched(content: bytes, place: int, field: bytes) -> bytes:
    """The tar with a field of its first header replaced, and the checksum mended."""
    header = bytearray(content[:512])
    header[place : place + len(field)] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + content[512:]


def pax(records: bytes) -> bytes:
    header = tarfile.TarInfo("pax")
    header.size, header.type = len(records), b"x"
    block = header.tobuf(tarfile.USTAR_FORMAT)
    return block + records + bytes(-len(records) % 512) + tar(member("a", b"x"))


ONE = tar(member("a", b"x"))

BROKEN = {
    "parent folder": (tar(member("../a")), "leaves the tree"),
    "parent folder inside": (tar(member("a/../../b")), "leaves the tree"),
    "absolute": (tar(member("/etc/passwd")), "absolute"),
    "drive": (tar(member("C:\\x")), "absolute"),
    "doubled": (tar(member("a"), member("a", b"x")), "stands twice"),
    "doubled but for case": (tar(member("a"), member("A")), "differ only in case"),
    "file and folder": (tar(member("a"), member("a/b")), "both a file and a folder"),
    "through a link": (tar(link("a", "b"), member("a/x"), member("b/y")), "both a file and"),
    "link out of the tree": (tar(link("a", "../b"), member("b")), "leads out of the tree"),
    "link out and in": (tar(link("a", "../x/b"), member("b")), "leads out of the tree"),
    "absolute link": (tar(link("a", "/etc/passwd")), "is absolute"),
    "dangling link": (tar(link("a", "b")), "leads to nothing"),
    "link through a link out": (
        tar(link("d/up", ".."), link("x", "d/up/../b"), member("b"), member("d/y")),
        "leads out of the tree|folder that holds it",
    ),
    "link in a circle": (tar(link("a", "b"), link("b", "a")), "in a circle"),
    "link to its own folder": (tar(link("d/a", "."), member("d/b")), "folder that holds it"),
    "link to the root": (tar(link("d/a", ".."), member("d/b")), "folder that holds it"),
    "link without target": (tar(link("a", "")), "target that is empty"),
    "link with backslashes": (tar(link("a", "b\\c"), member("b/c")), "backslashes"),
    "link with contents": (patched(ONE, 156, b"2"), "with contents"),
    "file with target": (tar(member("a", linkname="b")), "with a link target"),
    "hard link": (tar(member("a"), member("b", type=b"1", linkname="a")), "a hard link"),
    "character device": (tar(member("a", type=b"3")), "a device"),
    "block device": (tar(member("a", type=b"4")), "a device"),
    "folder": (tar(member("a", type=b"5")), "a folder"),
    "pipe": (tar(member("a", type=b"6")), "a pipe"),
    "sparse": (patched(ONE, 156, b"S"), "a sparse file"),
    "unknown kind": (patched(ONE, 156, b"Z"), "unknown kind"),
    "mode": (tar(member("a", mode=0o4755)), "mode 4755"),
    "gnu": (tar(member("a"), form=tarfile.GNU_FORMAT), "ustar or pax form"),
    "wrong checksum": (ONE[:10] + b"b" + ONE[11:], "wrong checksum"),
    "bytes behind a name": (patched(ONE, 5, b"hidden"), "bytes behind a name"),
    "number that is not octal": (patched(ONE, 124, b"00000000009\0"), "not octal"),
    "negative number": (patched(ONE, 124, b"\xff" * 12), "not octal"),
    "sparse in pax": (pax(b"22 GNU.sparse.major=1\n"), "GNU.sparse.major"),
    "size in pax": (pax(b"9 size=9\n"), "pax record 'size'"),
    "doubled record in pax": (pax(b"8 path=b\n" * 2), "broken|stands twice"),
    "broken pax": (pax(b"hello"), "broken pax record"),
    "pax of a wrong length": (pax(b"99 path=b\n"), "broken pax record"),
    "large pax": (pax(b"x" * 20_000), "pax header of more than"),
    "global pax": (patched(pax(b"9 path=b\n"), 156, b"g"), "unknown kind"),
    "pax at the end": (pax(b"9 path=b\n")[:1024] + bytes(1024), "ends after a pax header"),
    "path in pax that leaves": (pax(b"13 path=../b\n"), "leaves the tree"),
    "not UTF-8": (pax(b"9 path=\xff\n"), "not UTF-8"),
    "bytes behind the end": (ONE + b"x", "bytes behind it"),
    "too much padding": (ONE + bytes(2 * MIB), "bytes behind it"),
    "no end": (ONE[:1024], "cut off"),
    "half an end": (ONE[:1536], "no proper end"),
    "contents cut off": (ONE[:600], "cut off"),
    "empty": (b"", "cut off"),
    "no tar": (b"x" * 2048, "no tar"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_each_broken_rule_is_refused_and_nothing_is_unpacked(
    tmp_path: Path, content: bytes, message: str
) -> None:
    archive = packed(tmp_path, content)

    with pytest.raises(PackageError, match=message):
        read_source_archive(archive)
    with pytest.raises(PackageError, match=message):
        extract_source_archive(archive, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ONE, "is no gzip file"),
        (gzip.compress(ONE) + b"x", "bytes behind its end"),
        (gzip.compress(ONE) + gzip.compress(ONE), "bytes behind its end"),
        (gzip.compress(ONE)[:-4], "cut off"),
        (gzip.compress(ONE)[:-8] + b"\0" * 8, "damaged"),
        (b"", "cut off"),
    ],
)
def test_a_file_that_is_not_exactly_one_gzip_member_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    archive = packed(tmp_path, b"")
    archive.write_bytes(content)

    with pytest.raises(PackageError, match=message):
        read_source_archive(archive)


def test_limits_hold_for_count_size_and_ratio(tmp_path: Path) -> None:
    archive = packed(tmp_path, tar(member("a", bytes(50_000)), member("b")))

    with pytest.raises(PackageError, match="more than 1 members"):
        read_source_archive(archive, limits=Limits(member_count=1))
    with pytest.raises(PackageError, match="unpacks to more than"):
        read_source_archive(archive, limits=Limits(unpacked_bytes=49_999))
    with pytest.raises(PackageError, match="more than 20 times its size"):
        read_source_archive(archive, limits=Limits(ratio=20, ratio_from_bytes=1000))


def test_a_bomb_takes_bounded_memory_and_stops_at_the_limit(tmp_path: Path) -> None:
    header = tarfile.TarInfo("zeros")
    header.size = 8 * 1024 * MIB - 1
    archive = tmp_path / "bomb.tar.gz"
    with gzip.open(archive, "wb", compresslevel=1) as stream:
        stream.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(100):
            stream.write(bytes(MIB))
    generous = Limits(unpacked_bytes=16 * 1024 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(PackageError, match="decompression bomb") as refused:
            read_source_archive(archive, limits=generous)
        assert "cannot be read" not in str(refused.value)
        with pytest.raises(PackageError, match="unpacks to more than 1024 MiB"):
            read_source_archive(archive)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 4 * MIB


def test_pax_records_without_meaning_for_the_tree_are_passed_over(tmp_path: Path) -> None:
    archive = packed(tmp_path, tar(member("a", b"x", mtime=1.5, pax_headers={"comment": "hi"})))

    assert read_source_archive(archive).member_count == 1


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4),
    is_packed_first=st.booleans(),
)
def test_damaged_archives_raise_nothing_but_errors_of_their_own(
    tmp_path: Path, changes: list[tuple[int, int]], is_packed_first: bool
) -> None:
    plain = tar(member("a" * 120, b"x" * 600), link("b", "a" * 120), member("é", b"y"))
    content = bytearray(gzip.compress(plain) if is_packed_first else plain)
    for place, value in changes:
        content[place % len(content)] = value
    archive = packed(tmp_path, bytes(content))
    if is_packed_first:
        archive.write_bytes(content)

    with contextlib.suppress(PackageError):
        read_source_archive(archive)
