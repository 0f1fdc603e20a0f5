"""A rollout's identity gives its seeds."""

import hashlib
import json
from dataclasses import replace

from strop import Attempt

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
