"""Answers get what they deserve: by all cases or their share, in one turn or several."""

from dataclasses import replace

import pytest
from coding_tasks import ADD, CASES, DOUBLE, FUNCTION, PROGRAM, answer
from conftest import Play

pytestmark = pytest.mark.asyncio(loop_scope="module")

HALF = "a, b = map(int, input().split())\nprint(a + b if a < 6 else 0)"


@pytest.mark.parametrize(
    ("code", "verdict", "passed"),
    [
        (ADD, "passed", 4),
        (HALF, "failed", 2),
        ("print(3)", "failed", 1),
        ("", "failed", 0),
        ("raise ValueError", "error", 0),
        ("print(", "error", 0),
        ("while True: pass", "timeout", 0),
        ("print('\ud800')", "failed", 0),
        ("print('\\x00' * 100_000_000)", "error", 0),
    ],
)
async def test_a_program_is_judged_by_its_outputs(
    play: Play, code: str, verdict: str, passed: int
) -> None:
    trajectory = await play(PROGRAM, code)
    assert (trajectory.outcome["verdict"], trajectory.outcome["passed"]) == (verdict, passed)
    assert trajectory.reward == float(passed == 4)
    assert trajectory.rewards["share"].value == passed / 4


@pytest.mark.parametrize(
    ("code", "verdict", "passed"),
    [
        (DOUBLE, "passed", 4),
        ("def double(xs): return [2 * x for x in xs][:1]", "failed", 3),
        ("def double(xs): return xs", "failed", 1),
        ("def twice(xs): return xs", "failed", 0),
        ("def double(xs): raise KeyError('\u20ac' * 900)", "failed", 0),
        ("def double(xs): return object()", "failed", 0),
    ],
)
async def test_a_function_is_judged_by_its_values(
    play: Play, code: str, verdict: str, passed: int
) -> None:
    trajectory = await play(FUNCTION, code)
    assert (trajectory.outcome["verdict"], trajectory.outcome["passed"]) == (verdict, passed)
    assert trajectory.reward == float(passed == 4)
    assert trajectory.rewards["share"].value == passed / 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        ADD,
        f"```python\n{ADD}",
        f"<think>{answer(ADD)}</think>",
        answer(ADD) + "\nor:\n" + answer("print(3)"),
        answer("print(3)\nprint(11)\nprint(30)\nprint(15)"),
    ],
    ids=["nothing", "no fence", "open fence", "only thought", "two answers", "all answers"],
)
async def test_only_the_last_fenced_program_counts_and_as_a_whole(play: Play, text: str) -> None:
    assert (await play(PROGRAM, text, is_text=True)).reward == 0
    good = f"{answer('print(3)')}\nno:\n{answer(ADD)}"
    assert (await play(PROGRAM, good, is_text=True)).reward == 1


async def test_repair_turns_show_the_case_that_fails(play: Play) -> None:
    trajectory = await play(PROGRAM, "print(3)", ADD, "print(0)")
    told = trajectory.segments[2].messages[0].text
    assert "Input:\n5 6\n" in told
    assert "Expected output:\n11\n" in told
    assert r"wrote '3\n'" in told
    # It ends with the first answer that passes.
    assert (trajectory.reward, trajectory.turn_count, trajectory.stop_reason) == (1.0, 2, "ended")

    called = await play(FUNCTION, "def double(xs): return [2]", DOUBLE)
    assert "assert double([]) == []" in called.segments[2].messages[0].text
    assert called.reward == 1.0


async def test_the_last_answer_counts_even_if_an_earlier_one_was_better(play: Play) -> None:
    trajectory = await play(PROGRAM, "print(3)", "print(0)", grading="fraction")
    assert trajectory.reward == 0.0


SHOWN = replace(PROGRAM, prompt="Print the sum.\n\nInput:\n1 2\n\nOutput:\n3\n")
"""With its first case in the prompt."""
TABLE = "import sys\nprint({!r}.get(sys.stdin.read()))"


@pytest.mark.parametrize(
    ("codes", "reward"),
    [
        ((ADD,), 1.0),
        ((HALF,), 1 / 3),
        ((TABLE.format(dict(map(tuple, CASES[:1]))),), 0.0),
        # What was told by then counts no more than what the prompt shows.
        (("print(0)", TABLE.format(dict(map(tuple, CASES[:1])))), 0.0),
        (("print(3)", TABLE.format(dict(map(tuple, CASES[:2])))), 0.0),
        (("print(3)", HALF), 0.0),
        (("print(3)", ADD), 1.0),
        # Whoever leaves as it is what was told gains nothing by having been told.
        (("print(3)", f"{ADD} if 0 else print(0)"), 0.0),
        (("a = input()\nprint(0 if a == '5 6' else sum(map(int, a.split())))",) * 2, 0.75),
    ],
)
async def test_the_share_is_of_what_was_not_told_if_that_is_less(
    play: Play, codes: tuple[str, ...], reward: float
) -> None:
    trajectory = await play(SHOWN, *codes, grading="fraction")
    assert trajectory.reward == pytest.approx(reward)


async def test_the_second_half_of_the_cases_is_never_shown(play: Play) -> None:
    stuffed = f"print({dict(CASES[:2])!r}[__import__('sys').stdin.read()])"
    trajectory = await play(PROGRAM, stuffed, ADD)
    shown = [m.text for segment in trajectory.segments for m in segment.messages]
    assert not any("10 20" in text or "7 8" in text for text in shown)
    assert (trajectory.reward, trajectory.turn_count) == (0.0, 1)


async def test_what_is_told_holds_no_address_in_memory(play: Play) -> None:
    trajectory = await play(PROGRAM, "raise ValueError(object())", ADD)
    told = trajectory.segments[2].messages[0].text
    assert "<object object at 0x…>" in told


async def test_an_answer_without_a_program_may_be_repaired_too(play: Play) -> None:
    trajectory = await play(PROGRAM, "I think that it is 3.", answer(ADD), is_text=True)
    assert "no fenced block" in trajectory.segments[2].messages[0].text
    assert trajectory.reward == 1.0
