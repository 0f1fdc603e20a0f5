"""A server that belongs to its client: started, used and ended with a block."""

import asyncio
from pathlib import Path

import pytest

from strop import ScriptedModel
from strop.errors import EnvironmentLoadError
from strop.serve.launch import launch
from tests.sdk.serve.remote.serving import write_project


async def test_a_folder_is_served_while_the_block_runs(tmp_path: Path) -> None:
    project = write_project(tmp_path / "count")
    settings = {"folder": str(tmp_path), "size": "2"}
    async with launch(project, settings=settings, worker_count=2) as remote:
        assert (remote.identity.name, remote.identity.version) == ("count-env", "0.3.0")
        assert remote.identity.state == "editable"
        assert remote.settings == {"folder": str(tmp_path), "size": 2}
        assert len(remote.workers) == 2
        model = ScriptedModel.constant("next")
        made = await asyncio.gather(*(remote.rollout(t, model) for t in remote.tasks["train"]))
    assert [each.reward for each in made] == [1.0, 1.0]
    assert made[0].environment == remote.identity
    assert made[0].attempt.environment == "count-env"


async def test_an_episode_that_the_block_leaves_open_is_closed(tmp_path: Path) -> None:
    project = write_project(tmp_path / "count")
    async with launch(project, settings={"folder": str(tmp_path)}) as remote:
        await remote.start(remote.tasks["train"][0]).open()
        assert (tmp_path / "0").exists()
    assert not (tmp_path / "0").exists()


async def test_a_server_that_dies_while_it_loads_is_told_with_what_it_printed(
    tmp_path: Path,
) -> None:
    project = write_project(tmp_path / "count", module="raise RuntimeError('no engine here')")
    with pytest.raises(EnvironmentLoadError, match="no engine here"):
        async with asyncio.timeout(300), launch(project):
            pass


async def test_a_server_that_never_is_ready_is_given_up(tmp_path: Path) -> None:
    module = "import time\nprint('thinking', flush=True)\ntime.sleep(600)"
    project = write_project(tmp_path / "count", module=module)
    with pytest.raises(EnvironmentLoadError, match="not ready within 3 s"):
        async with launch(project, start_limit_s=3):
            pass


async def test_wrong_settings_are_told(tmp_path: Path) -> None:
    project = write_project(tmp_path / "count")
    with pytest.raises(EnvironmentLoadError, match="colour"):
        async with launch(project, settings={"colour": "red"}):
            pass
