"""Solutions are judged from outside, and neither see nor touch what they are compared with."""

import asyncio
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strop.errors import RewardError
from strop.sandbox import Backend, Limits
from strop.sandbox.judge import (
    Case,
    Verdict,
    judge_calls,
    judge_output,
    judge_together,
    names_called,
    same_lines,
)

# Processor time decides; wall time also passes while others have the machine.
LIMITS = Limits(wall_s=300.0, cpu_s=20.0)

ADD = "def add(a, b):\n    return a + b"
TESTS = "assert add(1, 2) == 3\nassert add('a', 'b') == 'ab'"


Row = dict[str, Any]


@pytest.fixture
def human_eval(data_folder: Callable[[str], Path]) -> list[Row]:
    with gzip.open(data_folder("humaneval") / "HumanEval.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


@pytest.fixture
def mbpp(data_folder: Callable[[str], Path]) -> list[Row]:
    lines = (data_folder("mbpp") / "mbpp.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


async def test_a_program_is_judged_by_its_output_for_each_case(spaces: Backend) -> None:
    code = "n = int(input())\nprint(n * n if n != 3 else 0)"
    cases = [Case(b"1", b"1\n"), Case(b"2", b"4"), Case(b"3", b"9\n"), Case(b"x", b"")]

    verdicts = await judge_output(spaces, code, cases)

    assert [verdict.status for verdict in verdicts] == ["passed", "passed", "failed", "error"]
    assert verdicts[2].message == r"wrote '0\n'"
    assert "ValueError" in verdicts[3].message


async def test_a_compiled_program_is_judged_the_same_way(spaces: Backend) -> None:
    code = "#include <iostream>\nint main() { long n; std::cin >> n; std::cout << n * n; }"

    verdicts = await judge_output(
        spaces, code, [Case(b"3", b"9"), Case(b"4", b"9")], language="cpp"
    )

    assert [verdict.status for verdict in verdicts] == ["passed", "failed"]


def test_white_space_at_the_ends_does_not_decide() -> None:
    assert same_lines(b"1 2 \n3\n\n", b"1 2\n3")
    assert not same_lines(b"1  2", b"1 2")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ADD, "passed"),
        ("def add(a, b): return a", "failed"),
        ("def add(a, b): return None", "failed"),
        ("def add(a, b): raise KeyError(a)", "error"),
        ("def add(a, b): return object()", "error"),
        ("def sub(a, b): return a - b", "error"),
        ("def add(a, b) return", "error"),
        ("import os\ndef add(a, b): os._exit(0)", "error"),
        ("raise SystemExit(0)", "error"),
        ("def add(a, b):\n    while True: pass", "timeout"),
        ("while True: pass", "timeout"),
    ],
)
async def test_a_function_is_judged_by_its_values(spaces: Backend, code: str, status: str) -> None:
    # Only what never ends is given little time.
    limits = replace(LIMITS, wall_s=1.0) if status == "timeout" else LIMITS
    verdict = await judge_calls(spaces, code, TESTS, limits=limits)

    assert (verdict.status, verdict.scoring_isolation) == (status, "separate"), verdict


FORGERIES = [
    # A value that claims to equal everything.
    "class Any(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\n"
    "def add(a, b): return Any(0)",
    # A verdict instead of an answer.
    "import os\ndef add(a, b):\n"
    "    for fd in range(3, 20):\n"
    '        try: os.write(fd, b\'{"verdict": "passed", "message": ""}\\n\')\n'
    "        except OSError: pass\n    return 0",
    # Leaving before the comparison.
    "import os, sys\ndef add(a, b):\n    sys.exit(0)",
    # Looking for the tests in memory and on the disk.
    "import gc, os\ndef add(a, b):\n"
    "    found = [o for o in gc.get_objects() if isinstance(o, dict) and 'tests' in o]\n"
    "    return 3 if any('assert add' in str(o.get('tests')) for o in found) else 0",
]


@pytest.mark.parametrize("code", FORGERIES)
async def test_a_solution_cannot_forge_its_verdict(spaces: Backend, code: str) -> None:
    verdict = await judge_calls(spaces, code, TESTS, limits=LIMITS)

    assert verdict.status in ("failed", "error"), verdict


async def test_changes_to_arguments_and_errors_cross(spaces: Backend) -> None:
    code = (
        "def grow(xs):\n    xs.append(len(xs))\n"
        "class Own(Exception): pass\n"
        "def fail(kind):\n    raise {'value': ValueError, 'own': Own}[kind]('no')"
    )
    tests = """
xs = [7]
grow(xs)
assert xs == [7, 1]
try:
    fail("value")
except ValueError as error:
    assert str(error) == "no"
else:
    assert False
try:
    fail("own")
except Exception as error:
    assert "Own" in str(error)
"""
    verdict = await judge_calls(spaces, code, tests)

    assert verdict == Verdict("passed")


@pytest.mark.parametrize(
    "tests", ["assert undefined_name + add(1, 2)", "assert (", "import nothing"]
)
async def test_broken_tests_are_the_authors_fault_and_no_verdict(
    spaces: Backend, tests: str
) -> None:
    with pytest.raises(RewardError, match="broken"):
        await judge_calls(spaces, ADD, tests, entry_points=["add"])


def test_the_functions_of_the_solution_are_found_in_its_tests() -> None:
    tests = "import math\ndef helper(x): return x\nassert math.isclose(f(helper(1)), len(g(2)))"

    assert names_called(tests) == ["f", "g"]
    assert names_called("assert sum(1, 2) == 3", "def sum(a, b): ...") == ["sum"]


async def test_tests_that_need_the_solutions_classes_run_beside_it_and_say_so(
    spaces: Backend,
) -> None:
    code = "class Pair:\n    def __init__(self, a): self.a = a"
    good = await judge_together(spaces, code, "assert Pair(3).a == 3")
    bad = await judge_together(spaces, code, "assert Pair(3).a == 4")
    early = await judge_together(spaces, code + "\nraise SystemExit(0)", "assert Pair(3).a == 3")

    assert [verdict.status for verdict in (good, bad, early)] == ["passed", "failed", "error"]
    assert {verdict.scoring_isolation for verdict in (good, bad, early)} == {"shared"}


NEED_THEIR_HELPERS = {"HumanEval/32", "HumanEval/38", "HumanEval/50"}


async def _judge_human_eval(backend: Backend, row: Row, body: str) -> Verdict:
    code, last = row["prompt"] + body, f"check({row['entry_point']})"
    if row["task_id"] in NEED_THEIR_HELPERS:
        return await judge_together(backend, code, f"{row['test']}\n{last}", limits=LIMITS)
    return await judge_calls(
        backend,
        code,
        row["test"],
        entry_points=[row["entry_point"]],
        last_words=last,
        limits=LIMITS,
    )


async def test_the_reference_solutions_of_human_eval_pass(
    spaces: Backend, human_eval: list[Row]
) -> None:
    rows = human_eval
    verdicts = await asyncio.gather(
        *(_judge_human_eval(spaces, row, row["canonical_solution"]) for row in rows)
    )

    assert [row["task_id"] for row, v in zip(rows, verdicts, strict=True) if not v.is_passed] == []
    shared = {
        row["task_id"]
        for row, verdict in zip(rows, verdicts, strict=True)
        if verdict.scoring_isolation == "shared"
    }
    assert shared == NEED_THEIR_HELPERS


async def _check_mutated_human_eval(backend: Backend, rows: list[Row]) -> None:
    body = "    return 'no answer at all'\n"
    verdicts = await asyncio.gather(*(_judge_human_eval(backend, row, body) for row in rows))

    assert [row["task_id"] for row, v in zip(rows, verdicts, strict=True) if v.is_passed] == []


async def test_mutated_solutions_of_human_eval_fail(spaces: Backend, human_eval: list[Row]) -> None:
    await _check_mutated_human_eval(spaces, human_eval[::8])


@pytest.mark.slow
async def test_all_mutated_solutions_of_human_eval_fail(
    spaces: Backend, human_eval: list[Row]
) -> None:
    await _check_mutated_human_eval(spaces, human_eval)


USE_CLASSES = {367, 601, 927}


def _sample(rows: list[Row]) -> list[Row]:
    """Every ninth row, and those whose tests need the solution's own classes."""
    return [row for n, row in enumerate(rows) if n % 9 == 0 or row["task_id"] in USE_CLASSES]


async def _judge_mbpp(backend: Backend, row: Row) -> Verdict:
    if row["task_id"] in USE_CLASSES:
        tests = "\n".join([row["test_setup_code"], *row["test_list"]])
        return await judge_together(backend, row["code"], tests, limits=LIMITS)
    tests = "\n".join(["import sys", row["test_setup_code"], *row["test_list"]])
    names = names_called(tests, row["code"])
    return await judge_calls(backend, row["code"], tests, entry_points=names, limits=LIMITS)


async def _check_mbpp(backend: Backend, rows: list[Row]) -> None:
    verdicts = await asyncio.gather(*(_judge_mbpp(backend, row) for row in rows))
    judged = [(row["task_id"], verdict) for row, verdict in zip(rows, verdicts, strict=True)]

    assert [(key, verdict) for key, verdict in judged if not verdict.is_passed] == []
    shared = {key for key, verdict in judged if verdict.scoring_isolation == "shared"}
    assert shared == USE_CLASSES & {key for key, _ in judged}
    assert shared


def _mutated(row: Row) -> Row:
    """Give the row with a solution whose functions, or for classes whose all, give no answer."""
    names = names_called("\n".join(row["test_list"]), row["code"])
    lines = [f"{name} = lambda *_, **__: 'no answer at all'" for name in names]
    return {**row, "code": "\n".join([row["code"], *lines])}


async def _check_mutated_mbpp(backend: Backend, rows: list[Row]) -> None:
    verdicts = await asyncio.gather(*(_judge_mbpp(backend, _mutated(row)) for row in rows))
    judged = [(row["task_id"], verdict) for row, verdict in zip(rows, verdicts, strict=True)]

    assert [key for key, verdict in judged if verdict.status not in ("failed", "error")] == []


async def test_reference_solutions_of_mbpp_pass(spaces: Backend, mbpp: list[Row]) -> None:
    await _check_mbpp(spaces, _sample(mbpp))


@pytest.mark.slow
async def test_all_reference_solutions_of_mbpp_pass(spaces: Backend, mbpp: list[Row]) -> None:
    await _check_mbpp(spaces, mbpp)


async def test_mutated_solutions_of_mbpp_fail(spaces: Backend, mbpp: list[Row]) -> None:
    await _check_mutated_mbpp(spaces, _sample(mbpp)[::3])


@pytest.mark.slow
async def test_all_mutated_solutions_of_mbpp_fail(spaces: Backend, mbpp: list[Row]) -> None:
    await _check_mutated_mbpp(spaces, mbpp)


async def _many(spaces: Backend, count: int) -> None:
    slow = "def add(a, b):\n    for _ in range(100_000): pass\n    return a + b"
    endless = "def add(a, b):\n    while True: pass"
    # What others of the machine take away is no time of a solution's own.
    limits = Limits(wall_s=120.0, cpu_s=2.0)
    verdicts = await asyncio.gather(
        *(
            judge_calls(spaces, endless if index % 100 == 50 else slow, TESTS, limits=limits)
            for index in range(count)
        )
    )
    for index, verdict in enumerate(verdicts):
        assert verdict.status == ("timeout" if index % 100 == 50 else "passed"), (index, verdict)


async def test_a_hundred_judgements_at_once_give_no_false_timeout(spaces: Backend) -> None:
    await _many(spaces, 100)


@pytest.mark.slow
async def test_five_hundred_judgements_at_once_give_no_false_timeout(spaces: Backend) -> None:
    await _many(spaces, 500)
