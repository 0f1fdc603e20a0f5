"""A rollout never raises for a fault of one attempt, and cleans up when it is cancelled."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    Sampling,
    ScriptedModel,
    Task,
    Trajectory,
    reward,
    tool,
)
from strop.errors import ContextOverflowError, ModelUnavailableError
from strop.models.scripted import call
from tests.sdk.trajectories import a_single_turn_environment, is_exact

TASK = Task("1", "ask", split="train")


class Recording(Episode):
    """Counts its openings and closings; fails where it is told."""

    events: list[str]
    fails_at = ""

    async def setup(self) -> None:
        self._event("setup")

    async def respond(self, completion: Completion) -> End:
        self._event("respond")
        return End()

    @tool
    def act(self) -> str:
        """Act."""
        self._event("act")
        return ""

    async def close(self) -> None:
        self._event("close")

    def _event(self, name: str) -> None:
        self.events.append(name)
        if name == self.fails_at:
            raise LookupError(f"no {name}")


def recording(fails_at: str = "") -> tuple[Environment, list[str]]:
    events: list[str] = []
    episode = type("Recorded", (Recording,), {"events": events, "fails_at": fails_at})
    return Environment(tasks=[TASK], rewards=[reward(_one)], episode=episode, max_turns=3), events


def _one(trajectory: Trajectory) -> float:
    return 1.0


class Failing:
    """A model whose endpoint is broken in one way."""

    name = "failing"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def complete(self, messages: Any, tools: Any, sampling: Any) -> Completion:
        raise self._error

    async def close(self) -> None:
        pass


async def test_a_single_turn_is_scored() -> None:
    environment = a_single_turn_environment()
    task = environment.tasks["train"][0]

    trajectory = await environment.rollout(task, ScriptedModel.constant("01"))

    assert trajectory.reward == 1.0
    assert trajectory.stop_reason == "ended"
    assert trajectory.attempt.task_key == task.key
    assert trajectory.strop_version


async def test_everything_is_closed_after_a_good_end() -> None:
    environment, events = recording()

    await environment.rollout(TASK, ScriptedModel.replies([call("act"), "x"]))

    assert events == ["setup", "act", "respond", "close"]


@pytest.mark.parametrize(
    ("where", "boundary", "message"),
    [
        ("setup", "environment", "`Recorded.setup` raised LookupError: no setup"),
        ("respond", "environment", "`Recorded.respond` raised LookupError: no respond"),
        ("act", "tool", "The tool `act` raised LookupError: no act"),
        ("close", "environment", "`Recorded.close` raised LookupError: no close"),
    ],
)
async def test_author_code_that_raises_is_a_failure_and_no_zero(
    where: str, boundary: str, message: str
) -> None:
    environment, events = recording(where)

    trajectory = await environment.rollout(TASK, ScriptedModel.replies([call("act"), "x"]))

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == boundary
    assert message in trajectory.failure.message
    assert trajectory.reward is None
    assert events[-1] == "close"
    assert events.count("close") == 1


async def test_a_model_that_fails_is_a_failure_with_its_cause() -> None:
    environment, events = recording()

    trajectory = await environment.rollout(TASK, Failing(ModelUnavailableError("503 from it")))

    assert trajectory.failure is not None
    assert (trajectory.failure.type, trajectory.failure.boundary) == (
        "ModelUnavailableError",
        "model",
    )
    assert trajectory.reward is None
    assert trajectory.stop_reason == "failure"
    assert events == ["setup", "close"]


async def test_any_error_of_a_model_is_the_models() -> None:
    environment, _ = recording()

    trajectory = await environment.rollout(TASK, Failing(ZeroDivisionError("oops")))

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "model"
    assert "ZeroDivisionError: oops" in trajectory.failure.message


class Folding(Episode):
    """Its contexts are made by what the task says."""

    call_count = 0

    def messages_of(self, seat: str) -> Any:
        self.call_count += 1
        match self.task.reference:
            case "raises":
                raise LookupError("no context")
            case "raises later" if self.call_count > 1:
                raise LookupError("no context")
            case "nothing":
                return None
            case "texts":
                return ["ask"]
        return super().messages_of(seat)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("raises", "`Folding.messages_of` raised LookupError: no context"),
        ("raises later", "`Folding.messages_of` raised LookupError: no context"),
        ("nothing", "it returned None. Return a list of messages"),
        ("texts", "'ask'"),
    ],
)
@pytest.mark.parametrize("reads", [True, False], ids=["a-reader", "a-blind-model"])
async def test_a_context_that_its_author_cannot_make_is_the_environments_fault(
    reference: str, told: str, reads: bool
) -> None:
    def answer(messages: Any) -> str:
        return str(messages[-1].role) if reads else "x"

    task = Task("1", "ask", reference)
    environment = Environment(tasks=[task], rewards=[], episode=Folding)

    trajectory = await environment.rollout(task, ScriptedModel(answer))

    assert trajectory.failure is not None
    assert (trajectory.failure.type, trajectory.failure.boundary) == (
        "EnvironmentFaultError",
        "environment",
    )
    assert told in trajectory.failure.message


async def test_a_model_that_fails_at_sound_messages_is_to_blame_itself() -> None:
    def fail(messages: Any) -> str:
        raise AttributeError(messages[-1].text)

    trajectory = await a_single_turn_environment().rollout(TASK, ScriptedModel(fail))

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "model"
    assert "The model raised AttributeError: ask" in trajectory.failure.message


async def test_a_context_overflow_truncates_and_is_scored() -> None:
    environment, _ = recording()

    trajectory = await environment.rollout(TASK, Failing(ContextOverflowError("too long")))

    assert trajectory.failure is None
    assert trajectory.stop_reason == "context_overflow"
    assert trajectory.reward == 1.0


async def test_a_cancel_closes_the_episode_and_goes_on() -> None:
    environment, events = recording()
    waiting = asyncio.Event()

    class Endless:
        name = "endless"

        async def complete(self, messages: Any, tools: Any, sampling: Any) -> Completion:
            waiting.set()
            await asyncio.sleep(3600)
            raise AssertionError

        async def close(self) -> None:
            pass

    rollout = asyncio.create_task(environment.rollout(TASK, Endless()))
    await waiting.wait()
    rollout.cancel()

    with pytest.raises(asyncio.CancelledError):
        await rollout
    assert events == ["setup", "close"]


async def test_a_cancel_during_close_lets_it_finish() -> None:
    closed = []
    is_closing = asyncio.Event()

    class Slow(Episode):
        async def close(self) -> None:
            is_closing.set()
            await asyncio.sleep(0.1)
            closed.append(True)

    environment = Environment(tasks=[TASK], rewards=[], episode=Slow)
    rollout = asyncio.create_task(environment.rollout(TASK, ScriptedModel.constant("x")))
    await is_closing.wait()
    rollout.cancel()

    with pytest.raises(asyncio.CancelledError):
        await rollout
    assert closed == [True]


async def test_the_sampling_seed_is_the_attempts_own() -> None:
    seeds = []

    class Spy:
        name = "spy"

        async def complete(
            self, messages: Sequence[Message], tools: Any, sampling: Sampling
        ) -> Completion:
            seeds.append((sampling.seed, sampling.temperature))
            return Completion(Message("assistant", ""))

        async def close(self) -> None:
            pass

    environment = a_single_turn_environment()
    task = environment.tasks["train"][0]
    for member in range(2):
        attempt = environment.attempt(task, run_seed=3, member=member)
        await environment.rollout(task, Spy(), attempt=attempt, sampling=Sampling(temperature=0.5))
        assert seeds[-1] == (attempt.sampling_seed, 0.5)

    assert seeds[0] != seeds[1]


async def test_seats_may_have_models_of_their_own() -> None:
    environment = Environment(tasks=[TASK], rewards=[is_exact])

    trajectory = await environment.rollout(TASK, {"policy": ScriptedModel.constant("mine")})

    assert trajectory.text == "mine"


async def test_the_same_task_seed_and_completions_give_the_same_record() -> None:
    class Dice(Episode):
        async def respond(self, completion: Completion) -> str | End:
            return End() if self.turn_count == 3 else str(self.rng.random())

    environment = Environment(tasks=[TASK], rewards=[reward(_one)], episode=Dice)
    one, other = [await environment.rollout(TASK, ScriptedModel.constant("x")) for _ in range(2)]

    assert one.segments == other.segments
    assert one.reward == other.reward
