"""A zip is read only if every unpacker would see the same files in it: one case for each rule."""

import contextlib
import io
import os
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop.errors import ManifestError, PackageError
from strop.hub.archive import check_wheel
from strop.hub.rules.limits import MIB, Limits
from strop.hub.rules.zips import StrictZip
from tests.sdk.hub.forged_zip import (
    WHEEL_NAME,
    Part,
    deflate,
    forge,
    wheel_contents,
    wheel_parts,
    write,
)

GOOD = wheel_parts(wheel_contents())
SMALL = Limits(member_count=5, unpacked_bytes=MIB, ratio=20, ratio_from_bytes=1000)


def zip64(*values: int) -> bytes:
    return struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values)


def zip64_end() -> bytes:
    """An extra field that others take for the end of the directory when it stands last."""
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, 46, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    return struct.pack("<HH", 0x9999, len(record + locator)) + record + locator


def read(content: bytes, limits: Limits | None = None) -> dict[str, bytes]:
    archive = StrictZip(io.BytesIO(content), "x.zip", limits or Limits())
    return {path: archive.read(member) for path, member in archive.members.items()}


def with_part(part: Part) -> bytes:
    return forge([Part(b"a.py", b"pass"), part])


BROKEN = {
    "empty file": (b"", "too short"),
    "not a zip": (b"x" * 100, "is no zip"),
    "bytes before the first member": (forge(GOOD, prefix=b"#!/bin/sh\n"), "bytes before"),
    "bytes behind the end": (forge(GOOD, suffix=b"x"), "bytes behind its end record"),
    "archive comment": (forge(GOOD, suffix=b"hi", end={"comment": 2}), "comment or bytes behind"),
    "bytes before the directory": (forge(GOOD, gap=b"xx"), "unknown bytes between"),
    "bytes between members": (with_part(Part(b"b", before=b"xx")), "unknown bytes before"),
    "overlapping members": (with_part(Part(b"b", offset=0)), "overlaps|contradicts"),
    "cut off": (forge(GOOD)[:-30], "cut off"),
    "wrong directory offset": (forge(GOOD, end={"offset": 7}), "place and size do not fit"),
    "wrong directory size": (forge(GOOD, end={"size": 7}), "place and size do not fit"),
    "count too small": (forge(GOOD, end={"here": 1, "count": 1}), "another size or count"),
    "count too large": (forge(GOOD, end={"here": 9, "count": 9}), "no directory header|cut off"),
    "counts that differ": (forge(GOOD, end={"here": 1}), "miscounts"),
    "several disks": (forge(GOOD, end={"disk": 1}), "several disks"),
    "member on another disk": (with_part(Part(b"b", disk=1)), "another disk"),
    "zip64 end record": (forge(GOOD, end={"here": 0xFFFF, "count": 0xFFFF}), "ZIP64 end record"),
    "zip64 end record inside a member's extra field": (
        with_part(Part(b"b", central_extra=zip64_end())),
        "ZIP64 end record",
    ),
    "member comment": (with_part(Part(b"b", comment=b"hi")), "has a comment"),
    "data descriptor": (with_part(Part(b"b", flags=8)), "data descriptor"),
    "encrypted": (with_part(Part(b"b", flags=1)), "encrypted"),
    "unknown compression": (with_part(Part(b"b", method=12)), "method 12"),
    "stored with two sizes": (with_part(Part(b"b", b"xy", method=0, size=3)), "two sizes differ"),
    "doubled member": (with_part(Part(b"a.py", b"other")), "stands twice"),
    "only case differs": (with_part(Part(b"A.py")), "differ only in case"),
    "only composition differs": (
        forge([Part(n.encode(), flags=2048) for n in ("\u00e9", "e\u0301")]),
        "differ only in case or accents",
    ),
    "file and folder": (with_part(Part(b"a.py/b")), "both a file and a folder"),
    "folder and file": (
        forge([Part(b"a/b"), Part(b"a", method=0)]),
        "both a file and a folder",
    ),
    "absolute": (with_part(Part(b"/etc/passwd")), "absolute"),
    "drive": (with_part(Part(b"C:/x")), "absolute"),
    "leaves the tree": (with_part(Part(b"a/../../b")), r"leaves the tree"),
    "backslash": (with_part(Part(b"a\\b")), "backslash"),
    "control character": (with_part(Part(b"a\nb")), "control characters"),
    "nul": (with_part(Part(b"a\0b")), "control characters"),
    "empty part": (with_part(Part(b"a//b")), "empty or `.` part"),
    "dot part": (with_part(Part(b"./b")), "empty or `.` part"),
    "no name": (with_part(Part(b"")), "no name"),
    "reserved on Windows": (with_part(Part(b"x/CON.txt")), "reserved on Windows"),
    "trailing dot": (with_part(Part(b"x./b")), "dot or space"),
    "long part": (with_part(Part(b"n" * 256)), "longer than 255"),
    "long path": (with_part(Part(b"/".join([b"n" * 200] * 6))), "longer than 1024"),
    "not UTF-8": (with_part(Part(b"\xff", flags=2048)), "not UTF-8"),
    "beyond ASCII, not marked": (with_part(Part("é".encode())), "not marked as UTF-8"),
    "symbolic link": (with_part(Part(b"b", b"a.py", mode=0o120777)), "link or device"),
    "device": (with_part(Part(b"b", mode=0o020644)), "link or device"),
    "folder with contents": (
        with_part(Part(b"d/", b"hidden", mode=0o040755)),
        "folder with contents",
    ),
    "other name in local header": (with_part(Part(b"b", local={"name": b"c"})), "contradicts"),
    "other size in local header": (with_part(Part(b"b", b"xx", local={"size": 1})), "contradicts"),
    "other crc in local header": (with_part(Part(b"b", local={"crc32": 1})), "contradicts"),
    "other method in local header": (
        with_part(Part(b"b", method=0, local={"method": 8})),
        "contradicts",
    ),
    "broken extra": (with_part(Part(b"b", central_extra=b"\1\0\x10\0x")), "broken extra"),
    "short extra": (with_part(Part(b"b", central_extra=b"\1")), "broken extra"),
    "doubled extra": (with_part(Part(b"b", central_extra=zip64() * 2)), "twice"),
    "second name": (with_part(Part(b"b", central_extra=b"\x75\x70\0\0")), "second name"),
    "zip64 that does not fit": (with_part(Part(b"b", central_extra=zip64(7))), "does not fit"),
    "wrong crc": (with_part(Part(b"b", b"xx", crc32=1)), "other contents"),
    "larger than said": (
        with_part(Part(b"b", b"", size=1, packed=deflate(b"x" * 9), crc32=zlib.crc32(b"x" * 9))),
        "other contents",
    ),
    "bytes behind the contents": (
        with_part(Part(b"b", b"xx", packed=deflate(b"xx") + b"hidden")),
        "bytes behind its compressed",
    ),
    "contents cut off": (with_part(Part(b"b", b"xx" * 50, packed=deflate(b"xx" * 50)[:-2])), "cut"),
    "no deflate stream": (with_part(Part(b"b", b"xx", packed=b"\xff\xff\xff")), "inflated"),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_each_broken_rule_is_refused_by_its_own_message(content: bytes, message: str) -> None:
    with pytest.raises(PackageError, match=message):
        read(content)


def test_a_zip_that_is_a_tar_as_well_is_refused() -> None:
    content = bytearray(forge([Part(b"n" * 200, b"x" * 600, method=0)]))
    content[257:262] = b"ustar"
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])

    with pytest.raises(PackageError, match="a zip and a tar at once"):
        read(bytes(content))


@pytest.mark.parametrize("checksum", [b"zzzzzzzz", b"00000000"])
def test_a_zip_that_only_resembles_a_tar_is_not_mistaken_for_one(checksum: bytes) -> None:
    content = bytearray(b"ustar".rjust(600, b"x"))
    body = b"x" * (148 - 31) + checksum + b"x" * (257 - 156) + b"ustar" + b"x" * 400
    content = bytearray(forge([Part(b"n", body, method=0)]))

    assert content[257:262] == b"ustar"
    assert read(bytes(content)) == {"n": body}


def test_too_many_members_are_refused() -> None:
    with pytest.raises(PackageError, match="more than 5 members"):
        read(forge([Part(b"f%d" % number) for number in range(6)]), SMALL)


def test_too_much_content_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(PackageError, match="unpacks to more than 1 MiB"):
        read(forge([Part(b"a", b"", size=MIB), Part(b"b", b"", size=1)]), SMALL)


def test_a_bomb_is_refused_by_its_ratio() -> None:
    with pytest.raises(PackageError, match="more than 20 times its size"):
        read(forge([Part(b"zeros", bytes(100_000))]), SMALL)


def test_a_member_that_is_read_whole_has_a_limit_of_its_own() -> None:
    with pytest.raises(PackageError, match="more than 10 bytes"):
        read(forge([Part(b"a", b"x" * 11)]), Limits(metadata_bytes=10))


def test_unpacking_a_bomb_that_lies_about_its_size_takes_bounded_memory() -> None:
    bomb = deflate(bytes(200 * MIB))
    content = forge([Part(b"zeros", b"", size=MIB, packed=bomb, crc32=0)])
    archive = StrictZip(io.BytesIO(content), "x.zip")
    tracemalloc.start()
    try:
        with pytest.raises(PackageError, match="other contents"):
            for _ in archive.chunks(archive.members["zeros"]):
                pass
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 4 * MIB


@pytest.mark.parametrize(
    "part",
    [
        Part("é.txt".encode(), b"x", flags=2048),
        Part(b"empty", method=0),
        Part(b"empty"),
        Part(b"large", os.urandom(200_000)),
        Part(b"stored", os.urandom(200_000), method=0),
        Part(b"no mode", b"x", mode=0),
        Part(
            b"wide",
            b"xyz",
            local={"size": 0xFFFFFFFF, "packed": 0xFFFFFFFF},
            local_extra=zip64(3, len(deflate(b"xyz"))),
        ),
        Part(b"timestamps", b"x", local_extra=b"UT\1\0x", central_extra=b"UT\1\0y"),
    ],
    ids=lambda part: part.name.decode(),
)
def test_unusual_but_unambiguous_members_are_read(part: Part) -> None:
    assert read(forge([part])) == {part.name.decode(): part.content}


def test_folders_are_allowed_and_are_no_members() -> None:
    parts = [Part(b"d/", mode=0o040755, method=0), Part(b"d/f", b"x")]

    assert read(forge(parts)) == {"d/f": b"x"}


def test_what_zipfile_writes_is_read() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.py", "pass")
        with archive.open("b.py", "w", force_zip64=True) as stream:
            stream.write(b"more")

    assert read(target.getvalue()) == {"a.py": b"pass", "b.py": b"more"}


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 200),
)
def test_damaged_wheels_raise_nothing_but_errors_of_their_own(
    tmp_path: Path, changes: list[tuple[int, int]], cut: int
) -> None:
    content = bytearray(forge(GOOD))
    for place, value in changes:
        content[place % len(content)] = value
    wheel = write(tmp_path, bytes(content[: len(content) - (cut if cut < 100 else 0)]), WHEEL_NAME)

    with contextlib.suppress(PackageError, ManifestError):
        check_wheel(wheel)
