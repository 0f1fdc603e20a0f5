"""Source trees are changed, tested and compared inside a sandbox, and stay as they were outside."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from strop.errors import SpoiledWorkspaceError
from strop.sandbox import Backend
from strop.sandbox.junit import JUnitError, read_junit
from strop.sandbox.repository import Repository, open_repository
from tests.sdk.sandbox.conftest import TIERS, Tier, open_tier

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

CODE = "def add(a, b):\n    return a - b\n"
TESTS = """
import pytest
from calc import add

@pytest.mark.parametrize("n", [0, 1])
def test_add(n):
    assert add(n, 1) == n + 1

class TestMore:
    def test_zero(self):
        assert add(0, 0) == 0

@pytest.mark.skip(reason="later")
def test_later():
    pass
"""
PYTEST = (f"{sys.prefix}/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.fixture
def tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "tests").mkdir()
        (folder / "calc.py").write_text(CODE)
        (folder / "tests" / "test_calc.py").write_text(TESTS)
        (folder / "link.py").symlink_to("calc.py")
        run = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
            subprocess.run([*run, *command], cwd=folder, check=True)
        yield folder


def _facts(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


async def _open(backend: Backend, source: Path | bytes) -> Repository:
    return await open_repository(backend, source, mounts=[sys.prefix])


async def test_changes_stay_inside_and_come_out_as_a_difference(
    backend: Backend, tier: Tier, tree: Path
) -> None:
    if tier.user is not None:
        for path in (tree, *tree.rglob("*")):
            os.lchown(path, tier.user, tier.user)
    before = _facts(tree)
    async with await open_repository(backend, tree) as one:
        await one.exec("sed -i 's/-/+/' calc.py; printf '\\0\\1' > new.bin; rm tests/test_calc.py")
        diff = await one.diff()
        assert await one.read("calc.py") == CODE.replace("-", "+").encode()
    async with await open_repository(backend, tree) as other:
        assert await other.read("calc.py") == CODE.encode()
        await other.apply(diff)
        names = (await other.exec("ls; cat calc.py; ls tests")).text

    assert "new.bin" in names
    assert "a + b" in names
    assert "test_calc.py" not in names
    assert _facts(tree) == before


async def test_an_archive_without_git_is_a_repository_too(backend: Backend) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("calc.py")
        member.size = len(CODE)
        archive.addfile(member, io.BytesIO(CODE.encode()))
    async with await open_repository(backend, buffer.getvalue()) as repository:
        assert await repository.diff() == b""
        await repository.write("calc.py", b"x = 1\n")
        assert b"+x = 1" in await repository.diff()


async def test_git_works_inside(spaces: Backend, tree: Path) -> None:
    async with await _open(spaces, tree) as repository:
        log = await repository.exec("git log --oneline; git status --short; git checkout -b b")

    assert "first" in log.text
    assert log.is_ok, log.error_text


@pytest.fixture
async def own_python() -> Backend:
    """A backend that can read the Python of this test, with its pytest."""
    return await open_tier(TIERS[0])


async def test_tests_give_a_result_each(own_python: Backend, tree: Path) -> None:
    async with own_python, await _open(own_python, tree) as repository:
        wrong = await repository.run_tests(PYTEST)
        await repository.write("calc.py", CODE.replace("-", "+").encode())
        right = await repository.run_tests(PYTEST)

    found = {outcome.id: outcome.status for outcome in right.outcomes}
    assert found == {
        "tests/test_calc.py::test_add[0]": "passed",
        "tests/test_calc.py::test_add[1]": "passed",
        "tests/test_calc.py::TestMore::test_zero": "passed",
        "tests/test_calc.py::test_later": "skipped",
    }, right.result.text
    assert wrong.status_of("tests/test_calc.py::test_add[0]") == "failed"
    assert right.all_passed(["tests/test_calc.py::test_add[1]"])
    assert not right.all_passed(["tests/test_calc.py::test_never"])


async def test_test_files_are_restored_before_they_run(own_python: Backend, tree: Path) -> None:
    async with own_python, await _open(own_python, tree) as repository:
        await repository.write("tests/test_calc.py", b"def test_add(): pass\n")
        restored = {"tests/test_calc.py": TESTS.encode()}
        report = await repository.run_tests(PYTEST, restored=restored)

    assert report.status_of("tests/test_calc.py::test_add[0]") == "failed"


async def test_tests_that_leave_no_results_are_told_apart(own_python: Backend, tree: Path) -> None:
    async with own_python, await _open(own_python, tree) as repository:
        await repository.write("conftest.py", b"import os; os._exit(0)")
        report = await repository.run_tests(PYTEST)

    assert report.result.exit_code == 0
    assert report.problem is not None
    assert not report.all_passed(["tests/test_calc.py::test_add[0]"])


async def test_a_broken_repository_is_said(spaces: Backend, tree: Path) -> None:
    async with await _open(spaces, tree) as repository:
        await repository.exec("rm -rf .git")
        with pytest.raises(SpoiledWorkspaceError, match="git add failed"):
            await repository.diff()


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite>&b;</testsuite>'


@pytest.mark.parametrize("content", [b"", b"no xml", b"<a>", BOMB])
def test_results_that_are_none_or_hostile_are_refused(content: bytes) -> None:
    with pytest.raises(JUnitError):
        read_junit(content)
