"""Two seats of one attempt on a real engine: each has exactly the tokens of its own calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, TypeAlias

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    OpenAIModel,
    RunPlan,
    Sampling,
    Task,
    Trajectory,
    evaluate,
    read_trajectories,
    reward,
)
from tests.sdk.models.local.recording import Recording

pytestmark = [pytest.mark.xdist_group("local-model"), pytest.mark.slow, pytest.mark.timeout(1800)]

Call: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A seat, the ids of its prompt and the ids that were sampled."""

ROLES = {
    "proposer": "You say one short sentence.",
    "solver": "You answer in one short sentence.",
}
ROUNDS = 2


class Sayings(Episode):
    """One seat begins, the other answers, in turns; both are trained."""

    seats: ClassVar[Mapping[str, bool]] = {"proposer": True, "solver": True}

    async def setup(self) -> None:
        for seat, role in ROLES.items():
            self.tell(seat, Message("system", role))
        self.tell("proposer", f"What is {self.task.metadata['first']} + 1?")

    async def respond(self, completion: Completion) -> str | End | list[Message]:
        is_solver = self.due_seat == "solver"
        if is_solver and self.turn_count >= 2 * ROUNDS:
            return End()
        self.due_seat = "proposer" if is_solver else "solver"
        self.tell(self.due_seat, completion.text or "I am speechless.")
        return []


@reward(range=(0, 1), seat="proposer", inline=True)
def proposed(trajectory: Trajectory) -> float:
    return float(bool(trajectory.text_of("proposer")))


@reward(range=(0, 1), seat="solver", inline=True)
def solved(trajectory: Trajectory) -> float:
    return float(bool(trajectory.text_of("solver")))


def on_the_wire(recording: Recording) -> Counter[Call]:
    """What the engine logged of every call: whose it was, its prompt's ids and its own."""
    tokenized = {
        each.request["content"]: tuple(each.reply["tokens"])
        for each in recording.replies("/tokenize")
    }
    seats = {role: seat for seat, role in ROLES.items()}
    return Counter(
        (
            seats[each.request["messages"][0]["content"]],
            tokenized[each.reply["__verbose"]["prompt"]],
            tuple(each.reply["__verbose"]["tokens"]),
        )
        for each in recording.replies("/chat/completions")
    )


def in_the_record(trajectories: list[Trajectory]) -> Counter[Call]:
    """The same, of the completions on the paths of every trajectory."""
    calls: Counter[Call] = Counter()
    for trajectory in trajectories:
        for index, segment in enumerate(trajectory.segments):
            path = trajectory.path(index)
            assert {each.seat for each in path} == {segment.seat}
            if segment.kind == "completion":
                *before, own = [tuple(each.token_ids or ()) for each in path]
                calls[segment.seat, sum(before, ()), own] += 1
    return calls


async def test_each_seat_has_exactly_the_engines_tokens_of_its_own_calls(
    recording: Recording, tmp_path: Path
) -> None:
    tasks = [Task(str(first), (), metadata={"first": first}) for first in range(2, 6)]
    environment = Environment(tasks=tasks, rewards=[proposed, solved], episode=Sayings)
    sampling = Sampling(temperature=0.5, max_tokens=64)
    model = OpenAIModel("smollm2", recording.base_url, engine="llama.cpp")
    await evaluate(
        environment, model, RunPlan(group_size=2, concurrency=4, sampling=sampling), out=tmp_path
    )
    await model.close()
    trajectories = list(read_trajectories(tmp_path / "trajectories.jsonl"))

    assert len(trajectories) == 8
    assert {each.failure for each in trajectories} == {None}
    turns = [each.turn_count for each in trajectories]
    print(f"SmolLM2 in two seats: {turns} turns")
    # A reply that is cut by its limit ends an attempt early; some seat speaks twice all the same.
    assert max(turns) > 2
    calls = on_the_wire(recording)
    assert calls.total() == sum(turns)
    assert in_the_record(trajectories) == calls
    for seat in ROLES:
        samples = [
            sample
            for trajectory in trajectories
            for sample in trajectory.to_samples()
            if sample.seat == seat
        ]
        wholes = {prompt + own for whose, prompt, own in calls if whose == seat}
        assert {tuple(sample.token_ids) for sample in samples} <= wholes
        # Each sampled token is trained on once, and none of the other seat's is.
        sampled = sum(len(own) * count for (whose, _, own), count in calls.items() if whose == seat)
        assert sum(sum(sample.mask) for sample in samples) == sampled
