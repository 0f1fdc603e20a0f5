"""Numbers as they are written, and their equality."""

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.rewards import last_number, numeric, parse_number
from strop.types import JSON
from tests.sdk.rewards.conftest import Score


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", Fraction(7)),
        ("-7", Fraction(-7)),
        ("+7", Fraction(7)),
        ("\u22127", Fraction(-7)),
        ("\u20137", Fraction(-7)),
        ("007", Fraction(7)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1,234,567.5", Fraction(2469135, 2)),
        ("12{,}345", Fraction(12345)),
        ("3/4", Fraction(3, 4)),
        ("3 / 4", Fraction(3, 4)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-\dfrac{3}{4}", Fraction(-3, 4)),
        (r"\tfrac{-3}{4}", Fraction(-3, 4)),
        ("25%", Fraction(1, 4)),
        (r"25\%", Fraction(1, 4)),
        ("25 %", Fraction(1, 4)),
        ("1e3", Fraction(1000)),
        ("2.5E-2", Fraction(1, 40)),
        ("$18", Fraction(18)),
        (r"\$1,800.00", Fraction(1800)),
        ("-\u20ac5", Fraction(-5)),
        ("9" * 60, Fraction(int("9" * 60))),
    ],
)
def test_a_number_is_read_exactly(text: str, number: Fraction) -> None:
    assert parse_number(text) == number
    assert last_number(f"It is 99, no: {text}") == number


@pytest.mark.parametrize(
    "text",
    ["", " ", "None", "nan", "inf", "-", "%", "1/0", r"\frac{1}{0}", "x7", "1,23", "12,3456"],
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    "text", ["1 2", "7 apples", "1.2.3", "\u0663", "1e99999", "9" * 5000, "1" + "0" * 399 + "e999"]
)
def test_what_is_more_than_a_number_or_absurd_is_none(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("First 3, then 4 apples.", 4),
        ("10-3", 3),
        ("10 - 3 = 7.", 7),
        ("It costs $1,234.50 today", Fraction(2469, 2)),
        ("x2 has no number", None),
        ("no number", None),
        ("", None),
    ],
)
def test_the_last_number_of_a_text_counts(text: str, number: Fraction | int | None) -> None:
    assert last_number(text) == number


@pytest.mark.parametrize("text", ["9" * 200_000, "1," * 100_000, "1 " * 100_000, "-/%" * 70_000])
def test_long_nonsense_is_read_in_little_time(text: str) -> None:
    started = time.process_time()
    parse_number(text)
    last_number(text)
    assert time.process_time() - started < 4


@given(st.fractions(), st.text(st.characters(categories=["L"]), max_size=20))
def test_every_fraction_is_found_at_the_end_of_any_words(number: Fraction, before: str) -> None:
    assert last_number(f"{before} {number}") == number


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("The sum is 12.", 12, 1),
        ("The sum is 12.", "12", 1),
        ("12 or 13", 12, 0),
        ("0.1", 0.1, 1),
        ("0.10000000000000001", 0.1, 0),
        ("0.3333", "1/3", 0),
        ("50%", "0.5", 1),
        ("50%", "50", 0),
        ("90071992547409930001", 90071992547409930001, 1),
        ("90071992547409930002", 90071992547409930001, 0),
        ("4", [2, "4"], 1),
        ("", 0, 0),
        ("None", 0, 0),
    ],
)
async def test_equality_is_exact_by_default(
    score: Score, text: str, reference: JSON, expected: float
) -> None:
    assert (await score(numeric(), text, reference)).reward == expected


@pytest.mark.parametrize(("text", "expected"), [("9.9", 1), ("9.89", 0), ("10.1", 1)])
async def test_a_tolerance_includes_its_border(score: Score, text: str, expected: float) -> None:
    assert (await score(numeric(absolute=0.1), text, 10)).reward == expected
    assert (await score(numeric(relative=0.01), text, 10)).reward == expected
    assert (await score(numeric(relative=0.01), text.replace("1", "-1"), -10)).reward == 0


async def test_a_percent_sign_can_be_ignored(score: Score) -> None:
    assert (await score(numeric(ignore_percent=True), "25%", 25)).reward == 1


async def test_the_number_of_an_extracted_answer_counts(score: Score) -> None:
    def first_line(text: str) -> str | None:
        return text.splitlines()[0] if text else None

    assert (await score(numeric(extract=first_line), "about 5\nnot 6", 5)).reward == 1
    assert (await score(numeric(extract=first_line), "", 5)).reward == 0


@pytest.mark.parametrize("reference", ["many", None, "1/0"])
async def test_a_reference_that_is_no_number_is_a_failure(score: Score, reference: JSON) -> None:
    trajectory = await score(numeric(), "5", reference)
    assert trajectory.reward is None
    assert trajectory.failure is not None


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), float("inf")])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="relative is"):
        numeric(relative=tolerance)
