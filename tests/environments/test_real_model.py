"""Every environment of this repository with a real small model: the rewards are what they are."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strop import OpenAIModel, RunPlan, Sampling, Trajectory, evaluate, read_trajectories
from strop.models.local import KNOWN, LocalServer, fetch_weights
from tests.environments.conftest import FOLDER, Load

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("local-model"),
]

NAMES = sorted(path.parent.name for path in FOLDER.glob("*/pyproject.toml"))
TASK_COUNT = 16
SETTINGS: dict[str, dict[str, Any]] = {
    "logic_env": {"generators": ("own",)},
    "math_env": {"topic": "arithmetic", "level": 0, "answer_form": "last_number"},
    "reverse_text_env": {"max_words": 1},
}
"""The easiest there is, where the default asks more of a model than this one can."""
MAX_TOKENS = {"math_env": 32}
"""Of one completion, where 64 are too many."""


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalServer]:
    """SmolLM2 behind its own server, as `strop model serve smollm2` has it."""
    with LocalServer(fetch_weights(KNOWN["smollm2"]), "smollm2", threads=1) as server:
        yield server


async def play(load: Load, name: str, engine: LocalServer, out: Path) -> list[Trajectory]:
    environment = load(name, **SETTINGS.get(name, {}))
    model = OpenAIModel(engine.model, engine.base_url, engine="llama.cpp")
    plan = RunPlan(
        split="eval",
        task_count=TASK_COUNT,
        concurrency=4,
        sampling=Sampling(temperature=0, max_tokens=MAX_TOKENS.get(name, 64)),
    )
    await evaluate(environment, model, plan, out=out)
    await model.close()
    return list(read_trajectories(out / "trajectories.jsonl"))


@pytest.mark.parametrize("name", NAMES)
async def test_a_real_model_plays_16_tasks_and_no_attempt_fails(
    load: Load, name: str, engine: LocalServer, tmp_path: Path
) -> None:
    trajectories = await play(load, name, engine, tmp_path)
    assert len(trajectories) == TASK_COUNT
    assert [each.failure for each in trajectories if each.failure is not None] == []
    rewards = [each.reward for each in trajectories if each.reward is not None]
    assert len(rewards) == TASK_COUNT
    assert all(math.isfinite(reward) for reward in rewards)
    for each in trajectories:
        assert each.segments[-1].model == "smollm2"
        assert each.segments[-1].token_ids
        assert each.to_samples()
    reasons = Counter(each.stop_reason for each in trajectories)
    turns = sum(each.turn_count for each in trajectories) / TASK_COUNT
    mean = sum(rewards) / TASK_COUNT
    print(f"SmolLM2, {name}: mean reward {mean:.4f}, {turns:.1f} turns, {dict(reasons)}")


async def test_sums_of_single_digits_are_what_it_sometimes_solves(
    load: Load, engine: LocalServer, tmp_path: Path
) -> None:
    trajectories = await play(load, "math_env", engine, tmp_path)
    rewards = [each.reward for each in trajectories]
    assert 0 < rewards.count(1.0) < TASK_COUNT, rewards
