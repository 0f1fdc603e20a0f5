"""An author with a hub and a token, a new folder, and two environments as they are installed."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hub_server.running_hub import RunningHub
from tests.sdk.cli.command import Finished, strop

CODE = """
    from strop import Environment, Task, TaskSet, reward

    @reward(range=(0, 1), inline=True)
    def {reward}(trajectory):
        return float(trajectory.text == trajectory.task.reference)

    def load_environment(size: int = 3):
        def make(index, rng):
            text = "".join(rng.choices("abc", k=size))
            return Task(str(index), text, text[::-1])

        return Environment(
            tasks={{"train": TaskSet.generate(make), "eval": TaskSet.generate(make, 20)}},
            rewards=[{reward}],
            oracle=lambda task: task.reference,
        )
"""


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


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path with two environments, as an installer leaves them."""
    folder = tmp_path / "site"
    for name in ("first", "second"):
        info = folder / f"{name}_env-0.1.0.dist-info"
        info.mkdir(parents=True)
        code = textwrap.dedent(CODE.format(reward=f"is_{name}"))
        (folder / f"{name}_env.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-env\nVersion: 0.1.0\n")
        point = f"[strop.environments]\n{name}-env = {name}_env:load_environment\n"
        (info / "entry_points.txt").write_text(point)
        (info / "RECORD").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder
