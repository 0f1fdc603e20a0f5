"""A rollout's identity gives its seeds."""

import hashlib
import json
from dataclasses import replace
from typing import Any

from strop import Attempt, End, Environment, Episode, ScriptedModel, Task
from strop.trajectory_json import decode_line, encode_line

ATTEMPT = Attempt(7, "ada/maze", "train", "12", visit=1, member=3)


def test_the_sampling_seed_is_the_hash_of_the_identity() -> None:
    identity = json.dumps([7, "ada/maze", "train", "12", 1, 3], separators=(",", ":"))
    expected = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big")

    assert ATTEMPT.sampling_seed == expected


def test_a_group_shares_the_environment_seed_and_nothing_else() -> None:
    other = replace(ATTEMPT, member=4)

    assert other.environment_seed == ATTEMPT.environment_seed
    assert other.sampling_seed != ATTEMPT.sampling_seed


def test_every_part_of_the_identity_changes_both_seeds() -> None:
    others = [
        replace(ATTEMPT, run_seed=8),
        replace(ATTEMPT, environment="bob/maze"),
        replace(ATTEMPT, split="eval"),
        replace(ATTEMPT, task_key="13"),
        replace(ATTEMPT, visit=2),
    ]

    assert len({each.environment_seed for each in [*others, ATTEMPT]}) == 6
    assert len({each.sampling_seed for each in [*others, ATTEMPT]}) == 6


def test_odd_keys_have_seeds_too() -> None:
    assert replace(ATTEMPT, task_key="\ud800\u2028\x00").environment_seed >= 0


class Dice(Episode):
    """Throws for the environment; the model throws for itself."""

    async def respond(self, completion: Any) -> End:
        self.outcome["thrown"] = self.rng.randrange(10**9)
        return End()


async def test_a_record_is_played_again_by_its_attempt_and_a_trainers_seed_is_a_runs() -> None:
    def throw(messages: Any, tools: Any, rng: Any) -> str:
        return str(rng.randrange(10**9))

    task = Task("1", "Throw.")
    environment = Environment(tasks=[task], rewards=[], episode=Dice)
    model = ScriptedModel(throw)
    attempt = environment.attempt(task, run_seed=7, visit=1, member=3)
    recorded = decode_line(encode_line(await environment.rollout(task, model, attempt=attempt)))

    again = await environment.rollout(task, model, attempt=recorded.attempt)
    other = await environment.rollout(task, model, attempt=replace(attempt, run_seed=8))

    assert recorded.attempt == attempt
    assert (again.text, again.outcome) == (recorded.text, recorded.outcome)
    assert other.text != again.text
    assert other.outcome != again.outcome
