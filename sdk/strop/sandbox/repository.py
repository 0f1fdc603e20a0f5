"""Work on a source tree: change it in a sandbox, run its tests, take the difference out."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from strop.errors import SandboxError, SpoiledWorkspaceError
from strop.sandbox.base import MEBIBYTE, ExecResult, Limits, Profile, SandboxSpec
from strop.sandbox.client import Backend
from strop.sandbox.junit import JUnitError, TestOutcome, read_junit
from strop.sandbox.room import Sandbox

ROOT = "work"
"""The tree's folder below the sandbox's own."""
LIMITS = Limits(
    wall_s=300.0,
    cpu_s=300.0,
    memory_bytes=2048 * MEBIBYTE,
    disk_bytes=512 * MEBIBYTE,
    file_bytes=128 * MEBIBYTE,
    inode_count=200_000,
    pid_count=128,
)
_RESULTS = ".results/junit.xml"
_GIT = {
    # The tree may belong to another user than the sandbox's.
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_AUTHOR_NAME": "sandbox",
    "GIT_AUTHOR_EMAIL": "sandbox@localhost",
    "GIT_COMMITTER_NAME": "sandbox",
    "GIT_COMMITTER_EMAIL": "sandbox@localhost",
    # The same tree is the same commit, whenever it is opened.
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
    "GIT_TERMINAL_PROMPT": "0",
}
_LONGEST_DIFF_BYTES = 32 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class TestReport:
    """What a test command gave; tests and code shared an interpreter, so that none of it is proof.

    Check `outcomes` against the tests that should have run: code can make its tests pass, or not
    run, or fake the file.
    """

    __test__ = False

    result: ExecResult
    outcomes: Sequence[TestOutcome] = ()
    problem: str | None = None
    """Why there are no outcomes; None when there are."""

    def status_of(self, test_id: str) -> str:
        """Give the status of one test; ``missing`` when it did not run."""
        found = [outcome.status for outcome in self.outcomes if outcome.id == test_id]
        return found[0] if len(found) == 1 else "missing"

    def all_passed(self, test_ids: Sequence[str]) -> bool:
        """Tell whether each of these ran exactly once and passed."""
        return all(self.status_of(test_id) == "passed" for test_id in test_ids)


@dataclass(slots=True)
class Repository:
    """A source tree in a sandbox, under git."""

    sandbox: Sandbox
    base: str
    """The commit that differences are taken against."""

    async def exec(self, command: str | Sequence[str], **options: object) -> ExecResult:
        """Run a command in the tree's folder; options as for `Sandbox.exec`."""
        return await self.sandbox.exec(command, cwd=ROOT, **options)  # type: ignore[arg-type]

    async def read(self, path: str) -> bytes:
        """Read a file of the tree."""
        return await self.sandbox.read(f"{ROOT}/{path}")

    async def write(self, path: str, content: bytes) -> None:
        """Write a file of the tree."""
        await self.sandbox.write(f"{ROOT}/{path}", content)

    async def diff(self) -> bytes:
        """Give all changes since the base, new files too, in git's binary form.

        Raises:
            SpoiledWorkspaceError: The code has broken the repository, or changed too much.
        """
        await self._judge("add", "--all", "--intent-to-add")
        plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--binary")
        result = await self._judge("diff", *plain, self.base)
        if result.is_truncated:
            raise SpoiledWorkspaceError(
                f"the difference is larger than {_LONGEST_DIFF_BYTES} bytes"
            )
        return result.stdout

    async def apply(self, diff: bytes) -> None:
        """Apply changes that `diff` gave.

        Raises:
            SpoiledWorkspaceError: They do not apply.
        """
        if diff.strip():
            await self._judge("apply", "--whitespace=nowarn", "-", stdin=diff)

    async def run_tests(
        self,
        command: Sequence[str] = ("python3", "-m", "pytest"),
        *,
        restored: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
    ) -> TestReport:
        """Run pytest and read its results.

        Args:
            command: Pytest, with what it is to run.
            restored: Test files and configuration, written first, whatever became of them.
            limits: Instead of the sandbox's own.
        """
        for path, content in (restored or {}).items():
            await self.write(path, content)
        await self.sandbox.exec("rm -rf .results && mkdir .results")
        options = ("-o", "junit_family=xunit1", f"--junitxml=../{_RESULTS}")
        result = await self.exec([*command, *options], limits=limits)
        try:
            return TestReport(result, read_junit(await self.sandbox.read(_RESULTS)))
        except (OSError, JUnitError) as error:
            return TestReport(result, problem=f"no results: {error}")

    async def _judge(self, *arguments: str, stdin: bytes = b"") -> ExecResult:
        """Run git on what the code left, which is to blame where git itself says no."""
        result = await self._run_git(*arguments, stdin=stdin)
        if result.status in ("ok", "signal"):
            return _checked(arguments[0], result)
        raise SpoiledWorkspaceError(_complaint(arguments[0], result))

    async def _git(self, *arguments: str) -> ExecResult:
        return _checked(arguments[0], await self._run_git(*arguments))

    async def _run_git(self, *arguments: str, stdin: bytes = b"") -> ExecResult:
        limits = replace(self.sandbox.spec.limits, output_bytes=_LONGEST_DIFF_BYTES)
        command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
        return await self.exec([*command, *arguments], stdin=stdin, limits=limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sandbox.stop()


def _checked(command: str, result: ExecResult) -> ExecResult:
    if not result.is_ok:
        raise SandboxError(_complaint(command, result))
    return result


def _complaint(command: str, result: ExecResult) -> str:
    return f"git {command} failed: {result.error_text.strip()[-500:] or result.status}"


async def open_repository(
    backend: Backend,
    source: Path | bytes,
    *,
    mounts: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Repository:
    """Open a source tree in a sandbox of its own; the original is never changed.

    Args:
        backend: Where it runs.
        source: A folder, or a tar archive of one. Where the backend can, a folder is not copied:
            the sandbox sees it read-only beneath its own changes.
        mounts: Further folders of the host, visible read-only, such as a virtual environment.
        env: Variables of every command.
        limits: Of each command. None: those of `LIMITS`.

    Raises:
        SandboxError: The sandbox cannot be started, or git fails in it.
    """
    is_layered = isinstance(source, Path) and backend.capabilities.has_base_folders
    base_folder = str(source.resolve()) if is_layered and isinstance(source, Path) else None  # noqa: ASYNC240
    spec = SandboxSpec(
        limits=limits or LIMITS,
        network="loopback" if "loopback" in backend.capabilities.networks else "none",
        profile=Profile(mounts=tuple(mounts), base_folder=base_folder),
        env={**_GIT, **(env or {})},
    )
    sandbox = await backend.create(spec)
    try:
        if base_folder is None:
            archive = await asyncio.to_thread(_pack, source)
            await sandbox.restore(archive, ROOT)
        repository = Repository(sandbox, base="")
        repository.base = await _find_base(repository)
    except BaseException:
        await sandbox.stop()
        raise
    return repository


def _pack(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(source, arcname=".")
    return buffer.getvalue()


async def _find_base(repository: Repository) -> str:
    """Give the current commit; a tree without git, or with changes, gets a commit of its own."""
    has_git = await repository.exec("test -d .git || test -f .git")
    if not has_git.is_ok:
        await repository._git("init", "--quiet")
    await repository._git("add", "--all")
    await repository._git("commit", "--quiet", "--allow-empty", "--no-verify", "-m", "base")
    head = await repository._git("rev-parse", "HEAD")
    return head.text.strip()
