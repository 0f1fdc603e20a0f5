"""Ways in which runs of other tools go wrong: what ours do instead.

Further ones stand where their part is tested: judges, models, tools, mixtures, run files.
"""

import asyncio
import base64
import gc
import resource
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from strop import (
    Attempt,
    Completion,
    End,
    Environment,
    Episode,
    Message,
    Part,
    RunPlan,
    ScriptedModel,
    Task,
    TaskSet,
    Trajectory,
    evaluate,
    group_reward,
    read_trajectories,
    reward,
)
from strop.errors import ModelReplyError, TrajectoryFileError
from strop.evaluation import TRAJECTORIES_NAME
from strop.models.scripted import call
from tests.sdk.trajectories import a_completion, a_single_turn_environment, is_exact
from tests.waiting import until

ANSWER = ScriptedModel(lambda messages: messages[-1].text.removeprefix("Reverse: ")[::-1])


async def test_five_hundred_scorings_at_once_time_out_falsely_never() -> None:
    from strop import TimeLimits

    @reward(range=(0, 1))
    def busy(trajectory: Trajectory) -> float:
        ends_at = time.thread_time() + 0.01
        while time.thread_time() < ends_at:
            pass
        return 1.0

    tasks = [Task(str(n), "ask") for n in range(500)]
    environment = Environment(tasks=tasks, rewards=[busy], time_limits=TimeLimits(reward_s=1))
    report = await evaluate(environment, ANSWER, RunPlan(concurrency=500))

    assert report.failures == {}
    assert report.mean_reward == 1.0


async def test_rewards_of_both_kinds_score_and_one_that_computes_stops_nobody() -> None:
    may_end = threading.Event()

    @reward(range=(0, 1))
    def computed(trajectory: Trajectory) -> float:
        while not may_end.is_set():
            pass
        return 1.0

    @reward(range=(0, 1))
    async def awaited(trajectory: Trajectory) -> float:
        await asyncio.sleep(0)
        return 1.0

    busy = a_single_turn_environment(rewards=[computed])
    task = busy.tasks["train"][0]
    async with busy:
        computing = asyncio.ensure_future(busy.rollout(task, ANSWER))
        for _ in range(20):
            other = await a_single_turn_environment(rewards=[awaited]).rollout(task, ANSWER)
            assert other.reward == 1.0
        assert not computing.done()
        may_end.set()
        assert (await computing).reward == 1.0


async def test_a_reward_sees_the_last_turn() -> None:
    seen: list[str] = []

    @reward(inline=True)
    def last(trajectory: Trajectory) -> float:
        seen.append(trajectory.text)
        return float(trajectory.turn_count)

    class Two(Episode):
        async def respond(self, completion: Completion) -> str | End:
            return End() if self.turn_count == 2 else "Go on."

    environment = Environment(tasks=[Task("1", "Go")], rewards=[last], episode=Two)
    task = environment.tasks["train"][0]
    trajectory = await environment.rollout(task, ScriptedModel.replies(["first", "second"]))

    assert seen == ["second"]
    assert trajectory.reward == 2.0


async def test_members_with_an_error_an_empty_reply_and_a_cancel_are_accounted_once() -> None:
    compared: list[int] = []

    @group_reward(range=(0, 1))
    def share(trajectories: Sequence[Trajectory]) -> list[float]:
        compared.extend(each.attempt.member for each in trajectories)
        return [1 / len(trajectories)] * len(trajectories)

    async def drive(episode: Episode) -> None:
        member = episode.attempt.member
        try:
            await asyncio.sleep(60 if member == 5 else 0)
            if member == 2:
                raise ModelReplyError("the reply is empty")
            await episode.step(a_completion("" if member == 4 else "x"))
        except (ModelReplyError, asyncio.CancelledError) as error:
            episode.fail(ModelReplyError(str(error) or "cancelled"))

    environment = a_single_turn_environment(
        tasks=[Task("1", "ask", "x")], rewards=[is_exact, share]
    )
    task = environment.tasks["train"][0]
    async with environment, environment.start_group(task, 8) as group:
        drivers = [asyncio.create_task(drive(episode)) for episode in group.episodes]
        await asyncio.sleep(0.05)
        drivers[5].cancel()
        await asyncio.gather(*drivers)
        members = await group.score()

    assert [each.attempt.member for each in members] == list(range(8))
    failed = {each.attempt.member: each.failure.message for each in members if each.failure}
    assert failed == {2: "the reply is empty", 5: "cancelled"}
    assert compared == [0, 1, 3, 4, 6, 7]
    assert members[2].reward is members[5].reward is None
    assert members[4].rewards["is_exact"].value == 0.0


async def test_evaluation_and_a_trainer_by_hand_see_the_same_prompt() -> None:
    seen: list[Sequence[Message]] = []

    class Spy:
        name = "spy"

        async def complete(self, messages: Any, tools: Any, sampling: Any) -> Completion:
            seen.append(list(messages))
            return a_completion("x")

        async def close(self) -> None:
            pass

    environment = a_single_turn_environment(system_prompt="Be brief.")
    task = environment.tasks["train"][0]
    await evaluate(environment, Spy(), RunPlan(task_count=1))
    async with environment.start(task) as episode:
        assert list(episode.messages) == seen[0]
    assert seen[0][0] == Message("system", "Be brief.")


async def test_results_of_an_old_run_are_neither_overwritten_nor_taken_for_new(
    tmp_path: Path,
) -> None:
    await evaluate(a_single_turn_environment(), ANSWER, RunPlan(seed=1), out=tmp_path)

    with pytest.raises(TrajectoryFileError):
        await evaluate(a_single_turn_environment(), ANSWER, RunPlan(seed=2), out=tmp_path)
    seeds = {t.attempt.run_seed for t in read_trajectories(tmp_path / TRAJECTORIES_NAME)}
    assert seeds == {1}


async def test_rows_of_different_shapes_are_kept_exactly(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {},
        {"a": 1},
        {"a": "text", "b": None},
        {"a": [1, "x", None, {"deep": 2**80}]},
        {"a": {"b": []}},
    ]
    tasks = [Task(str(n), "ask", row, row) for n, row in enumerate(rows)]
    environment = a_single_turn_environment(tasks=tasks)

    await evaluate(environment, ANSWER, RunPlan(), out=tmp_path)

    kept = {t.task.key: t.task.metadata for t in read_trajectories(tmp_path / TRAJECTORIES_NAME)}
    assert kept == {str(n): row for n, row in enumerate(rows)}


@pytest.mark.parametrize(
    "odd",
    [datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, b"bytes", [10**5000], {"deep": object()}],
    ids=["date", "set", "bytes", "number", "object"],
)
async def test_an_outcome_that_no_record_can_hold_fails_its_attempt_and_no_other(
    odd: Any, tmp_path: Path
) -> None:
    class Odd(Episode):
        async def respond(self, completion: Completion) -> End:
            self.outcome["told"] = completion.text
            if self.task.key == "1":
                self.outcome["odd"] = odd
            return End()

    @reward
    def one(trajectory: Trajectory) -> float:
        return 1.0

    tasks = [Task(str(n), "ask") for n in range(3)]
    environment = Environment(tasks=tasks, rewards=[one], episode=Odd)
    report = await evaluate(environment, ScriptedModel.constant("x"), RunPlan(), out=tmp_path)

    kept = {t.task.key: t for t in read_trajectories(tmp_path / TRAJECTORIES_NAME)}
    assert [kept[key].reward for key in "012"] == [1.0, None, 1.0]
    failure = kept["1"].failure
    assert failure is not None
    assert "`outcome['odd']` of `Odd` is no JSON" in failure.message
    assert kept["1"].outcome == {"told": "x"}
    assert report.failures == {"EnvironmentFaultError": 1}


async def test_an_empty_split_is_run_without_a_fault() -> None:
    report = await evaluate(a_single_turn_environment(tasks={"train": []}), ANSWER, RunPlan())

    assert (report.attempt_count, report.mean_reward) == (0, None)


async def test_the_policy_version_of_every_turn_is_kept() -> None:
    versions = iter([7, 8])
    model = ScriptedModel(
        lambda messages: Completion(Message("assistant", "x"), policy_version=next(versions))
    )

    class Two(Episode):
        async def respond(self, completion: Completion) -> str | End:
            return End() if self.turn_count == 2 else "Go on."

    environment = Environment(tasks=[Task("1", "Go")], rewards=[], episode=Two)
    trajectory = await environment.rollout(environment.tasks["train"][0], model)

    sampled = [part.policy_version for part in trajectory.segments if part.kind == "completion"]
    assert sampled == [7, 8]


async def test_a_run_that_is_cancelled_accounts_for_what_it_wrote(tmp_path: Path) -> None:
    environment = Environment(
        tasks=TaskSet.generate(lambda i, rng: Task(str(i), "ask", "x")), rewards=[is_exact]
    )
    seen: list[Attempt] = []
    running = asyncio.create_task(
        evaluate(
            environment,
            ANSWER,
            RunPlan(task_count=10**9, concurrency=16),
            out=tmp_path,
            on_trajectory=lambda t: seen.append(t.attempt),
        )
    )
    await until(lambda: seen)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 60)

    written = [t.attempt for t in read_trajectories(tmp_path / TRAJECTORIES_NAME)]
    assert written == seen
    assert len(set(written)) == len(written) > 0


@pytest.mark.parametrize(
    "count",
    [1_500, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
async def test_long_episodes_with_images_leave_no_memory_behind(count: int, tmp_path: Path) -> None:
    image = Part("image", url="data:image/png;base64," + base64.b64encode(b"x" * 3_000).decode())

    class Pictures(Episode):
        async def respond(self, completion: Completion) -> Message:
            return Message("user", (Part("text", text="Look:"), image))

    environment = Environment(
        tasks=TaskSet.generate(lambda i, rng: Task(str(i), "Look.")),
        rewards=[],
        episode=Pictures,
        max_turns=10,
    )
    sizes: list[int] = []

    def measure(_: Trajectory) -> None:
        if len(sizes) % (count // 15) == 0:
            gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sizes.append(pages * resource.getpagesize())

    await evaluate(
        environment,
        ScriptedModel.constant("I see."),
        RunPlan(task_count=count, concurrency=32),
        out=tmp_path,
        on_trajectory=measure,
    )

    (tmp_path / TRAJECTORIES_NAME).unlink()
    grown_bytes = sizes[-1] - sizes[count // 3]
    assert grown_bytes < 8_000_000


async def test_a_tool_call_inside_other_text_is_run_and_both_are_kept() -> None:
    from strop import tool

    class Tools(Episode):
        @tool(inline=True)
        def look(self) -> str:
            """Look."""
            return "seen"

    message = Message("assistant", "Let me look.", (call("look"),))
    environment = Environment(tasks=[Task("1", "Go")], rewards=[], episode=Tools)
    task = environment.tasks["train"][0]
    trajectory = await environment.rollout(task, ScriptedModel.replies([message, "done"]))

    assert [m.text for m in trajectory.messages()] == ["Go", "Let me look.", "seen", "done"]
