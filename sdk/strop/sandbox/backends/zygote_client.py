"""Starts a zygote, calls its sandboxes, notices its death."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from strop.errors import SandboxError, SandboxUnavailableError
from strop.sandbox import control_groups
from strop.sandbox.base import Profile
from strop.sandbox.zygote import groups
from strop.sandbox.zygote.place import Tier, remove

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from strop.sandbox.zygote.server import main; main(int(sys.argv[2]))"
)
_VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    # What is loaded before forks may start no threads, which forks would not have.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_SDK = str(Path(__file__).resolve().parents[3])
_START_S = 30.0
_STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Which Python becomes the zygote, and as whom."""

    tier: Tier
    python: str
    user: int | None = None
    """Only for root: the user and group that the zygote becomes first."""
    pool_size: int = 4


class Zygote:
    """A running zygote, seen from the client; its death takes every sandbox of it along."""

    def __init__(self, process: subprocess.Popen[bytes], calls: socket.socket, log: int) -> None:
        self._process, self._calls, self._log = process, calls, log
        self._is_broken = False
        self.scratch = ""
        self.pid = process.pid
        """Of the stub; all others are below it."""
        self._groups: list[tuple[str, str, list[str]]] = []
        self.use_count = 0
        self.used_at = time.monotonic()

    @classmethod
    def start(cls, interpreter: Interpreter, profile: Profile) -> Zygote:
        """Start one and wait until it is ready.

        Raises:
            SandboxUnavailableError: It cannot prepare; `errno` and the message tell why.
        """
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        scratch = _make_scratch(interpreter)
        log = os.memfd_create("sandbox-log")
        try:
            process = _spawn(interpreter, far, log)
        except OSError as error:
            near.close()
            os.close(log)
            if scratch:
                os.rmdir(scratch)
            raise SandboxUnavailableError(
                f"{interpreter.python} does not start: {error}", errno=error.errno
            ) from error
        finally:
            far.close()
        zygote = cls(process, near, log)
        zygote.scratch = scratch
        try:
            zygote._introduce(interpreter, profile)
        except BaseException:
            zygote.close()
            raise
        return zygote

    def _introduce(self, interpreter: Interpreter, profile: Profile) -> None:
        if interpreter.tier in ("root", "userns") and interpreter.user is None:
            wanted = {kind: tuple(files) for kind, files in groups.FILES.items()}
            self._groups = control_groups.folders(wanted)
        settings = {
            "tier": interpreter.tier,
            "pool_size": interpreter.pool_size,
            "preload": profile.preload,
            "python_paths": profile.python_paths,
            "mounts": profile.mounts,
            "base_folder": profile.base_folder,
            "scratch": self.scratch,
            "groups": self._groups,
        }
        self._calls.settimeout(_START_S)
        try:
            self._calls.send(json.dumps(settings).encode())
            answer = self._calls.recv(1 << 16)
        except OSError as error:
            raise SandboxUnavailableError(
                f"the zygote does not answer: {error}. {self.log_text()}", errno=error.errno
            ) from error
        if not answer:
            raise SandboxUnavailableError(f"the zygote died at its start: {self.log_text()}")
        told = json.loads(answer)
        if "error" in told:
            raise SandboxUnavailableError(told["error"], errno=told["errno"])
        self._calls.setblocking(False)

    @property
    def group_bounds(self) -> dict[str, str]:
        """``memory`` and ``pids``, where control groups bound them → ``v1`` or ``v2``."""
        versions = {"cgroup": "v1", "cgroup2": "v2"}
        return {name: versions[kind] for _, kind, names in self._groups for name in names}

    def log_text(self) -> str:
        """Give the last lines that it wrote about trouble of its own."""
        return os.pread(self._log, 4096, max(0, os.fstat(self._log).st_size - 4096)).decode(
            errors="replace"
        )

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        return not self._is_broken and self._process.poll() is None

    async def call(self, message: bytes, fd: int) -> None:
        """Give a prepared sandbox its call and the socket to answer on.

        Raises:
            SandboxError: The zygote is dead.
        """
        while True:
            try:
                socket.send_fds(self._calls, [message], [fd])
            except BlockingIOError:
                await asyncio.sleep(0.002)
            except OSError as error:
                # The stub may take a moment more to follow its zygote.
                self._is_broken = True
                raise SandboxError(f"the zygote died: {error}. {self.log_text()}") from error
            else:
                return

    def close(self) -> None:
        """End it and all its sandboxes, and wait until they are gone."""
        self._calls.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(OSError):
            os.close(self._log)
        if self.scratch:
            remove(self.scratch)
        if self._process.returncode:
            groups.remove_left(self.pid, self._groups)


def _make_scratch(interpreter: Interpreter) -> str:
    if interpreter.tier in ("root", "userns"):
        return ""
    folder = tempfile.mkdtemp(prefix="strop-sandbox-")
    if os.geteuid() == 0:
        # Each sandbox has a user of its own, which has to get through to its folder.
        os.chmod(folder, 0o711)  # noqa: S103
        if interpreter.user is not None:
            os.chown(folder, interpreter.user, interpreter.user)
    return folder


def _spawn(interpreter: Interpreter, far: socket.socket, log: int) -> subprocess.Popen[bytes]:
    user = interpreter.user
    return subprocess.Popen(
        # Not -I, which would not let the hashes be set: code that prints a set prints the same
        # in every process.
        [interpreter.python, "-P", "-s", "-S", "-c", _BOOT, _SDK, str(far.fileno())],
        pass_fds=[far.fileno()],
        env=_VARIABLES,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        start_new_session=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )


def default_python() -> str:
    """Give the interpreter that runs this, without its virtual environment."""
    return os.path.realpath(sys.executable)
