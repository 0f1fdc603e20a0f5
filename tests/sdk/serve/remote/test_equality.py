"""An environment behind HTTP gives the trajectories that it gives in-process."""

import asyncio
import random
from array import array
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    ScriptedModel,
    Task,
    TaskSet,
    Trajectory,
    Usage,
    group_reward,
    metric,
    reward,
    tool,
)
from strop.errors import ContextOverflowError, SettingsError
from strop.mixture import Mixture
from strop.models.scripted import call
from strop.runner import RunPlan, run
from strop.trajectory_json import to_json
from tests.sdk.serve.remote.serving import serving


class Everything(Episode):
    """Chance, tools, odd texts, an edited context, faults on demand, and a close that fails."""

    async def setup(self) -> None:
        self.total = self.rng.randint(0, 9)
        if "setup" in self.task.prompt[0].text:
            raise LookupError("no setup")

    @tool
    def add(self, amount: int) -> str | End:
        """Add.

        Args:
            amount: How much.
        """
        self.total += amount
        return End(str(self.total)) if amount == 13 else str(self.total)

    async def respond(self, completion: Completion) -> Any:
        self.outcome["total"] = self.total
        if "raise" in completion.text:
            raise ValueError("as told")
        if "end" in completion.text:
            return End(f"\u2028{self.rng.random()}\ud800")
        return [Message("user", f"{completion.text[::-1]} {self.rng.random()}")]

    async def close(self) -> None:
        if "close" in self.task.prompt[0].text:
            raise OSError("no close")


class Duel(Episode):
    """Two seats take turns; one of them sees only the last word."""

    seats: ClassVar[Mapping[str, bool]] = {"black": True, "white": False}

    async def respond(self, completion: Completion) -> Any:
        other = "white" if self.due_seat == "black" else "black"
        self.tell(other, completion.text)
        self.due_seat = other
        return End() if self.turn_count >= 4 else ()

    def messages_of(self, seat: str) -> Sequence[Message]:
        messages = super().messages_of(seat)
        return messages[-1:] if seat == "white" else messages


@reward(range=(0, 1))
def short(trajectory: Trajectory) -> float:
    return 1.0 / (1 + trajectory.turn_count)


@reward(weight=0.5, live=True)
def live_total(trajectory: Trajectory, episode: Episode) -> float:
    return float(getattr(episode, "total", 0))


@metric
def turns(trajectory: Trajectory) -> float:
    return float(trajectory.turn_count)


@group_reward
def rank(trajectories: Sequence[Trajectory]) -> list[float]:
    counts = sorted(len(each.text) for each in trajectories)
    return [float(counts.index(len(each.text))) for each in trajectories]


def everything(**options: Any) -> Environment:
    return Environment(
        tasks={
            "train": TaskSet.generate(lambda index, rng: Task("", f"Task {rng.random()}")),
            "eval": [Task("setup", "setup"), Task("close", "close"), Task("big", "x", 2**70)],
            "lazy": TaskSet(lambda: (Task(str(n), f"lazy {n}") for n in range(150))),
        },
        rewards=[short, live_total, turns],
        episode=Everything,
        system_prompt="Be odd: \ud83d.",
        **{"max_turns": 6, **options},
    )


def same(left: Trajectory, right: Trajectory) -> None:
    """Equal but for the clock and where a traceback's lines stand."""
    one, other = to_json(left), to_json(right)
    for each in (one, other):
        each.pop("timing")
        each.pop("started_at_s")
        if isinstance(failure := each["failure"], dict):
            failure.pop("traceback")
    assert one == other


def scripted(script: Sequence[Any]) -> ScriptedModel:
    """The script's replies in order, then the end; with tokens like an engine's."""

    def policy(messages: Sequence[Message]) -> Any:
        turn = sum(message.role == "assistant" for message in messages)
        said = script[turn] if turn < len(script) else "end"
        if said == "overflow":
            raise ContextOverflowError("too long")
        if not isinstance(said, str):
            return said
        return Completion(
            Message("assistant", said, reasoning="hm"),
            usage=Usage(len(messages), len(said), 1),
            prompt_token_ids=array("i", range(turn * 3)),
            token_ids=array("i", [turn, 7, 9]),
            logprobs=array("f", [-0.1, -0.2, -3e-9]),
            model="odd",
            policy_version=3,
            raw={"x": [None, 2**70, "\ud800"]},
        )

    return ScriptedModel(policy)


TURNS = st.lists(
    st.one_of(
        st.text(alphabet=st.characters(codec=None), max_size=8),
        st.sampled_from(["raise", "overflow", "end"]),
        st.sampled_from([call("add", amount=1), call("add", amount=13), call("no", x="?")]),
    ),
    max_size=7,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(TURNS, st.sampled_from(["0", "41", "setup", "close", "big"]), st.integers(0, 2**63))
def test_every_trajectory_is_the_same_as_in_process(
    script: list[Any], key: str, run_seed: int
) -> None:
    environment = everything()
    split = "train" if key.isdecimal() else "eval"

    async def play(played: Environment) -> Trajectory:
        async with played:
            task = played.tasks[split].get(key)
            attempt = played.attempt(task, run_seed=run_seed, member=2)
            return await played.rollout(task, scripted(script), attempt=attempt, queue_s=1.5)

    here = asyncio.run(play(environment))
    with serving(everything()) as server:
        there = asyncio.run(play(server.connect()))
    same(here, there)
    assert there.timing.queue_s == 1.5


async def test_several_seats_with_contexts_of_their_own_are_the_same() -> None:
    environment = Environment(tasks=[Task("1", "Begin.")], rewards=[short], episode=Duel)
    models = {
        "black": ScriptedModel(lambda messages: f"b{len(messages)}"),
        "white": ScriptedModel(lambda messages: f"w{len(messages)}{messages[0].text}"),
    }
    task = environment.tasks["train"][0]
    here = await environment.rollout(task, models)
    with serving(environment) as server:
        async with server.connect() as remote:
            there = await remote.rollout(task, models)
    same(here, there)
    assert there.turn_count == 4


class Broken(Episode):
    """Fails where drivers ask what is due."""

    seats: ClassVar[Mapping[str, bool]] = {"black": True, "white": False}

    async def respond(self, completion: Completion) -> str:
        self.due_seat = str(self.task.reference)
        return "Go on."

    def messages_of(self, seat: str) -> Sequence[Message]:
        if seat == self.task.key:
            raise LookupError("no context")
        return super().messages_of(seat)


@pytest.mark.parametrize(
    "task", [Task("black", "Begin.", "black"), Task("1", "Begin.", "grey")], ids=lambda t: t.key
)
async def test_what_fails_as_drivers_ask_what_is_due_fails_the_attempt_the_same(task: Task) -> None:
    environment = Environment(tasks=[task], rewards=[short], episode=Broken)
    task = environment.tasks["train"][0]
    here = await environment.rollout(task, scripted(["a", "b"]))
    with serving(environment) as server:
        async with server.connect() as remote:
            there = await remote.rollout(task, scripted(["a", "b"]))
    same(here, there)
    assert there.failure is not None
    assert there.failure.type == "EnvironmentFaultError"


async def test_a_group_is_scored_and_compared_the_same() -> None:
    def make() -> Environment:
        return Environment(
            tasks=[Task("1", "Begin.")], rewards=[short, rank], episode=Everything, max_turns=2
        )

    def policy(messages: Sequence[Message], tools: object, rng: random.Random) -> str:
        return "x" * rng.randint(1, 9)

    environment = make()
    async with environment:
        task = environment.tasks["train"][0]
        here = await environment.rollout_group(task, ScriptedModel(policy), 4)
    with serving(make()) as server:
        async with server.connect() as remote:
            there = await remote.rollout_group(task, ScriptedModel(policy), 4)
            async with remote.start_group(task, 2) as group:
                for episode in group.episodes:
                    await episode.step(Completion(Message("assistant", "end")))
                driven = await group.score()
    for one, other in zip(here, there, strict=True):
        same(one, other)
    assert [each.rewards["rank"].value for each in driven] == [0.0, 0.0]


async def test_tasks_of_one_key_are_refused_from_afar_too() -> None:
    keys = [*map(str, range(70)), "3"]

    def make() -> Environment:
        return Environment(tasks=[Task(key, "Once.") for key in keys], rewards=[short])

    with serving(make()) as server:
        async with server.connect() as remote:
            for environment in (make(), remote):
                draws = environment.tasks["train"].draws()
                drawn = [task.key for task, _ in islice(draws, 70)]
                with pytest.raises(SettingsError, match=r"tasks 3 and 70 of the split 'train'"):
                    next(draws)
                assert drawn == keys[:70]


async def test_a_mixture_is_served_with_each_environments_own_rewards() -> None:
    def make() -> Mixture:
        single = Environment(tasks=[Task("1", "Once.")], rewards=[turns, short])
        return Mixture({"odd": everything(), "single": single}, seed=4)

    async def made_by(environment: Environment) -> list[Trajectory]:
        async with environment:
            return [
                await environment.rollout(
                    task, scripted(["a"]), attempt=environment.attempt(task, visit=visit)
                )
                for task, visit in islice(environment.tasks["train"].draws(), 12)
            ]

    here = await made_by(make())
    with serving(make()) as server:
        there = await made_by(server.connect())
    assert {each.attempt.visit for each in here} > {0}
    for one, other in zip(here, there, strict=True):
        same(one, other)


async def test_a_served_mixture_takes_a_model_for_each_seat_of_its_environments() -> None:
    def make() -> Mixture:
        duel = Environment(tasks=[Task("1", "Talk.")], rewards=[turns, short], episode=Duel)
        single = Environment(tasks=[Task("1", "Once.")], rewards=[turns, short])
        return Mixture({"duel": duel, "single": single})

    models = {seat: ScriptedModel.constant(seat) for seat in ("black", "white", "policy")}

    async def made_by(environment: Environment) -> list[Trajectory]:
        async with environment:
            tasks = [environment.tasks["train"].get(key) for key in ("duel:1", "single:1")]
            return [await environment.rollout(task, models) for task in tasks]

    here = await made_by(make())
    with serving(make()) as server:
        assert dict(server.connect().seats) == {"black": True, "white": False, "policy": True}
        there = await made_by(server.connect())
    assert [list(each.seats) for each in here] == [["black", "white"], ["policy"]]
    for one, other in zip(here, there, strict=True):
        assert one.failure is None
        same(one, other)


async def test_a_run_over_http_makes_the_attempts_of_a_run_in_process() -> None:
    async def made_by(environment: Environment) -> dict[Any, Trajectory]:
        made: dict[Any, Trajectory] = {}
        plan = RunPlan(task_count=70, group_size=2, concurrency=16, seed=3)
        async with environment:
            model = scripted(["a", call("add", amount=2), "b"])
            await run(environment, model, plan, on_trajectory=lambda t: made.update({t.attempt: t}))
        return made

    here = await made_by(everything())
    with serving(everything()) as server:
        there = await made_by(server.connect())
    assert here.keys() == there.keys()
    for attempt, trajectory in here.items():
        same(trajectory, there[attempt])


async def test_a_saved_trajectory_is_scored_again_over_there() -> None:
    environment = everything()
    async with environment:
        trajectory = await environment.rollout(environment.tasks["train"][0], scripted(["a"]))
        here = await environment.score(trajectory)
        with serving(everything()) as server:
            async with server.connect() as remote:
                same(here, await remote.score(trajectory))


def test_tasks_are_read_by_index_key_and_in_order() -> None:
    environment = everything()
    with serving(everything()) as server:
        remote = server.connect()
        assert list(remote.tasks) == ["train", "eval", "lazy"]
        assert remote.tasks["train"].is_infinite
        assert remote.tasks["train"][3] == environment.tasks["train"][3]
        assert remote.tasks["train"].get("1000") == environment.tasks["train"].get("1000")
        assert list(remote.tasks["lazy"]) == list(environment.tasks["lazy"])
        assert len(remote.tasks["eval"]) == 3
        assert remote.tasks["eval"][-1].reference == 2**70
        for key in ("nowhere", "01"):
            try:
                remote.tasks["train"].get(key)
            except KeyError:
                continue
            raise AssertionError(key)


async def test_what_is_known_of_the_environment_is_known_of_the_remote_one() -> None:
    environment = everything()
    environment.settings = {"size": 3}
    with serving(environment) as server:
        remote = server.connect()
        assert remote.identity == environment.identity
        assert remote.settings == {"size": 3}
        assert remote.strop_version == environment.strop_version
        assert (remote.max_turns, remote.seats) == (6, {"policy": True})
        assert not remote.has_group_rewards
