"""Texts, their reversal and what the settings do."""

from itertools import islice

import pytest
from reverse_text_env import load_environment

from strop import ScriptedModel


async def reward_of(text: str) -> float | None:
    environment = load_environment()
    async with environment:
        task = environment.tasks["train"][0]
        answer = text.format(reference=task.reference, prompt=task.prompt[0].text)
        return (await environment.rollout(task, ScriptedModel.constant(answer))).reward


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{reference}", 1),
        ("  {reference}\n", 1),
        ("{prompt}", 0),
        ("The answer is {reference}", 0),
        ("{reference} {reference}", 0),
        ("", 0),
    ],
)
async def test_only_the_reversed_text_scores(text: str, expected: float) -> None:
    assert await reward_of(text) == expected


def test_the_number_of_words_follows_the_settings() -> None:
    tasks = load_environment(min_words=2, max_words=3).tasks["train"]
    counts = {len(task.prompt[0].text.split()) for task in islice(tasks, 100)}
    assert counts == {2, 3}


def test_another_seed_gives_other_texts() -> None:
    first, second = (load_environment(seed=seed).tasks["train"][0].prompt for seed in (0, 1))
    assert first != second


def test_no_text_of_train_is_in_eval() -> None:
    splits = load_environment(max_words=1).tasks
    train = {task.prompt for task in islice(splits["train"], 2000)}
    assert train.isdisjoint({task.prompt for task in splits["eval"]})


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 2), (-1, -1)])
def test_settings_out_of_range_are_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="min_words"):
        load_environment(low, high)
