"""What a model works in: a folder in a sandbox, and interpreters that remember (step: rollout)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from strop.errors import SandboxError, ToolError
from strop.sandbox.client import Backend
from strop.sandbox.repository import ROOT, Repository, TestReport
from strop.sandbox.room import Entry, Sandbox
from strop.sandbox.session import BashSession, PythonSession, SessionResult

SessionKind: TypeAlias = Literal["bash", "python"]


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a workspace serves its model."""

    test_command: Sequence[str] = ("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    """Pytest, as it is started inside the sandbox."""
    answer_chars: int = 20_000
    """Of one answer; of a longer one, beginning and end are told. Keep it within what the model's
    context can hold; `Limits.output_bytes` bounds what is kept at all."""


_DEFAULT = Conduct()


class Workspace:
    """A folder of a sandbox, with a shell and a Python that start when first used.

    Paths are below the folder. What the model can mend is a `ToolError`; a fault of the sandbox
    is a `SandboxError`.
    """

    def __init__(
        self, backend: Backend, sandbox: Sandbox, *, rollout: str = "", conduct: Conduct = _DEFAULT
    ) -> None:
        """Work in a sandbox, whose folder `ROOT` exists.

        Args:
            backend: Where the sandbox comes from; its queue bounds what runs at once.
            sandbox: Ends with the workspace.
            rollout: For whom; queued runs of different rollouts take turns.
            conduct: Test command and length of answers.
        """
        self.sandbox = sandbox
        """For what has no method here; its paths begin with `ROOT`."""
        self.conduct = conduct
        self._backend, self._rollout = backend, rollout
        self._sessions: dict[SessionKind, BashSession | PythonSession] = {}

    async def bash(self, commands: str, *, wall_s: float | None = None) -> SessionResult:
        """Run commands in a shell that keeps folder, variables and background jobs.

        Args:
            commands: One or several lines.
            wall_s: Then they are interrupted; at most, and by default, the sandbox's own limit.
        """
        return await self._run("bash", commands, wall_s)

    async def python(self, code: str, *, wall_s: float | None = None) -> SessionResult:
        """Run statements in a Python that keeps its variables; arguments as for `bash`."""
        return await self._run("python", code, wall_s)

    async def _run(self, kind: SessionKind, code: str, wall_s: float | None) -> SessionResult:
        most_s = self.sandbox.spec.limits.wall_s
        async with self._backend.turn(self._rollout):
            session = self._sessions.get(kind)
            if session is None or not session.is_alive:
                session = self._sessions[kind] = await self._open(kind)
            return await session.run(code, wall_s=most_s if wall_s is None else min(wall_s, most_s))

    async def _open(self, kind: SessionKind) -> BashSession | PythonSession:
        if kind == "bash":
            return await self.sandbox.bash_session(cwd=ROOT)
        return await self.sandbox.python_session(cwd=ROOT)

    async def read(self, path: str) -> bytes:
        """Read a file.

        Raises:
            ToolError: There is none, or the path leads out.
        """
        try:
            return await self.sandbox.read(_beneath(path))
        except OSError as error:
            raise _told(path, error) from error

    async def write(self, path: str, content: bytes) -> None:
        """Write a file, with the folders that lead to it.

        Raises:
            ToolError: The path leads out, or there is no space.
        """
        try:
            await self.sandbox.write(_beneath(path), content)
        except OSError as error:
            raise _told(path, error) from error

    async def list(self, path: str = "") -> list[Entry]:
        """List a folder.

        Raises:
            ToolError: There is none, or the path leads out.
        """
        try:
            return await self.sandbox.list(_beneath(path))
        except OSError as error:
            raise _told(path, error) from error

    async def run_tests(self, arguments: Sequence[str] = ()) -> TestReport:
        """Run the test command, with further arguments, and read pytest's results."""
        repository = Repository(self.sandbox, base="")
        return await repository.run_tests([*self.conduct.test_command, *arguments])

    async def stop(self) -> None:
        """End everything in it and remove its files; as often as one likes."""
        for session in self._sessions.values():
            session.stop()
        await self.sandbox.stop()


async def make_folder(sandbox: Sandbox) -> None:
    """Make the folder that a workspace works in.

    Raises:
        SandboxError: It cannot be made.
    """
    made = await sandbox.exec(["mkdir", "-p", ROOT])
    if not made.is_ok:
        raise SandboxError(f"the folder {ROOT} cannot be made: {made.error_text.strip()[-300:]}")


def _beneath(path: str) -> str:
    """A path below the sandbox's folder; the absolute one that a shell shows will do, too."""
    path = path.removeprefix(f"/box/{ROOT}").lstrip("/") if _is_shown(path) else path
    if path.startswith("/"):
        raise ToolError(f"{path} is outside the working folder. Give a path below it.")
    return f"{ROOT}/{path}".rstrip("/")


def _is_shown(path: str) -> bool:
    return path == f"/box/{ROOT}" or path.startswith(f"/box/{ROOT}/")


def _told(path: str, error: OSError) -> ToolError:
    return ToolError(f"{path or 'the working folder'}: {error.strerror or error}")
