"""Where the demo keeps what it makes: one folder for each state of the tree."""

import hashlib
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / ".strop"

_PUBLISHED = ("sdk", "hub_server", "environments", "migrations", "pyproject.toml")


def tree_digest() -> str:
    """Eight hex digits that change with everything that the demo publishes.

    A published version never changes, so every state of the tree has a hub of its own.
    """
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z", "--", *_PUBLISHED]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    digest = hashlib.sha256()
    for name in sorted({name for name in listing.split(b"\0") if name}):
        path = ROOT / os.fsdecode(name)
        if path.is_file():
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:8]


def demo_folder() -> Path:
    """The folder of this state of the tree."""
    return STATE / f"demo-{tree_digest()}"


def newest_folder() -> Path | None:
    """The folder that the demo used last, if there is any with a hub."""
    folders = STATE.glob("demo-*/admin-token")
    return max((token.parent for token in folders), key=_used_at, default=None)


def _used_at(folder: Path) -> float:
    return folder.stat().st_mtime
