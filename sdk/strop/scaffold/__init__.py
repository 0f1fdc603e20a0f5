"""What `strop env init` writes: an environment that passes its check as it stands."""

import json
import keyword
import shutil
import sys
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template

from strop.errors import ConfigError, InvalidRefError
from strop.hub.refs import normalize_name
from strop.testing.project import PLACEHOLDER

TEMPLATES = ("single-turn", "tools")

_SUFFIX = ".in"
"""Of every template's file, so that no tool takes one for what it will become."""
_MODULE = "MODULE"


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A folder that was written."""

    name: str
    """The environment's, in normal form."""
    folder: Path
    files: tuple[Path, ...]
    """Inside the folder, sorted."""


def write_scaffold(
    name: str,
    folder: Path | None = None,
    template: str = TEMPLATES[0],
    *,
    summary: str | None = None,
) -> Scaffold:
    """Write a new environment; nothing is left behind when it fails half way.

    Args:
        name: Such as ``word-count``; it becomes the project's, the entry point's and the hub's.
        folder: A new one; None makes one with the module's name in the working directory.
        template: One of `TEMPLATES`.
        summary: One line for the catalog; None leaves a placeholder, of which a check warns.

    Raises:
        InvalidRefError: the name is none, or no module can be called so.
        ConfigError: the folder exists, or cannot be written.
    """
    name = normalize_name(name)
    module = _module_name(name)
    folder = folder or Path(module)
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} exists already. Choose another name, or give --folder.")
    title = name.replace("-", " ").capitalize()
    values = {
        "name": name,
        "module": module,
        "title": title,
        # What JSON writes, TOML reads.
        "summary": json.dumps(summary or f"{title}: {PLACEHOLDER}", ensure_ascii=False),
        "tag": template,
    }
    root = files(__name__) / "template"
    texts = {
        path.replace(_MODULE, module): Template(text).substitute(values)
        for part in ("shared", template)
        for path, text in _read(root / part)
    }
    try:
        folder.mkdir(parents=True)
        for path, text in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ConfigError(f"{folder} cannot be written: {error}.") from error
    return Scaffold(name, folder, tuple(sorted(Path(path) for path in texts)))


def _module_name(name: str) -> str:
    module = name.replace("-", "_").replace(".", "_")
    if not module.isidentifier() or keyword.iskeyword(module):
        raise InvalidRefError(
            f"{name!r} cannot be a module's name. Begin with a letter, such as env-{name}."
        )
    if module in sys.stdlib_module_names or module in ("strop", "strop_hub", "tests", "test"):
        raise InvalidRefError(f"{name!r} would hide a module of that name. Try {name}-env.")
    return module


def _read(folder: Traversable, prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        path = str(PurePosixPath(prefix, entry.name))
        if entry.is_dir():
            found += _read(entry, path)
        elif entry.name.endswith(_SUFFIX):
            found.append((path.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")))
    return found
