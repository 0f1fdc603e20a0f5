"""Files go in and out of living sandboxes exactly, and no path, name or kind leads elsewhere."""

import asyncio
import contextlib
import io
import os
import stat
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from strop.errors import SandboxError
from strop.sandbox import Backend, Entry, Sandbox, SandboxSpec
from tests.sdk.sandbox.conftest import MIB, TIGHT

pytestmark = pytest.mark.asyncio(loop_scope="module")
SPEC = SandboxSpec(limits=TIGHT)


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(shared: Backend) -> AsyncIterator[Sandbox]:
    async with await shared.create(SPEC) as created:
        yield created


NAMES = ["a", "a b", "-rf", "é", "'\"", "*", "a\nb", "..a", "...", " ", "\\", "x" * 255, "\t"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
async def test_any_name_that_a_file_may_have_works(sandbox: Sandbox, name: str) -> None:
    await sandbox.write(f"d/{name}", name.encode())

    assert await sandbox.read(f"d/{name}") == name.encode()
    assert [entry.name for entry in await sandbox.list("d")] == [name]


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, MIB, 8 * MIB])
async def test_contents_of_any_size_come_back(sandbox: Sandbox, size: int) -> None:
    content = (bytes(range(256)) * (size // 256 + 1))[:size]
    await sandbox.write("f", content)

    assert await sandbox.read("f") == content
    assert (await sandbox.list())[0] == Entry("f", "file", size)


@pytest.mark.parametrize(
    ("offset", "most_bytes", "part"),
    [(0, 0, b""), (0, 4, b"0123"), (8, 4, b"89"), (10, 4, b""), (99, 4, b""), (3, 99, b"3456789")],
)
async def test_parts_of_a_file_are_read(
    sandbox: Sandbox, offset: int, most_bytes: int, part: bytes
) -> None:
    await sandbox.write("f", b"0123456789")

    assert await sandbox.read("f", offset=offset, most_bytes=most_bytes) == part


async def test_writing_again_replaces_and_keeps_no_tail(sandbox: Sandbox) -> None:
    await sandbox.write("f", b"a long content")
    await sandbox.write("f", b"short")

    assert await sandbox.read("f") == b"short"


async def test_only_executables_can_be_executed(sandbox: Sandbox) -> None:
    script = b"#!/bin/sh\necho ran\n"
    await sandbox.write("yes", script, is_executable=True)
    await sandbox.write("no", script)

    assert (await sandbox.exec(["./yes"])).text == "ran\n"
    assert (await sandbox.exec(["./no"])).exit_code == 126


PREPARE = """
mkdir -p d/e; echo x > d/f; mkfifo p; ln -s d l; ln -s d/f lf; ln -s /etc le; ln -s nowhere lb
ln -s . loop; mkdir closed; chmod 000 closed; echo x > secret; chmod 000 secret
"""
OUTSIDE = [
    "..",
    "../x",
    "d/../../x",
    "/etc/passwd",
    "/",
    "le/passwd",
    "l/f",
    "lf",
    "lb",
    "loop/d/f",
]
UNREADABLE = [*OUTSIDE, "", ".", "d", "d/", "p", "absent", "d/f/x", "secret", "closed/x", "a" * 256]


@pytest.mark.parametrize("path", UNREADABLE, ids=range(len(UNREADABLE)))
async def test_what_is_no_readable_regular_file_inside_is_an_oserror(
    sandbox: Sandbox, path: str
) -> None:
    await sandbox.exec(PREPARE)
    with pytest.raises(OSError, match=r"\S"):
        await sandbox.read(path)


@pytest.mark.parametrize("path", [*OUTSIDE, "", "d", "d/f/x", "closed/x"])
async def test_nothing_is_written_where_it_does_not_belong(sandbox: Sandbox, path: str) -> None:
    await sandbox.exec(PREPARE)
    with pytest.raises(OSError, match=r"\S"):
        await sandbox.write(path, b"evil")

    assert (await sandbox.exec("cat d/f; test -e nowhere")).text == "x\n"


@pytest.mark.parametrize("path", ["..", "/", "/etc", "le", "l", "d/f", "p", "absent", "closed"])
async def test_only_folders_inside_are_listed(sandbox: Sandbox, path: str) -> None:
    await sandbox.exec(PREPARE)
    with pytest.raises(OSError, match=r"\S"):
        await sandbox.list(path)


async def test_a_list_tells_kinds_and_sizes(sandbox: Sandbox) -> None:
    await sandbox.exec(PREPARE)
    entries = {entry.name: entry for entry in await sandbox.list()}

    kinds = {name: entries[name].kind for name in ("d", "p", "l", "lb", "secret", "tmp")}
    assert kinds == {
        "d": "folder",
        "p": "other",
        "l": "link",
        "lb": "link",
        "secret": "file",
        "tmp": "folder",
    }
    assert entries["secret"].size_bytes == 2


async def test_a_full_disk_is_told_and_leaves_the_sandbox_usable(sandbox: Sandbox) -> None:
    for index in range(2):
        await sandbox.write(f"big{index}", bytes(7 * MIB))
    with pytest.raises(OSError, match="No space left"):
        await sandbox.write("more", bytes(7 * MIB))
    await sandbox.exec("rm big* more")
    await sandbox.write("small", b"x")

    assert await sandbox.read("small") == b"x"


async def test_many_files_are_written_at_once(sandbox: Sandbox) -> None:
    await asyncio.gather(*(sandbox.write(f"d/{n}", str(n).encode()) for n in range(30)))
    contents = await asyncio.gather(*(sandbox.read(f"d/{n}") for n in range(30)))

    assert contents == [str(n).encode() for n in range(30)]


async def test_a_snapshot_keeps_modes_links_and_empty_folders(
    shared: Backend, sandbox: Sandbox
) -> None:
    await sandbox.exec("mkdir -p t/e; echo x > t/f; chmod 751 t/f; ln -s f t/l; ln t/f t/h")
    archive = await sandbox.snapshot("t")
    async with await shared.create(SPEC) as other:
        await other.restore(archive, "u")
        shown = await other.exec("cd u; stat -c '%n %a %F' e f h l; readlink l; cat h")

    assert shown.text.splitlines() == [
        "e 755 directory",
        "f 751 regular file",
        "h 751 regular file",
        "l 777 symbolic link",
        "f",
        "x",
    ]


async def test_a_snapshot_can_be_read_here_without_unpacking(sandbox: Sandbox) -> None:
    await sandbox.write("a/b", b"content")
    with tarfile.open(fileobj=io.BytesIO(await sandbox.snapshot())) as archive:
        member = archive.extractfile("./a/b")
        assert member is not None
        assert member.read() == b"content"


@pytest.mark.parametrize("archive", [b"", b"no archive", bytes(1024), b"\x1f\x8b"])
async def test_what_is_no_archive_harms_nobody(sandbox: Sandbox, archive: bytes) -> None:
    await sandbox.write("kept", b"x")
    with contextlib.suppress(OSError, SandboxError):
        await sandbox.restore(archive)

    assert await sandbox.read("kept") == b"x"


async def test_uploads_keep_the_executable_bit(sandbox: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "tool"
    source.write_bytes(b"#!/bin/sh\necho tool\n")
    source.chmod(0o755)
    await sandbox.upload(source, "bin/tool")

    assert (await sandbox.exec(["bin/tool"])).text == "tool\n"


async def test_a_download_is_a_plain_file_of_ours(sandbox: Sandbox, tmp_path: Path) -> None:
    await sandbox.exec("echo x > f; chmod 6777 f")
    await sandbox.download("f", tmp_path / "f")

    facts = os.stat(tmp_path / "f")
    assert facts.st_uid == os.geteuid()
    assert not facts.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IXUSR)


async def test_files_of_a_stopped_sandbox_are_gone(shared: Backend) -> None:
    sandbox = await shared.create(SPEC)
    await sandbox.write("f", b"x")
    await sandbox.stop()
    await sandbox.stop()

    with pytest.raises(SandboxError):
        await sandbox.read("f")
    with pytest.raises(SandboxError):
        await sandbox.exec("true")


async def test_variables_of_a_sandbox_give_way_to_those_of_a_run(shared: Backend) -> None:
    spec = replace(SPEC, env={"A": "1", "B": "2"})
    async with await shared.create(spec) as sandbox:
        shown = await sandbox.exec("echo $A $B $C", env={"B": "3", "C": "4"})

    assert shown.text == "1 3 4\n"


async def test_a_run_in_a_sandbox_sees_what_earlier_ones_wrote(sandbox: Sandbox) -> None:
    await sandbox.run("open('from-python', 'w').write('p')")
    await sandbox.run("echo b > from-bash", "bash")
    many = await sandbox.run_many("print(open('from-python').read() + input())", [b"1", b"2"])

    assert (await sandbox.exec("cat from-bash")).text == "b\n"
    assert [result.text for result in many] == ["p1\n", "p2\n"]
