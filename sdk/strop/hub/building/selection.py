"""Which files of the author's folder are shipped: those that git would not ignore (step: package).

The selection is git's own, asked of git, with one exception: bytecode caches that are not committed
are left out even where no ignore file names them, because Python writes them whenever the code
runs, and the same source must stay the same tree.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from strop.errors import PackageError

GITLINK = "160000"
_REDIRECTING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
    "GIT_LITERAL_PATHSPECS",
)
"""Set inside git's hooks; they would make git look at another tree."""


def select_paths(folder: Path) -> list[bytes]:
    """The paths that git tracks or would offer to add, relative to `folder`, sorted.

    Files that are tracked but deleted are left out.

    Raises:
        PackageError: git is missing or fails, or a repository lies inside the folder.
    """
    if not folder.is_dir():
        raise PackageError(f"{folder} is no folder. Name the folder that has pyproject.toml.")
    with tempfile.TemporaryDirectory(prefix="strop-git-") as scratch:
        environ = _environ()
        if not _has_repository(folder, environ):
            environ |= {"GIT_DIR": f"{scratch}/git", "GIT_WORK_TREE": str(folder.resolve())}
            _git(["init", "--quiet", "--template="], folder, environ)
        tracked = _git(["ls-files", "--cached", "--stage", "-z"], folder, environ)
        others = _git(["ls-files", "--others", "--exclude-standard", "-z"], folder, environ)
    root = os.fsencode(folder)
    paths = {path for path in _split(others) if not _is_bytecode(path)}
    for line in _split(tracked):
        stage, _, path = line.partition(b"\t")
        if stage.startswith(GITLINK.encode()):
            _refuse_repository(folder, path)
        if _is_there(root, path):
            paths.add(path)
    for path in sorted(paths):
        if path.endswith(b"/"):
            _refuse_repository(folder, path)
    return sorted(paths)


def _split(output: bytes) -> Iterator[bytes]:
    return (part for part in output.split(b"\0") if part)


def _is_bytecode(path: bytes) -> bool:
    return b"__pycache__" in path.split(b"/")[:-1] and path.endswith((b".pyc", b".pyo"))


def _is_there(root: bytes, path: bytes) -> bool:
    """Whether a tracked path still is a file or link, reached through real folders."""
    parts = path.split(b"/")
    parents = [os.path.join(root, *parts[:count]) for count in range(1, len(parts))]
    full = os.path.join(root, path)
    if any(os.path.islink(parent) for parent in parents) or not os.path.lexists(full):
        return False
    return os.path.islink(full) or not os.path.isdir(full)


def _refuse_repository(folder: Path, path: bytes) -> None:
    raise PackageError(
        f"{folder}: {os.fsdecode(path)!a} is a git repository of its own, whose files would be "
        "missing for others. Copy its files in, or add it to .gitignore."
    )


def _has_repository(folder: Path, environ: dict[str, str]) -> bool:
    """Whether the folder lies in a work tree that does not ignore it as a whole."""
    answer = _run(["rev-parse", "--is-inside-work-tree"], folder, environ)
    if answer.returncode and b"not a git repository" not in answer.stderr:
        _raise_failure(folder, answer)
    if answer.stdout.strip() != b"true":
        return False
    prefix = _git(["rev-parse", "--show-prefix"], folder, environ).strip()
    if not prefix or _git(["ls-files", "--cached", "-z"], folder, environ):
        return True
    return _run(["check-ignore", "--quiet", "."], folder, environ).returncode != 0


def _environ() -> dict[str, str]:
    environ = {key: value for key, value in os.environ.items() if key not in _REDIRECTING}
    return environ | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


def _git(arguments: list[str], folder: Path, environ: dict[str, str]) -> bytes:
    answer = _run(arguments, folder, environ)
    if answer.returncode:
        _raise_failure(folder, answer)
    return answer.stdout


def _run(
    arguments: list[str], folder: Path, environ: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-c", "core.fsmonitor=false", *arguments]
    try:
        return subprocess.run(command, cwd=folder, env=environ, capture_output=True, check=False)
    except FileNotFoundError:
        raise PackageError(
            "git is not on the PATH, and it decides which files are shipped. Install git."
        ) from None


def _raise_failure(folder: Path, answer: subprocess.CompletedProcess[bytes]) -> None:
    message = answer.stderr.decode("utf-8", "replace").strip()
    raise PackageError(f"git cannot list the files of {folder}: {message}")
