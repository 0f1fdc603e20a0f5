"""Answers in boxes, and their equality as mathematics."""

import subprocess
import sys
import time

import pytest

from strop.errors import StropError
from strop.rewards import boxed_answer, boxed_math
from strop.rewards.boxed import decide_cheaply
from strop.types import JSON
from tests.sdk.rewards.conftest import Score


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{5}.", "5"),
        (r"\boxed{4}, no, \boxed{5}", "5"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\{1, 2}", r"\{1, 2"),
        (r"\boxed{x = \boxed{5}}", "5"),
        (r"\boxed {5}", "5"),
        (r"\fbox{5}", "5"),
        (r"\boxed{4} then \boxed{5", "4"),
        (r"} \boxed{5}", "5"),
        (r"{ \boxed{5}", "5"),
        (r"\boxed{ 5" + "\n}", "5"),
        (r"\boxed{}", ""),
        (r"\boxed{5", None),
        (r"\\boxed{5}", None),
        ("boxed{5}", None),
        (r"\boxed", None),
        ("5", None),
        ("", None),
    ],
)
def test_the_last_box_whose_braces_balance_counts(text: str, answer: str | None) -> None:
    assert boxed_answer(text) == answer


@pytest.mark.parametrize("text", [r"\boxed{" * 50_000, "{" * 300_000, r"\boxed{}" * 50_000])
def test_thousands_of_boxes_are_read_in_little_time(text: str) -> None:
    started = time.process_time()
    boxed_answer(text)
    assert time.process_time() - started < 4


@pytest.mark.parametrize(
    ("answer", "reference", "verdict"),
    [
        ("5", "5", True),
        ("5.0", "5", True),
        ("$5$", "5", True),
        (r"\$5", "5", True),
        ("5.", "5", True),
        ("1,000", "1000", True),
        (r"10,\!000", "10000", True),
        ("1/2", r"\frac{1}{2}", True),
        (r"\dfrac{x}{2}", r"\frac{x}{2}", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})", True),
        ("\u22125", "-5", True),
        ("90°", r"90^\circ", True),
        (r"\text{Evelyn}", "evelyn", True),
        ("5", "6", False),
        ("12", "1 2", None),
        ("dogs", r"\text{gods}", False),
        ("even", "odd", None),
        ("0.33", "1/3", None),
        ("50%", "50", None),
        ("x+1", "1+x", None),
    ],
)
def test_what_a_look_decides_needs_no_worker(
    answer: str, reference: str, verdict: bool | None
) -> None:
    assert decide_cheaply(answer, reference) is verdict


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("(x+1)^2", "x^2+2x+1", 1),
        (r"2\sqrt2", r"\sqrt{8}", 1),
        (r"\frac12", "0.5", 1),
        (r"\dfrac{3}{6}", r"\frac{1}{2}", 1),
        ("0.333333", r"\frac{1}{3}", 1),
        ("0.3333", r"\frac{1}{3}", 0),
        (r"10\%", "0.1", 1),
        (r"10\%", "10", 1),
        (r"\{2, 1\}", r"\{1, 2\}", 1),
        (r"\{1, 2, 3\}", r"\{1, 2\}", 0),
        ("2, 1", "1, 2", 1),
        ("(2, 1)", "(1, 2)", 0),
        ("[0, 1/2)", r"[0, \frac{1}{2})", 1),
        ("[0, 1]", "[0, 1)", 0),
        (r"(-\infty, 0) \cup (0, \infty)", r"(0,\infty)\cup(-\infty,0)", 1),
        (r"5 \text{ cm}", "5", 1),
        ("x = 5", "5", 1),
        ("f(3) = 5", "5", 1),
        ("a + b = 5", "5", 1),
        (r"\angle ABC = 5^\circ", "5", 1),
        (r"\frac{1}{2} = 0.5", r"\frac{1}{2}", 1),
        (r"\frac{1}{2} = 0.5", "0.5", 1),
        (r"P(A) = \frac{12}{24} = \frac{1}{2}", "0.5", 1),
        (r"\frac{1}{4} = 25\%", "25", 1),
        (r"\frac{22}{7} = 3.14", "3.14", 1),
        (r"\frac{\pi}{6} = 30^\circ", "30", 1),
        (r"\sin 30^\circ = \frac{1}{2}", "0.5", 1),
        ("5_{10} = 101_2", "101_2", 1),
        (r"x = 5 \text{ and } y = 6", "(5, 6)", 1),
        ("4 = 5", "5", 0),
        ("x = 4 = 5", "x = 5", 0),
        ("4 = x = 5", "5", 0),
        ("4 = 5 = 6 = 5", "5", 0),
        (r"2 \cdot 3 = 5", "5", 0),
        (r"4.9 = 5.1", "5.1", 0),
        (r"\text{odd}", "even", 0),
        (r"\pi", "3.14", 0),
        ("\u2212\\frac{1}{2}", "-0.5", 1),
        (r"3 \text{ or } 4", "3", 0),
        (r"\text{3 or 4}", "3", 0),
        ("3, 4", "3", 0),
        (r"\pm 3", "3", 0),
        ("I think 3", "3", 0),
        (r"### \frac{3}{1}", "3", 0),
        ("None", "3", 0),
        (r"\frac{1}{0}", "3", 0),
        (r"\frac{", "3", 0),
        ("?!", "3", 0),
        ("\u0663", "3", 0),
    ],
)
async def test_the_rest_is_decided_as_mathematics(
    score: Score, answer: str, reference: str, expected: float
) -> None:
    trajectory = await score(boxed_math(), rf"\boxed{{{answer}}}", reference)
    assert trajectory.failure is None
    assert trajectory.reward == expected


@pytest.mark.parametrize("text", ["", " ", "None", "5", r"\boxed{}", r"\boxed{ }", r"\boxed{5"])
async def test_no_answer_is_zero(score: Score, text: str) -> None:
    assert (await score(boxed_math(), text, "5")).reward == 0


async def test_many_boxes_win_nothing(score: Score) -> None:
    text = " ".join(rf"\boxed{{{number}}}" for number in range(100))
    assert (await score(boxed_math(), text, "50")).reward == 0


async def test_one_of_several_references_is_enough(score: Score) -> None:
    assert (await score(boxed_math(), r"\boxed{1+x}", ["y", "x+1"])).reward == 1


async def test_another_way_to_the_answer_can_be_given(score: Score) -> None:
    reward = boxed_math(extract=lambda text: text or None, name="correct", weight=2.0)
    trajectory = await score(reward, "1+x", "x+1")
    assert trajectory.reward == 2
    assert list(trajectory.rewards) == ["correct"]


@pytest.mark.parametrize("reference", [None, {"answer": "5"}])
async def test_a_task_without_a_usable_reference_fails(score: Score, reference: JSON) -> None:
    trajectory = await score(boxed_math(), r"\boxed{5}", reference)
    assert trajectory.reward is None
    assert trajectory.failure is not None


async def test_what_cannot_be_decided_is_a_failure_and_not_a_zero(score: Score) -> None:
    trajectory = await score(boxed_math(cpu_limit_s=0.2), r"\boxed{10^{10^{10}}}", "5")
    assert trajectory.reward is None
    assert trajectory.failure is not None
    assert trajectory.failure.type == "RewardError"
    assert "0.2 s of CPU" in trajectory.failure.message


def test_without_the_extra_the_reward_cannot_be_made() -> None:
    # A finder that finds nothing stands for an interpreter without the extra.
    code = (
        "import sys; sys.path = [p for p in sys.path if not p.endswith('site-packages')];"
        "from strop.rewards.boxed import boxed_math\n"
        "try: boxed_math()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    printed = subprocess.run(
        [sys.executable, "-S", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": "sdk"},
        cwd=_root(),
    ).stdout
    assert printed.startswith("EnvironmentLoadError")
    assert "pip install 'strop[math]'" in printed
    assert issubclass(StropError, Exception)


def _root() -> str:
    import strop

    return str(strop.__file__).rpartition("/sdk/")[0]


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_limit_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(ValueError, match="cpu_limit_s"):
        boxed_math(cpu_limit_s=limit)
