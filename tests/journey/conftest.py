"""One author, one hub and one user's machine for all journeys: each is made once for a run."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from demo.hub import STROP, create_hub, serve_hub
from tests.architecture.tree import ROOT


@dataclass(frozen=True)
class CommandLine:
    """A `strop` command as somebody has it: which one, whose hub and token, in which folder."""

    strop: Path
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        """Run it, whatever its exit code."""
        return subprocess.run(
            [self.strop, *arguments],
            cwd=self.folder,
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def ask(self, *arguments: str | Path) -> Any:
        """Run it with ``--json``; it must succeed."""
        finished = self.run(*arguments, "--json")
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return json.loads(finished.stdout)


@dataclass(frozen=True)
class RunningHub:
    """A hub's process."""

    address: str
    token: str
    """Its administrator's."""
    data: Path

    @property
    def variables(self) -> dict[str, str]:
        """What makes the command line talk to it."""
        return {"STROP_HUB": self.address, "STROP_TOKEN": self.token}


@dataclass(frozen=True)
class Pushed:
    """What the author pushed."""

    folder: Path
    answer: dict[str, Any]

    @property
    def version(self) -> dict[str, Any]:
        """The published version, as the hub tells it."""
        version: dict[str, Any] = self.answer["version"]
        return version


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A hub, created and served as its operator would."""
    folder = tmp_path_factory.mktemp("hub")
    token = create_hub(folder, admin="ada")
    with serve_hub(folder) as address:
        yield RunningHub(address, token, folder / "hub")


@pytest.fixture(scope="session")
def author(hub: RunningHub, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The author's command line."""
    return CommandLine(STROP, tmp_path_factory.mktemp("author"), hub.variables)


@pytest.fixture(scope="session")
def project(author: CommandLine) -> Path:
    """What `strop env init` wrote, with files that only a careful archive keeps."""
    assert author.run("env", "init", "coin-env").returncode == 0
    (pyproject,) = author.folder.glob("*/pyproject.toml")
    folder = pyproject.parent
    (folder / "notes").mkdir()
    (folder / "notes" / "kept.tmp").write_text("kept by a negation\n")
    (folder / "notes" / "lost.tmp").write_text("ignored\n")
    (folder / ".gitignore").write_text("*.tmp\n!kept.tmp\n__pycache__/\n")
    (folder / "tool.sh").write_text("#!/bin/sh\n")
    (folder / "tool.sh").chmod(0o755)
    (folder / "link").symlink_to("notes/kept.tmp")
    return folder


@pytest.fixture(scope="session")
def pushed(author: CommandLine, project: Path) -> Pushed:
    """The project, pushed as the administrator's own."""
    return Pushed(project, author.ask("env", "push", project, "--owner", "ada"))


@pytest.fixture(scope="session")
def user(
    author: CommandLine, pushed: Pushed, hub: RunningHub, tmp_path_factory: pytest.TempPathFactory
) -> CommandLine:
    """A user's command line in a fresh virtual environment, filled from the hub alone."""
    folder = tmp_path_factory.mktemp("user")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    author.ask("env", "install", "ada/coin-env@~=0.1", "--python", python)
    return CommandLine(python.with_name("strop"), folder, {"STROP_HUB": hub.address})


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Strop itself, built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    subprocess.run(
        [*command, str(folder), str(ROOT)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    (built,) = folder.glob("strop-*.whl")
    return built


@pytest.fixture(scope="session")
def operator(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`strop` as `pip install 'strop[hub]'` gives it from the wheel, far from the checkout."""
    folder = tmp_path_factory.mktemp("operator")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", f"strop[hub] @ {wheel.as_uri()}"]
    subprocess.run(install, check=True, cwd=folder, stdin=subprocess.DEVNULL)
    return python.with_name("strop")
