"""An author with a hub and a token, and a folder that `strop env init` wrote."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hub_server.running_hub import RunningHub
from tests.sdk.cli.command import Finished, strop


@dataclass
class Author:
    """Somebody whose variables name a hub and a token."""

    name: str
    token: str
    hub: RunningHub

    def run(self, *arguments: str | Path, cwd: Path | None = None, **variables: str) -> Finished:
        """Run a command as this author."""
        own = {"STROP_HUB": self.hub.url, "STROP_TOKEN": self.token}
        return strop(*arguments, cwd=cwd, **(own | variables))


@pytest.fixture
def author(hub: RunningHub) -> Author:
    """A user whom no other test knows."""
    name, token = hub.new_user()
    return Author(name, token, hub)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new environment."""
    folder = tmp_path / "maze"
    assert strop("env", "init", "maze-env", "--folder", folder).code == 0
    return folder
