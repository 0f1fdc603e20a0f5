"""Equality of texts."""

import pytest

from strop import Reward
from strop.rewards import exact, normalize_text
from strop.types import JSON
from tests.sdk.rewards.conftest import Score


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("cba", "cba", 1),
        ("  cba \n", "cba", 1),
        ("two  words", "two words", 1),
        ("two\u00a0words", "two words", 1),
        ("twowords", "two words", 0),
        ("e\u0301", "\u00e9", 1),
        ("CBA", "cba", 0),
        ("\u0441ba", "cba", 0),  # a Cyrillic letter that looks like c
        ("\uff43ba", "cba", 0),  # a full-width c
        ("", "cba", 0),
        ("None", "cba", 0),
        ("", "", 1),
        ("42", 42, 1),
        ("b", ["a", "b"], 1),
        ("c", ["a", "b"], 0),
    ],
)
async def test_spacing_and_composition_are_forgiven_and_nothing_else(
    score: Score, text: str, reference: JSON, expected: float
) -> None:
    assert (await score(exact(), text, reference)).reward == expected


async def test_case_can_be_ignored(score: Score) -> None:
    trajectory = await score(exact(ignore_case=True), "STRASSE", "stra\u00dfe")
    assert trajectory.reward == 1


@pytest.mark.parametrize(("text", "expected"), [("so: yes", 1), ("so: no", 0), ("yes", 0)])
async def test_an_answer_can_be_extracted(score: Score, text: str, expected: float) -> None:
    def after_colon(text: str) -> str | None:
        return text.partition(":")[2] or None

    assert (await score(exact(extract=after_colon), text, "yes")).reward == expected


@pytest.mark.parametrize("reference", [None, {"a": 1}, [], [["a"]], True])
async def test_a_reference_that_no_text_can_equal_is_a_failure_and_not_a_zero(
    score: Score, reference: JSON
) -> None:
    trajectory = await score(exact(), "None", reference)
    assert trajectory.reward is None
    assert trajectory.failure is not None
    assert trajectory.failure.type == "RewardError"
    assert "task '1'" in trajectory.failure.message


def test_name_and_weight_are_taken_over() -> None:
    made = exact(name="strict", weight=0.5)
    assert isinstance(made, Reward)
    assert (made.name, made.weight, made.range, made.is_inline) == ("strict", 0.5, (0, 1), True)


def test_normalizing_twice_changes_nothing() -> None:
    once = normalize_text(" \u0130stanbul\t e\u0301 ", ignore_case=True)
    assert normalize_text(once, ignore_case=True) == once
