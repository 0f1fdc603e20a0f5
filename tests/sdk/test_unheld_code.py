"""Whatever code of an author or a model does wrong costs its own attempt, and never the run."""

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    Mixture,
    RunPlan,
    Sampling,
    ScriptedModel,
    Task,
    ToolSpec,
    Trajectory,
    evaluate,
    reward,
)
from strop.testing import scripted_policy

BAD = "3"
TASKS = [
    Task(str(number), "q", "a", {} if str(number) == BAD else {"n": number}) for number in range(6)
]
SAYING_X = ScriptedModel.constant("x")


@reward(range=(0, 1), inline=True)
def one(trajectory: Trajectory) -> float:
    return 1.0


class Again(Episode):
    async def respond(self, completion: Completion) -> Any:
        return "again"


class Unmade(Episode):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.task.metadata["n"]


class ListedOutcome(Episode):
    async def setup(self) -> None:
        if self.task.key == BAD:
            self.outcome = [1]  # type: ignore[assignment]


def answering(answer: Any) -> type[Episode]:
    class Answering(Episode):
        async def respond(self, completion: Completion) -> Any:
            return answer if self.task.key == BAD else End()

    return Answering


class Told:
    """A model of somebody's own, which gives some task a completion that is none."""

    name = "own"

    def __init__(self, completion: Completion) -> None:
        self.completion = completion

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        return self.completion

    async def close(self) -> None:
        """Nothing is open."""


class OneOdd:
    """Asks for the model of each task."""

    name = "odd"

    def __init__(self, completion: Completion) -> None:
        self.odd = Told(completion)

    def for_task(self, task: Task) -> Any:
        return self.odd if task.key == BAD else SAYING_X

    async def complete(self, *_: Any) -> Completion:
        raise AssertionError

    async def close(self) -> None:
        """Nothing is open."""


def stop_when(episode: Episode) -> bool:
    return bool(episode.task.metadata["n"]) and False


def made(**options: Any) -> Environment:
    return Environment(tasks=TASKS, rewards=[one], **options)


def oracle_of(task: Task) -> str:
    return str(task.metadata["n"])


def odd(**fields: Any) -> Callable[[Environment], Any]:
    return lambda environment: OneOdd(
        Completion(**{"message": Message("assistant", "x"), **fields})
    )


CASES: dict[str, tuple[Callable[[], Environment], Callable[[Environment], Any], str, str]] = {
    "stop condition": (
        lambda: made(stop_when=[stop_when], episode=Again, max_turns=3),
        lambda _: SAYING_X,
        "environment",
        "`stop_when` of `stop_when` raised KeyError: 'n'",
    ),
    "episode's constructor": (
        lambda: made(episode=Unmade),
        lambda _: SAYING_X,
        "environment",
        "`Unmade.__init__` raised KeyError: 'n'",
    ),
    "oracle": (
        lambda: made(oracle=oracle_of),
        lambda environment: scripted_policy("oracle", environment),
        "model",
        "raised KeyError: 'n'",
    ),
    "outcome": (
        lambda: made(episode=ListedOutcome),
        lambda _: SAYING_X,
        "environment",
        "`outcome` of `ListedOutcome` is [1]. Leave it a dict",
    ),
    "answer's content": (
        lambda: made(episode=answering(Message("user", 5))),  # type: ignore[arg-type]
        lambda _: SAYING_X,
        "environment",
        "Return a string, a Message",
    ),
    "last message": (
        lambda: made(episode=answering(End(5))),  # type: ignore[arg-type]
        lambda _: SAYING_X,
        "environment",
        "Return a string, a Message",
    ),
    "completion without text": (
        made,
        odd(message=Message("assistant", None)),  # type: ignore[arg-type]
        "model",
        "Give a Message with text.",
    ),
    "token ids in a list": (made, odd(token_ids=[1, 2]), "model", "Give array('i', …)."),
    "prompt's ids in a list": (made, odd(prompt_token_ids=[1]), "model", "Give array('i', …)."),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_fault_costs_its_own_attempt(case: str, tmp_path: Path) -> None:
    make, model_for, boundary, message = CASES[case]
    environment, ended = make(), dict[str, Trajectory]()
    plan = RunPlan(max_failure_share=1.0)
    report = await evaluate(
        environment,
        model_for(environment),
        plan,
        out=tmp_path,
        on_trajectory=lambda each: ended.update({each.task.key: each}),
    )
    assert (report.attempt_count, report.scored_count) == (6, 5)
    failure = ended[BAD].failure
    assert failure is not None
    assert failure.boundary == boundary
    assert message in failure.message
    assert ended[BAD].reward is None


async def test_an_episode_that_a_mixture_cannot_make_fails_as_one_of_its_environment() -> None:
    mixture = Mixture({"a": made(episode=Unmade)})
    trajectory = await mixture.rollout(mixture.tasks["train"].get(f"a:{BAD}"), SAYING_X)
    assert trajectory.failure is not None
    assert trajectory.failure.message == "`Unmade.__init__` raised KeyError: 'n'"
    assert trajectory.attempt.task_key == f"a:{BAD}"


class Connected:
    """A server of no tools, each of whose connections says when it is closed."""

    is_shared = False
    tools = ()

    def __init__(self, closed: list[str], name: str) -> None:
        self.closed, self.name = closed, name

    async def connect(self) -> "Connected":
        return self

    async def close(self) -> None:
        self.closed.append(self.name)
        raise OSError(f"{self.name} is gone")


async def test_every_connection_is_closed_whatever_fails_before() -> None:
    class Failing(Episode):
        async def close(self) -> None:
            closed.append("episode")
            raise ValueError

    closed: list[str] = []
    servers = [Connected(closed, "first"), Connected(closed, "second")]
    trajectory = await made(episode=Failing, servers=servers).rollout(TASKS[0], SAYING_X)
    assert sorted(closed) == ["episode", "first", "second"]
    assert trajectory.failure is not None
    assert "`Failing.close` raised OSError" in trajectory.failure.message


async def test_arrays_of_token_ids_stay_what_they_are() -> None:
    ids = array("i", [1, 2])
    model = Told(Completion(Message("assistant", "x"), prompt_token_ids=ids, token_ids=ids))
    trajectory = await made().rollout(TASKS[0], model)
    assert trajectory.failure is None
    assert trajectory.segments[-1].token_ids == ids
