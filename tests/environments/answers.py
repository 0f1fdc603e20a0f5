"""What several answers to a task are worth, through the rollout that everybody uses."""

from collections.abc import Iterable

from strop import Environment, ScriptedModel, Task


async def reward_of(environment: Environment, task: Task, text: str) -> float:
    """The reward of one answer; a failure is an error of the test."""
    trajectory = await environment.rollout(task, ScriptedModel.constant(text))
    assert trajectory.failure is None, (task.key, text, trajectory.failure)
    assert trajectory.reward is not None
    return trajectory.reward


def solution_of(environment: Environment, task: Task) -> str:
    """What the environment's own oracle answers."""
    assert environment.oracle is not None
    answer = environment.oracle(task)
    assert isinstance(answer, str)
    return answer


async def misjudged(
    environment: Environment, answers: Iterable[tuple[Task, str]], expected: float
) -> list[str]:
    """Keys of the tasks whose answer gets another reward than expected."""
    return [
        task.key for task, text in answers if await reward_of(environment, task, text) != expected
    ]
