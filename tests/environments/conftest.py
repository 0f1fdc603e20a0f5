"""The environments of this repository, from their folders: they need not be installed."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strop import Environment

FOLDER = Path(__file__).resolve().parents[2] / "environments"

Load = Callable[..., Environment]


@pytest.fixture
def import_path(monkeypatch: pytest.MonkeyPatch) -> str:
    """A PYTHONPATH with every environment's folder, in force here too."""
    folders = [str(path.parent) for path in sorted(FOLDER.glob("*/pyproject.toml"))]
    for folder in folders:
        monkeypatch.syspath_prepend(folder)
    return os.pathsep.join(folders)


@pytest.fixture
def load(import_path: str) -> Iterator[Load]:
    """Makes an environment by the name of its package."""

    def make(name: str, **settings: Any) -> Environment:
        environment: Environment = importlib.import_module(name).load_environment(**settings)
        return environment

    before = set(sys.modules)
    yield make
    for name in sys.modules.keys() - before:
        if name.partition(".")[0].endswith("_env"):
            del sys.modules[name]
