"""Every environment of this repository with a real small model: the rewards are what they are."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strop import (
    OpenAIModel,
    RunPlan,
    Sampling,
    ScriptedModel,
    Trajectory,
    evaluate,
    read_trajectories,
)
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


JUDGED: list[tuple[str, dict[str, Any], str]] = [
    ("What flows out of a volcano?", {"answer": "lava"}, r"\boxed{molten rock}"),
    ("What do bees make?", {"answer": "honey"}, r"\boxed{a sweet food of bees}"),
    ("What is the capital of France?", {"answer": "Paris"}, r"\boxed{London}"),
    ("Which gas do plants take in?", {"answer": "carbon dioxide"}, r"\boxed{CO2}"),
]
"""Questions, their references, and answers in other words, right and wrong ones."""


async def test_a_real_judge_is_asked_and_its_reply_is_a_verdict_or_a_failure_that_shows_it(
    load: Load, engine: LocalServer, tmp_path: Path
) -> None:
    path = tmp_path / "words.jsonl"
    path.write_text("".join(json.dumps({"question": q, **a}) + "\n" for q, a, _ in JUDGED))
    settings = {"dataset": "rows", "path": str(path)}
    judge = {"judge_model": engine.model, "judge_url": engine.base_url}
    environment = load("science_env", **settings, **judge)
    async with environment:
        tasks = list(environment.tasks["eval"])
        played = [
            await environment.rollout(task, ScriptedModel.constant(reply))
            for task, (_, _, reply) in zip(tasks, JUDGED, strict=True)
        ]
        known = await environment.rollout(tasks[0], ScriptedModel.constant(r"\boxed{lava}"))
    assert (known.reward, known.replies) == (1.0, ())
    for trajectory in played:
        [reply] = trajectory.replies
        assert reply.source == "judge:correct"
        if trajectory.failure is None:
            assert trajectory.reward in (0.0, 1.0)
        else:
            assert trajectory.reward is None
            assert "gave no verdict of yes, no" in trajectory.failure.message
    # Scored again, the judge is not asked: what it said is in the record.
    again = load(
        "science_env", **settings, judge_model=engine.model, judge_url="http://127.0.0.1:1"
    )
    async with again:
        scored = [(await again.score(each)).reward for each in played]
    assert scored == [each.reward for each in played]
    print(f"SmolLM2 as judge of science_env: rewards {scored}")
