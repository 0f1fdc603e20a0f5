"""Writes small environments into a folder."""

from collections.abc import Mapping
from pathlib import Path

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "maze-env"
version = "0.1.0"
description = "Find the exit"
readme = "README.md"
license = "MIT"
requires-python = ">=3.11"
authors = [{ name = "Ada", email = "ada@example.org" }, { name = "Bob" }]
dependencies = ["strop>=0.1"]

[project.urls]
Source = "https://example.org/maze"

[project.entry-points."strop.environments"]
maze-env = "maze_env:load_environment"

[tool.strop]
category = "logic"
tags = ["multi-turn"]
reward-range = [0, 1]
deterministic = true
sandbox = "none"
"""

CODE = '''\
"""A maze."""

from typing import Literal


def load_environment(size: int = 4, level: Literal["easy", "hard"] = "easy") -> None:
    """Make the environment.

    Args:
        size: Squares on each side;
            at least 2.
        level (str): How hard it is.

    Returns:
        The environment.
    """
'''


def write_environment(
    folder: Path,
    *,
    edits: Mapping[str, str] | None = None,
    code: str = CODE,
    files: Mapping[str, str] | None = None,
) -> Path:
    """An environment in `folder`; `edits` replaces pieces of its ``pyproject.toml``."""
    text = PYPROJECT
    for old, new in (edits or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    (folder / "maze_env").mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    (folder / "README.md").write_text("# Maze\n\nFind the exit.\n")
    (folder / "maze_env" / "__init__.py").write_text(code)
    for path, content in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return folder
