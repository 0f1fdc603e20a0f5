"""What several answers to a task are worth, through the rollout that everybody uses."""

from collections.abc import Iterable
from typing import Any

from strop import Environment, ScriptedModel, Task

Solution = Any
"""What a policy says: one reply, or a list of them by turn."""


async def reward_of(environment: Environment, task: Task, solution: Solution) -> float:
    """The reward of one answer; a failure is an error of the test."""
    is_script = isinstance(solution, list)
    model = ScriptedModel.replies(solution) if is_script else ScriptedModel.constant(solution)
    trajectory = await environment.rollout(task, model)
    assert trajectory.failure is None, (task.key, solution, trajectory.failure)
    assert trajectory.reward is not None
    return trajectory.reward


def solution_of(environment: Environment, task: Task) -> Solution:
    """What the environment's own oracle answers."""
    assert environment.oracle is not None
    return environment.oracle(task)


async def misjudged(
    environment: Environment, answers: Iterable[tuple[Task, Solution]], expected: float
) -> list[str]:
    """Keys of the tasks whose answer gets another reward than expected."""
    return [
        task.key for task, text in answers if await reward_of(environment, task, text) != expected
    ]
