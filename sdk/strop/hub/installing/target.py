"""The interpreter that is installed into: its version, its packages, what a kill left half done."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from strop.errors import InstallError

_MARKER_NAME = ".strop-install-in-progress"
_PROBE = """
import importlib.metadata, importlib.util, json, platform, sys, sysconfig
packages = []
for d in importlib.metadata.distributions():
    try:
        if d.metadata and "Name" in d.metadata:
            packages.append((d.metadata["Name"], d.version, str(getattr(d, "_path", ""))))
    except (OSError, ValueError):
        pass  # What cannot be read cannot be used either.
print(json.dumps({
    "python": platform.python_version(),
    "folder": sysconfig.get_path("purelib"),
    "has_pip": importlib.util.find_spec("pip") is not None,
    "packages": packages,
}))
"""


@dataclass(frozen=True, slots=True)
class Package:
    """One installed distribution."""

    name: str
    version: str
    dist_info: Path


@dataclass(frozen=True, slots=True)
class Target:
    """An interpreter and what it has installed."""

    python: Path
    python_version: str
    folder: Path
    """Where pure Python packages are installed."""
    has_pip: bool
    packages: dict[str, Package]
    """By normal name; the first on the import path wins."""


def read_target(python: Path | None = None) -> Target:
    """Ask an interpreter what it is; None is the running one.

    Args:
        python: An interpreter, or the folder of a virtual environment.

    Raises:
        InstallError: there is no interpreter, or one older than Strop supports.
    """
    path = _interpreter(python)
    # Safe path: what lies in the working directory must not shadow the standard library.
    command = [str(path), "-P", "-c", _PROBE]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(
            f"{path} cannot be run: {error}. Give --python an interpreter."
        ) from error
    if finished.returncode != 0:
        raise InstallError(
            f"{path} is no Python ≥ 3.11 that works ({_last_line(finished.stderr)}). "
            "Give --python another interpreter."
        )
    try:
        return _parse(path, json.loads(finished.stdout.splitlines()[-1]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise InstallError(
            f"{path} is no Python: it answers {finished.stdout[:80]!r}. "
            "Give --python an interpreter."
        ) from error


@contextmanager
def installation(target: Target) -> Iterator[None]:
    """Mark the target while an installer runs; first mend what a killed one left.

    An installer that is killed while it copies leaves metadata without RECORD: the package then
    counts as installed, and can be neither used nor replaced. Only a kill leaves the marker.

    Another installation into the same target is waited for: what it is copying looks half done.

    Raises:
        InstallError: the target cannot be written.
    """
    marker = target.folder / _MARKER_NAME
    try:
        lock, was_killed = _lock(marker)
    except OSError as error:
        raise _unwritable(target, error) from error
    with os.fdopen(lock):
        try:
            if was_killed:
                started_at = marker.stat().st_mtime
                for folder in target.folder.glob("*.dist-info"):
                    _remove_if_half_installed(folder, started_at)
            os.utime(marker)
        except OSError as error:
            raise _unwritable(target, error) from error
        try:
            yield
        except InstallError:
            marker.unlink(missing_ok=True)
            raise
        marker.unlink(missing_ok=True)


def _lock(marker: Path) -> tuple[int, bool]:
    """The marker, open and locked, and whether one that was killed had left it."""
    while True:
        try:
            lock, is_new = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), True
        except FileExistsError:
            try:
                lock, is_new = os.open(marker, os.O_RDWR), False
            except FileNotFoundError:
                continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Whoever held the lock before has removed the file, unless it was killed.
            if _is_same_file(lock, marker):
                return lock, not is_new
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _unwritable(target: Target, error: OSError) -> InstallError:
    return InstallError(
        f"{target.folder} cannot be written: {error}. "
        "Install into a virtual environment of your own, with --python."
    )


def _remove_if_half_installed(dist_info: Path, started_at: float) -> None:
    if (dist_info / "RECORD").exists() or not dist_info.is_dir():
        return
    if dist_info.stat().st_mtime < started_at - 1:
        return
    for path in sorted(dist_info.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    dist_info.rmdir()


def _interpreter(python: Path | None) -> Path:
    if python is None:
        return Path(sys.executable)
    if python.is_dir():
        folder = "Scripts" if sys.platform == "win32" else "bin"
        python = python / folder / "python"
    # Not resolved: the link's place is what makes it a virtual environment's interpreter.
    return python.absolute() if len(python.parts) > 1 or python.exists() else python


def _parse(path: Path, facts: dict[str, object]) -> Target:
    packages: dict[str, Package] = {}
    listed = facts["packages"]
    assert isinstance(listed, list)
    for name, version, dist_info in listed:
        key = str(canonicalize_name(name))
        packages.setdefault(key, Package(key, str(version), Path(dist_info)))
    return Target(
        path, str(facts["python"]), Path(str(facts["folder"])), bool(facts["has_pip"]), packages
    )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it says nothing"
