"""Several roles in one attempt: each has its context, its model and its reward."""

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    ScriptedModel,
    Task,
    ToolCall,
    Trajectory,
    reward,
    tool,
)
from strop.errors import EnvironmentFaultError, EpisodeUseError, SettingsError
from strop.trajectory_json import decode_line, encode_line

TASK = Task("1", "Guess my number, 1 to 3.", 2, split="train")


class Guessing(Episode):
    """One seat guesses, the other says whether it is right."""

    seats: ClassVar[Mapping[str, bool]] = {"guesser": True, "host": False}

    async def setup(self) -> None:
        self.tell("host", Message("system", f"Your number is {self.task.reference}."))

    @tool(seats=("host",))
    def confirm(self) -> End:
        """End the game: the guess is right."""
        self.outcome["turns"] = self.turn_count
        return End("Right.")

    async def respond(self, completion: Completion) -> list[Message]:
        other = "host" if self.due_seat == "guesser" else "guesser"
        self.tell(other, completion.text)
        self.due_seat = other
        return []


@reward(inline=True, range=(0, 1))
def quick(trajectory: Trajectory) -> float:
    return 1.0 / int(str(trajectory.outcome.get("turns", 100)))


@reward(inline=True, seat="host", range=(0, 1))
def honest(trajectory: Trajectory) -> float:
    return 1.0


def guess(messages: Any) -> str:
    return str(sum(message.role == "assistant" for message in messages) + 1)


def judge(messages: Any) -> str | ToolCall:
    number = messages[0].text.split()[-1].rstrip(".")
    return ToolCall("c", "confirm", "{}") if messages[-1].text == number else "Wrong."


def an_environment(**options: Any) -> Environment:
    return Environment(tasks=[TASK], rewards=[quick, honest], episode=Guessing, **options)


MODELS = {"guesser": ScriptedModel(guess), "host": ScriptedModel(judge)}


@tool(seats=("host", "judge"))
def rule() -> str:
    """Tell the rule."""
    return "1 to 3"


def test_a_tool_for_a_seat_that_there_is_not_is_refused() -> None:
    class Renamed(Guessing):
        seats: ClassVar[Mapping[str, bool]] = {"guesser": True, "speaker": False}

    with pytest.raises(SettingsError, match="`rule` is for the seats judge, but `Guessing` has gu"):
        an_environment(tools=[rule])
    with pytest.raises(SettingsError, match="`confirm` is for the seats host, but `Renamed` has"):
        Environment(tasks=[TASK], rewards=[quick], episode=Renamed)


async def test_seats_take_turns_with_contexts_of_their_own() -> None:
    trajectory = await an_environment().rollout(TASK, MODELS)

    assert trajectory.failure is None
    assert [m.text for m in trajectory.messages("guesser")] == [
        TASK.prompt[0].text,
        "1",
        "Wrong.",
        "2",
    ]
    assert [m.text for m in trajectory.messages("host")][1:] == ["1", "Wrong.", "2", "", "Right."]
    assert [s.seat for s in trajectory.segments if s.kind == "completion"] == [
        "guesser",
        "host",
    ] * 2


async def test_every_seat_has_its_reward_and_the_first_is_the_total() -> None:
    trajectory = await an_environment().rollout(TASK, MODELS)

    assert trajectory.seats["guesser"].reward == trajectory.reward == 0.25
    assert trajectory.seats["host"].reward == 1.0
    assert not trajectory.seats["host"].is_trainable
    assert set(trajectory.seats["host"].rewards) == {"honest"}
    assert decode_line(encode_line(trajectory)) == trajectory


async def test_one_model_may_play_every_seat() -> None:
    def both(messages: Any) -> str | ToolCall:
        return judge(messages) if messages[0].role == "system" else guess(messages)

    trajectory = await an_environment().rollout(TASK, ScriptedModel(both))

    assert trajectory.reward == 0.25


async def test_a_tool_is_offered_to_its_seats_only() -> None:
    async with an_environment().start(TASK) as episode:
        assert not episode.tools
        await episode.step(Completion(Message("assistant", "", (ToolCall("a", "confirm", "{}"),))))
        assert "There is no tool 'confirm'" in episode.messages[-1].text
        await episode.step(Completion(Message("assistant", "1")))
        assert episode.due_seat == "host"
        assert [spec.name for spec in episode.tools] == ["confirm"]


async def test_a_seat_without_a_model_is_told_before_anything_runs() -> None:
    with pytest.raises(SettingsError, match="The seats host have no model"):
        await an_environment().rollout(TASK, {"guesser": ScriptedModel(guess)})


async def test_telling_a_seat_that_is_not_there_is_an_error() -> None:
    async with an_environment().start(TASK) as episode:
        with pytest.raises(EpisodeUseError, match="no seat 'nobody'"):
            episode.tell("nobody", "hi")


class Lost(Episode):
    """Names a seat that is not there: at once, or after a turn."""

    seats: ClassVar[Mapping[str, bool]] = {"guesser": True, "host": False}

    async def setup(self) -> None:
        if self.task.reference is None:
            self.due_seat = "hots"

    async def respond(self, completion: Completion) -> str:
        self.due_seat = "hots"
        return "Go on."


@pytest.mark.parametrize("reference", [None, 1])
async def test_a_due_seat_that_is_not_there_fails_the_attempt_and_is_told_with_those_that_are(
    reference: Any,
) -> None:
    task = Task("1", "Go.", reference)
    environment = Environment(tasks=[task], rewards=[], episode=Lost)
    one = ScriptedModel.constant("x")

    for model in (one, {"guesser": one, "host": one}):
        trajectory = await environment.rollout(task, model)

        assert trajectory.failure is not None
        assert trajectory.failure.boundary == "environment"
        assert "`due_seat` is 'hots'" in trajectory.failure.message
        assert trajectory.failure.message.endswith("none of its seats: guesser, host.")
    async with environment.start(task) as episode:
        episode.due_seat = "hots"
        with pytest.raises(EnvironmentFaultError, match="none of its seats"):
            await episode.step(Completion(Message("assistant", "x")))


def test_a_reward_for_a_seat_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsError, match="Rewards name the seats host"):
        Environment(tasks=[TASK], rewards=[honest])
