"""An environment in a virtual environment of its own, behind the serve protocol (step: load)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

from strop.config import cache_folder
from strop.errors import InstallError
from strop.hub.client import HubClient
from strop.hub.install import InstallOptions, install
from strop.hub.push import resolve_one
from strop.serve.client import RemoteEnvironment
from strop.serve.launch import launch

_READY_NAME = "strop-ready"


@contextlib.asynccontextmanager
async def launch_isolated(
    client: HubClient,
    reference: str,
    *,
    settings: Mapping[str, str] | None = None,
    worker_count: int = 1,
    announce: Callable[[str], None] = lambda message: None,
) -> AsyncIterator[RemoteEnvironment]:
    """Install an environment apart from this interpreter, and serve it while the block runs.

    Environments whose packages do not fit together, such as two owners' of one name, run side by
    side so. The virtual environment is kept and used again for the same digest and Python.

    Args:
        client: Of the hub that has it.
        reference: Such as ``ada/math-env@~=1.0``.
        settings: For ``load_environment``, as on the command line.
        worker_count: Processes.
        announce: Called with what is being done.

    Raises:
        HubRefusedError: The reference names nothing that can be installed.
        InstallError: It cannot be installed.
        EnvironmentLoadError: It does not start.
    """
    python, exact = await asyncio.to_thread(prepare, client, reference, announce)
    async with launch(
        exact, python=python, settings=settings, worker_count=worker_count
    ) as environment:
        yield environment


def prepare(
    client: HubClient, reference: str, announce: Callable[[str], None] = lambda message: None
) -> tuple[Path, str]:
    """The interpreter that has an environment and nothing else, and its exact reference.

    Raises:
        HubRefusedError: The reference names nothing that can be installed.
        InstallError: It cannot be installed.
    """
    version = resolve_one(client, reference)
    exact = f"{version.owner}/{version.name}@{version.version}"
    tag = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_folder() / "isolated" / f"{version.digest}-{tag}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    with _alone(folder):
        if not (folder / _READY_NAME).exists():
            announce(f"Installing {exact} into {folder}")
            # Half of one is left where an installation was killed.
            shutil.rmtree(folder, ignore_errors=True)
            _create(folder)
            install(client, [exact], InstallOptions(folder), announce=announce)
            (folder / _READY_NAME).touch()
    return python, exact


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep others from making the same folder meanwhile."""
    import fcntl

    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _create(folder: Path) -> None:
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        said = (made.stderr or made.stdout).strip()
        raise InstallError(f"No virtual environment can be made in {folder}: {said}")
