"""Differences of a source tree hold every kind of change, and go into another tree exactly."""

import io
import shutil
import tarfile
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from strop.errors import SpoiledWorkspaceError
from strop.sandbox import Backend
from strop.sandbox.repository import Repository, open_repository

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

FILES = {
    "a.txt": b"one\ntwo\nthree\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    "binary": bytes(range(256)),
    "no-newline": b"end",
    "d/e/f.txt": b"deep\n",
    "a b/\xc3\xa9.txt".encode("latin-1").decode(): b"named\n",
    "empty": b"",
}


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest_asyncio.fixture(loop_scope="module")
async def repository(shared: Backend) -> AsyncIterator[Repository]:
    async with await open_repository(shared, _archive()) as opened:
        yield opened


CHANGES = [
    "echo four >> a.txt",
    "sed -i s/two/2/ a.txt",
    "rm a.txt",
    "rm -r d",
    "mv a.txt b.txt",
    "mkdir n && echo new > n/new",
    "printf '\\0\\377' > binary",
    "printf x >> no-newline",
    "printf '' > a.txt",
    "echo x > empty",
    "chmod 755 a.txt",
    "ln -s a.txt link",
    "rm a.txt && ln -s crlf.txt a.txt",
    "rm a.txt && mkdir a.txt && echo x > a.txt/inner",
    "printf 'one\\r\\n2\\r\\n' > crlf.txt",
    "printf 'x   \\n\\n\\n' > spaces",
    "echo x > '-rf'; echo x > '*'; echo x > \"it's\"",
    "echo x > \"$(printf 'new\\nline')\"",
    "seq 5000 > long",
    "echo 4 >> a.txt && git commit -qam mine && echo more >> a.txt",
    "git checkout -q -b other && echo x > other",
    "echo '*.log' > .gitignore && echo x > kept",
    "echo '* text eol=crlf' > .gitattributes; echo x > attributed",
    "git config diff.external /bin/false; git config core.pager false; echo x > configured",
    "rm empty && git rm -q --cached empty",
]
_LIST = "find . -path ./.git -prune -o \\( -type f -o -type l \\) -printf '%p %m %l\\n' | sort"
_SUMS = "find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum"


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
async def test_a_change_goes_into_another_tree_exactly(
    shared: Backend, repository: Repository, change: str
) -> None:
    changed = await repository.exec(change)
    assert changed.is_ok, changed.error_text
    diff = await repository.diff()
    assert diff
    async with await open_repository(shared, _archive()) as other:
        await other.apply(diff)
        for look in (_LIST, _SUMS):
            assert (await other.exec(look)).text == (await repository.exec(look)).text


@pytest.mark.parametrize(
    "change",
    [
        "true",
        "touch a.txt",
        "mkdir empty-folder",
        "cp a.txt b && rm b",
        "git tag mine",
        "git gc -q",
    ],
)
async def test_what_changes_nothing_is_an_empty_difference(
    repository: Repository, change: str
) -> None:
    assert (await repository.exec(change)).is_ok

    assert await repository.diff() == b""


async def test_a_difference_is_the_same_whenever_it_is_asked_for(repository: Repository) -> None:
    await repository.write("a.txt", b"changed\n")
    await repository.write("n/new", b"new\n")
    first = await repository.diff()

    assert await repository.diff() == first
    await repository.write("a.txt", FILES["a.txt"])
    await repository.exec("rm -r n")
    assert await repository.diff() == b""


async def test_files_are_read_and_written_below_the_tree_only(repository: Repository) -> None:
    await repository.write("d/new", b"x")

    assert await repository.read("d/new") == b"x"
    for path in ("../../etc/passwd", "d/../../../x", "absent", "d"):
        with pytest.raises(OSError, match=r"\S"):
            await repository.read(path)


@pytest.mark.parametrize(
    "diff", [b"no difference", b"--- a/a.txt\n+++ b/a.txt\n@@ -9,1 +9,1 @@\n-nine\n+9\n"]
)
async def test_what_does_not_apply_is_said_and_changes_nothing(
    repository: Repository, diff: bytes
) -> None:
    with pytest.raises(SpoiledWorkspaceError, match="git apply failed"):
        await repository.apply(diff)

    assert await repository.diff() == b""


@pytest.mark.parametrize("path", ["../evil", "/tmp/evil", ".git/hooks/post-commit"])
async def test_a_hostile_difference_does_not_leave_the_tree(
    repository: Repository, path: str
) -> None:
    diff = f"diff --git a/{path} b/{path}\nnew file mode 100755\n--- /dev/null\n+++ b/{path}\n"
    with pytest.raises(SpoiledWorkspaceError, match="git apply failed"):
        await repository.apply(f"{diff}@@ -0,0 +1 @@\n+evil\n".encode())


async def test_hooks_of_the_code_do_not_run_when_differences_are_taken(
    repository: Repository,
) -> None:
    hook = "printf '#!/bin/sh\\ntouch ../ran\\n' > .git/hooks/$h; chmod +x .git/hooks/$h"
    await repository.exec(
        f"mkdir -p .git/hooks; for h in pre-commit post-index-change; do {hook}; done"
    )
    await repository.exec("git config core.fsmonitor 'touch ../ran'; echo x > new")
    await repository.exec("rm -f ../ran")
    await repository.diff()

    assert (await repository.exec("test -e ../ran")).exit_code == 1


async def test_commands_run_in_the_tree_with_what_they_are_given(repository: Repository) -> None:
    shown = await repository.exec(
        ["sh", "-c", "cat; echo $A; basename $PWD"], stdin=b"in\n", env={"A": "1"}
    )

    assert shown.text == "in\n1\nwork\n"
