"""Policies call tools: what they send, and that the check names what breaks under it."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from strop import Completion, End, Environment, Episode, Task, Trajectory, reward, tool
from strop.testing import POLICIES, check_environment, scripted_policy
from strop.testing.fuzz import REPLIES, Fuzzer, hostile_turns
from strop.testing.policies import CALLING_TURNS
from strop.tools import Tool
from strop.types import Sampling


class Hunt(Episode):
    """Find a number by guessing."""

    async def setup(self) -> None:
        self.outcome["is_found"] = False

    @tool
    def guess(self, number: int) -> str | End:
        """Guess."""
        self.outcome["is_found"] = number == self.task.reference
        return End() if self.outcome["is_found"] else "no"

    @tool
    def note(self, text: str, loud: bool = False) -> str:
        """Note a text."""
        return text

    async def respond(self, completion: Completion) -> str:
        return "Use a tool."


@reward(range=(0, 1), inline=True)
def found(trajectory: Trajectory) -> float:
    return float(bool(trajectory.outcome["is_found"]))


def hunt(episode: type[Episode] = Hunt, **given: Any) -> Environment:
    tasks = [Task(str(number), "Find it", 500 + number) for number in range(3)]
    options: dict[str, Any] = {"rewards": [found], "max_turns": 12}
    return Environment(tasks=tasks, episode=episode, **(options | given))


async def findings(environment: Environment) -> dict[str, tuple[str, str]]:
    found = await check_environment(environment, reward_range=(0, 1))
    return {finding.check: (finding.verdict, finding.message) for finding in found}


def calls_of(trajectory: Trajectory) -> list[Any]:
    return [
        call
        for segment in trajectory.segments
        for message in segment.messages
        for call in message.tool_calls
    ]


async def test_the_random_policy_makes_calls_that_fit_and_then_answers() -> None:
    environment = hunt()
    made = []
    async with environment:
        for member in range(8):
            task = environment.tasks["train"][member % 3]
            attempt = environment.attempt(task, member=member)
            model = scripted_policy("random", environment)
            trajectory = await environment.rollout(task, model, attempt=attempt)
            assert trajectory.failure is None
            calls = calls_of(trajectory)
            assert 1 <= len(calls) <= 3 * CALLING_TURNS
            made += calls
            answers = [m for s in trajectory.segments for m in s.messages if m.role == "tool"]
            assert not [answer for answer in answers if answer.text.startswith("Error")]
            assert trajectory.outcome["is_found"] in (False, True)

    assert {call.name for call in made} == {"guess", "note"}


async def test_the_random_policy_repeats_itself_for_a_seed() -> None:
    environment = hunt()
    task = environment.tasks["train"][0]
    async with environment:
        runs = [
            calls_of(await environment.rollout(task, scripted_policy("random", environment)))
            for _ in range(2)
        ]

    assert runs[0] == runs[1]


def test_hostile_turns_are_of_every_kind_and_always_the_same() -> None:
    specs = [Tool("guess", Hunt.guess).spec, Tool("note", Hunt.note).spec]

    turns = hostile_turns(specs)

    assert [turn.name for turn in turns] == [turn.name for turn in hostile_turns(specs)]
    calls = [call for turn in turns for call in turn.message.tool_calls]
    assert {"guess", "note", "no_such_tool", ""} <= {call.name for call in calls}
    broken = [call for call in calls if not is_json(call.arguments)]
    assert broken
    told = " ".join(turn.name for turn in turns)
    for kind in ("broken JSON", "the type string", "unknown tool", "under one id", "a huge string"):
        assert kind in told
    assert "lone surrogate" in told
    assert max(len(call.arguments) for call in calls) > 100_000


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


async def test_an_environment_that_answers_everything_passes_with_all_calls_sent() -> None:
    found = await findings(hunt(oracle=lambda task: [guess(task.reference)]))

    assert {verdict for verdict, _ in found.values()} == {"ok"}, found
    count = len(hostile_turns([Tool("guess", Hunt.guess).spec, Tool("note", Hunt.note).spec]))
    assert int(found["fuzz_calls"][1].split()[0]) >= count


def guess(number: Any) -> Any:
    from strop.models.scripted import call

    return call("guess", number=number)


class Brittle(Hunt):
    """Its tool breaks on an empty text."""

    @tool
    def note(self, text: str, loud: bool = False) -> str:
        """Note a text."""
        return text[0]


class Narrow(Hunt):
    """Its tool breaks on what is long."""

    @tool
    def note(self, text: str, loud: bool = False) -> str:
        """Note a text."""
        if len(text) > 100_000:
            raise MemoryError("too long")
        return text


class Unready(Hunt):
    """It takes for granted that a call comes before a text."""

    async def respond(self, completion: Completion) -> str:
        return str(self.last)  # type: ignore[attr-defined]


class Untold(Hunt):
    """Its outcome is only written by a call that ends it."""

    async def setup(self) -> None:
        """Nothing."""


CASES: dict[str, tuple[type[Episode], str, list[str]]] = {
    "an empty text": (Brittle, "fuzz_calls", ["`note`", "IndexError", "ToolError"]),
    "a huge text": (Narrow, "fuzz_calls", ["with a huge string for `text`", "MemoryError"]),
    "a text first": (Unready, "floor_empty", ["the empty policy", "respond", "End()"]),
    "an outcome that is missing": (Untold, "floor_empty", ["is_found", "within the range"]),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_breaks_is_named_with_policy_task_and_advice(case: str) -> None:
    episode, check, told = CASES[case]

    found = await findings(hunt(episode))

    verdict, message = found[check]
    assert verdict == "failed"
    assert "On task '0' of 'train' the " in message
    assert [part for part in told if part not in message] == [], message


async def test_a_reward_that_calls_drive_out_of_its_range_is_named() -> None:
    @reward(inline=True)
    def counted(trajectory: Trajectory) -> float:
        return len(calls_of(trajectory)) / 4

    found = await findings(hunt(rewards=[counted]))

    for check, policy in (("floor_random", "random"), ("fuzz_calls", "fuzz")):
        verdict, message = found[check]
        assert verdict == "failed", check
        assert f"the {policy} policy" in message
        assert "outside the manifest's reward-range, 0 to 1" in message


async def test_calls_reach_episodes_without_tools_as_well() -> None:
    class Strict(Episode):
        async def respond(self, completion: Completion) -> End:
            if completion.message.tool_calls:
                raise LookupError("no tools here")
            return End()

    @reward(range=(0, 1), inline=True)
    def nothing(trajectory: Trajectory) -> float:
        return 0.0

    found = await findings(hunt(Strict, rewards=[nothing]))

    assert found["fuzz_calls"][0] == "failed"
    assert "unknown tool 'no_such_tool'" in found["fuzz_calls"][1]


async def test_an_oracle_that_raises_is_named_and_the_check_goes_on() -> None:
    def oracle(task: Task) -> str:
        raise ZeroDivisionError("no oracle today")

    found = await findings(hunt(oracle=oracle))

    assert found["oracle"][0] == "failed"
    assert "ZeroDivisionError: no oracle today" in found["oracle"][1]
    assert "On task '0' of 'train'" in found["oracle"][1]
    assert found["fuzz_calls"][0] == "ok"


@pytest.mark.parametrize("place", ["setup", "close"])
async def test_an_environment_that_cannot_be_opened_or_closed_is_named(place: str) -> None:
    async def fail(self: Environment) -> None:
        raise OSError("no room")

    environment = type("Broken", (Environment,), {place: fail})(
        tasks=[Task("0", "x", "y")], rewards=[found], episode=Hunt, max_turns=3
    )

    told = await findings(environment)

    assert told["setup"][0] == "failed"
    assert "OSError: no room" in told["setup"][1]


async def test_tasks_that_cannot_be_read_are_named() -> None:
    def broken() -> Any:
        yield Task("0", "x")
        raise KeyError("row 1")

    from strop import TaskSet

    told = await findings(Environment(tasks=TaskSet(broken), rewards=[found]))

    assert told["keys"][0] == told["tasks_serialise"][0] == "failed"
    assert "KeyError: 'row 1'" in told["keys"][1]


async def test_the_fuzz_policy_can_be_played_in_a_run_and_its_start_is_the_seeds() -> None:
    assert "fuzz" in POLICIES
    specs = [Tool("guess", Hunt.guess).spec]
    firsts = set()
    for seed in range(6):
        for _ in range(2):
            fuzzer = Fuzzer()
            completion = await fuzzer.complete([], specs, Sampling(seed=seed))
            firsts.add((seed, str(completion.message)))
    assert len(firsts) == 6
    assert len({text for _, text in firsts}) > 1


async def test_after_its_calls_the_fuzz_policy_sends_odd_texts() -> None:
    fuzzer = Fuzzer(start=10_000)

    completion = await fuzzer.complete([], [], Sampling())

    assert completion.text in REPLIES
    assert fuzzer.last.startswith("with the reply")


def test_dice_of_the_hostile_calls_are_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Callable[..., Any]:
        raise AssertionError("the global generator was asked")

    for name in ("random", "choice", "choices", "randint"):
        monkeypatch.setattr(random, name, refuse)

    assert hostile_turns([Tool("note", Hunt.note).spec])
