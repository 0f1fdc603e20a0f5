"""An episode is one attempt, driven by hand from the outside."""

import json
from typing import Any

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    Task,
    ToolCall,
    Trajectory,
    reward,
    tool,
)
from strop.errors import EnvironmentFaultError, EpisodeUseError, SettingsError
from tests.sdk.trajectories import a_completion, a_single_turn_environment

TASK = Task("1", "Find the exit.", metadata={"size": 2}, split="train")


class Maze(Episode):
    """Walk."""

    async def setup(self) -> None:
        self.at = 0
        self.outcome["escaped"] = False

    @tool
    def move(self, by: int) -> str | End:
        """Move."""
        self.at += by
        if self.at >= 3:
            self.outcome["escaped"] = True
            return End("You are out.")
        return f"You are at {self.at}."

    async def respond(self, completion: Completion) -> str | End:
        return End() if "give up" in completion.text else "Use the tool `move`."


@reward(range=(0, 1), inline=True)
def escaped(trajectory: Trajectory) -> bool:
    return bool(trajectory.outcome["escaped"])


def a_maze(**options: Any) -> Environment:
    return Environment(tasks=[TASK], rewards=[escaped], episode=Maze, **options)


def moves(*steps: int, ids: str = "abcdefgh") -> Completion:
    calls = [
        ToolCall(id_, "move", json.dumps({"by": by})) for id_, by in zip(ids, steps, strict=False)
    ]
    return Completion(Message("assistant", "", tuple(calls)), "tool_calls")


async def play(environment: Environment, *completions: Completion) -> Trajectory:
    async with environment, environment.start(TASK) as episode:
        for completion in completions:
            await episode.step(completion)
        return await episode.score()


async def test_tools_change_the_state_and_answer_in_order() -> None:
    async with a_maze() as environment, environment.start(TASK) as episode:
        assert [spec.name for spec in episode.tools] == ["move"]
        await episode.step(moves(1, 1))
        assert not episode.is_ended
        assert [m.text for m in episode.messages[-2:]] == ["You are at 1.", "You are at 2."]
        assert [m.tool_call_id for m in episode.messages[-2:]] == ["a", "b"]
        await episode.step(moves(1))
        assert episode.is_ended
        trajectory = await episode.score()

    assert trajectory.reward == 1.0
    assert trajectory.outcome == {"escaped": True}
    assert trajectory.is_terminated
    assert trajectory.messages()[-1].text == "You are out."


async def test_every_call_of_a_turn_is_answered_even_after_the_end() -> None:
    trajectory = await play(a_maze(), moves(3, 1))

    assert [m.role for m in trajectory.messages()[-2:]] == ["tool", "tool"]
    assert trajectory.is_terminated


async def test_an_answer_without_calls_goes_to_respond() -> None:
    trajectory = await play(a_maze(), a_completion("hm"), a_completion("I give up"))

    assert [m.text for m in trajectory.messages()] == [
        "Find the exit.",
        "hm",
        "Use the tool `move`.",
        "I give up",
    ]
    assert trajectory.reward == 0.0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ToolCall("a", "fly", "{}"), "There is no tool 'fly'. Use: move."),
        (ToolCall("a", "move", "{"), "Wrong arguments"),
        (ToolCall("a", "move", '{"by": "x"}'), "Wrong arguments"),
    ],
)
async def test_malformed_calls_come_back_and_the_rollout_goes_on(call: ToolCall, told: str) -> None:
    async with a_maze() as environment, environment.start(TASK) as episode:
        await episode.step(Completion(Message("assistant", "", (call,))))

        assert told in episode.messages[-1].text
        assert episode.messages[-1].tool_call_id == "a"
        assert not episode.is_ended


async def test_doubled_call_ids_are_told_for_each() -> None:
    async with a_maze() as environment, environment.start(TASK) as episode:
        await episode.step(moves(1, 1, ids="aa"))

        assert all("stands twice" in m.text for m in episode.messages[-2:])
        assert episode.at == 0  # type: ignore[attr-defined]


async def test_too_many_turns_truncate() -> None:
    trajectory = await play(a_maze(max_turns=2), a_completion("hm"), a_completion("hm"))

    assert trajectory.stop_reason == "max_turns"
    assert trajectory.is_truncated


@pytest.mark.parametrize(
    ("finish", "stop"), [("length", "max_tokens"), ("content_filter", "content_filter")]
)
async def test_a_cut_completion_truncates_and_runs_no_tool(finish: Any, stop: str) -> None:
    cut = Completion(Message("assistant", "", (ToolCall("a", "move", '{"by"'),)), finish)

    trajectory = await play(a_maze(), cut)

    assert trajectory.stop_reason == stop
    assert trajectory.is_truncated


async def test_a_cut_answer_of_a_single_turn_is_scored_and_truncated() -> None:
    environment = a_single_turn_environment()
    task = environment.tasks["train"][0]
    async with environment.start(task) as episode:
        await episode.step(a_completion("01", finish_reason="length"))
        trajectory = await episode.score()

    assert trajectory.reward == 1.0
    assert trajectory.is_truncated


async def test_an_episode_is_single_use() -> None:
    environment = a_maze()
    episode = environment.start(TASK)
    with pytest.raises(EpisodeUseError, match="not open"):
        await episode.step(a_completion())
    async with episode:
        await episode.step(a_completion("give up"))
        with pytest.raises(EpisodeUseError, match="has ended"):
            await episode.step(a_completion())
    with pytest.raises(EpisodeUseError, match="single-use"):
        await episode.open()


async def test_what_is_stopped_before_its_first_completion_gets_no_reward() -> None:
    trajectory = await play(a_maze())

    assert trajectory.stop_reason == "cancelled"
    assert trajectory.failure is not None
    assert (trajectory.failure.type, trajectory.reward) == ("NoCompletionError", None)
    assert trajectory.rewards == {}


async def test_a_driver_may_stop_early() -> None:
    trajectory = await play(a_maze(), moves(1))

    assert trajectory.stop_reason == "driver"
    assert trajectory.is_truncated
    assert trajectory.reward == 0.0


@pytest.mark.parametrize("answer", [5, None, ["text"], [Message("user", "a"), 5]])
async def test_a_wrong_answer_of_respond_is_the_authors_fault(answer: Any) -> None:
    class Odd(Episode):
        async def respond(self, completion: Completion) -> Any:
            return answer

    environment = Environment(tasks=[TASK], rewards=[], episode=Odd)
    async with environment.start(TASK) as episode:
        with pytest.raises(EnvironmentFaultError, match=r"Odd\.respond"):
            await episode.step(a_completion())


async def test_messages_and_lists_of_them_are_observations() -> None:
    class Chatty(Episode):
        async def respond(self, completion: Completion) -> Any:
            return (
                [Message("user", "a"), Message("system", "b")] if self.turn_count == 1 else End("c")
            )

    environment = Environment(tasks=[TASK], rewards=[], episode=Chatty)
    trajectory = await play(environment, a_completion("1"), a_completion("2"))

    assert [m.text for m in trajectory.messages()] == ["Find the exit.", "1", "a", "b", "2", "c"]


async def test_an_environment_may_fold_what_the_policy_sees() -> None:
    class Forgetful(Episode):
        def messages_of(self, seat: str) -> Any:
            return super().messages_of(seat)[-1:]

        async def respond(self, completion: Completion) -> str:
            return f"turn {self.turn_count}"

    environment = Environment(tasks=[TASK], rewards=[], episode=Forgetful, max_turns=3)
    trajectory = await play(environment, *[a_completion(str(n)) for n in range(3)])

    roots = [segment for segment in trajectory.segments if segment.parent is None]
    assert [segment.messages[0].text for segment in roots] == ["Find the exit.", "turn 1", "turn 2"]


async def test_members_of_a_group_share_their_chance() -> None:
    environment = a_maze()
    numbers = []
    for member in range(2):
        attempt = environment.attempt(TASK, member=member)
        async with environment.start(TASK, attempt=attempt) as episode:
            numbers.append((episode.seed, episode.rng.random()))

    assert numbers[0] == numbers[1]


async def test_a_system_prompt_stands_before_the_task() -> None:
    environment = a_maze(system_prompt="Be quick.")
    async with environment.start(TASK) as episode:
        assert [m.role for m in episode.messages] == ["system", "user"]


def test_methods_that_cannot_be_awaited_are_refused() -> None:
    class Plain(Episode):
        def respond(self, completion: Completion) -> str:  # type: ignore[override]
            return ""

    with pytest.raises(SettingsError, match=r"`Plain\.respond` must be `async def`"):
        Environment(tasks=[TASK], rewards=[], episode=Plain)


def test_an_environment_needs_at_least_one_turn() -> None:
    with pytest.raises(SettingsError, match="max_turns is 0"):
        a_maze(max_turns=0)
