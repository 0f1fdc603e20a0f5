"""Whoever spoils the folder of a repair has repaired nothing."""

import pytest

from strop import ScriptedModel
from strop.models.scripted import call
from tests.environments.conftest import Load

NEST = 'python3 -c \'import os\nfor _ in range(1200): os.mkdir("a"); os.chdir("a")\''


async def test_whoever_takes_the_folder_away_and_ends_the_shell_is_not_excused(load: Load) -> None:
    environment = load("swe_env")
    async with environment:
        away = call("bash", commands="cd /; rm -rf /box/work; kill -9 $$")
        model = ScriptedModel.replies(
            [away, call("bash", commands="ls"), call("run_tests"), "Ready."]
        )
        trajectory = await environment.rollout(environment.tasks["eval"][0], model)

    assert (trajectory.failure, trajectory.reward) == (None, 0.0)


@pytest.mark.parametrize("command", ["chmod 0 /box/work", "cd /; rm -rf /box/work", NEST])
async def test_a_spoiled_folder_is_no_repair_and_no_failure(load: Load, command: str) -> None:
    environment = load("swe_env")
    async with environment:
        model = ScriptedModel.replies([call("bash", commands=command), "Ready."])
        task = environment.tasks["eval"][0]
        trajectory = await environment.rollout(task, model)

    assert (trajectory.failure, trajectory.reward) == (None, 0.0)
    assert "cannot be taken out" in str(trajectory.outcome["spoiled"])
