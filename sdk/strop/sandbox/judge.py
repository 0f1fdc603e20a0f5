"""Judge programs by their output, and functions by their values, always from outside."""

from __future__ import annotations

import ast
import builtins
import json
import secrets
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from strop.errors import RewardError, SandboxError
from strop.sandbox.base import ExecResult, Limits
from strop.sandbox.client import Backend
from strop.sandbox.job import Job
from strop.sandbox.language import Language

_INSIDE = Path(__file__).with_name("inside")
_IMPORT = "from strop.sandbox.inside.values import decode, encode\n"
_LARGEST_LINE_BYTES = 16 << 20
_OVERHEAD_S = 5.0
_SHOWN_CHARS = 500
"""Of a wrong output, in a verdict's message."""

JudgeStatus: TypeAlias = Literal["passed", "failed", "error", "timeout"]
ScoringIsolation: TypeAlias = Literal["separate", "shared"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a solution holds, and if not, why."""

    status: JudgeStatus
    """``failed``: wrong. ``error``: it raised, crashed or left a limit other than time."""
    message: str = ""
    scoring_isolation: ScoringIsolation = "separate"
    """``shared``: tests and solution ran in one interpreter, and the solution could meddle."""

    @property
    def is_passed(self) -> bool:
        """Whether every test passed."""
        return self.status == "passed"


@dataclass(frozen=True, slots=True)
class Case:
    """An input and the output that is expected for it."""

    stdin: bytes
    stdout: bytes


def same_lines(actual: bytes, expected: bytes) -> bool:
    """Compare outputs line by line; white space at the ends of lines and of the text is free."""
    lines = [[line.rstrip() for line in text.rstrip().split(b"\n")] for text in (actual, expected)]
    return lines[0] == lines[1]


async def judge_output(
    backend: Backend,
    code: str,
    cases: Sequence[Case],
    *,
    language: Language = "python",
    limits: Limits | None = None,
    is_same: Callable[[bytes, bytes], bool] = same_lines,
    rollout: str = "",
) -> list[Verdict]:
    """Run a program once for each case and compare its output here.

    Args:
        backend: Where it runs.
        code: The program.
        cases: Only their inputs enter the sandbox.
        language: Of the program.
        limits: Of each case.
        is_same: Tells whether an output is the expected one.
        rollout: For fair turns in the queue.

    Raises:
        SandboxError: The sandbox failed; nothing is known about the program.
    """
    inputs = [case.stdin for case in cases]
    results = await backend.run_many(code, inputs, language, limits=limits, rollout=rollout)
    return [
        _compare(result, case.stdout, is_same) for result, case in zip(results, cases, strict=True)
    ]


def _compare(
    result: ExecResult, expected: bytes, is_same: Callable[[bytes, bytes], bool]
) -> Verdict:
    if not result.is_ok:
        return _verdict_of(result)
    if result.is_truncated:
        return Verdict("failed", f"wrote {result.stdout_bytes} bytes, more than are compared")
    if is_same(result.stdout, expected):
        return Verdict("passed")
    return Verdict("failed", f"wrote {result.text[:_SHOWN_CHARS]!r}")


def _verdict_of(result: ExecResult) -> Verdict:
    last = result.error_text.strip().rpartition("\n")[2]
    if result.status == "timeout":
        return Verdict("timeout", f"no end within {result.limit}")
    return Verdict("error", f"{result.status}: {last}" if last else result.status)


def names_called(tests: str, reference: str = "") -> list[str]:
    """List the functions that tests call and do not define: those of the solution.

    Args:
        tests: Python.
        reference: A trusted solution; functions that it defines count even where they have the
            name of a built-in one.
    """
    with warnings.catch_warnings():
        # Such as "invalid escape sequence", which data sets are full of.
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        tree, solved = ast.parse(tests), ast.parse(reference)
    own = {node.name for node in solved.body if isinstance(node, ast.FunctionDef)}
    known = set(dir(builtins)) - own
    called: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            known.add(node.name)
        elif isinstance(node, ast.alias):
            known.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called[node.func.id] = None
    return [name for name in called if name not in known]


async def judge_calls(
    backend: Backend,
    code: str,
    tests: str,
    *,
    entry_points: Sequence[str] | None = None,
    last_words: str = "",
    limits: Limits | None = None,
    rollout: str = "",
) -> Verdict:
    """Run tests against functions that live in another sandbox; only plain values pass.

    The tests' own sandbox never holds the solution, and the solution's never the tests: it sees
    the arguments of one call after the other, and cannot touch the comparison.

    Args:
        backend: Where both run.
        code: The solution, Python.
        tests: Python that raises AssertionError when the solution is wrong.
        entry_points: Functions of the solution. None: those that the tests call but do not define.
        last_words: Code to run after the tests, such as ``check(candidate)``.
        limits: Of the solution, for all calls together.
        rollout: For fair turns in the queue.

    Raises:
        RewardError: The tests themselves are broken.
        SandboxError: A sandbox failed; nothing is known about the solution.
    """
    names = names_called(f"{tests}\n{last_words}") if entry_points is None else entry_points
    bounds = limits or Limits()
    tester = f"{_program('tester.py')}\njudge({tests!r}, {list(names)!r}, {last_words!r})\n"
    solution = f"{_program('solution.py')}\nmain({code!r})\n"
    async with backend.turn(rollout):
        subject = await backend.start_program(solution, limits=bounds)
        try:
            wide = replace(bounds, wall_s=bounds.wall_s + _OVERHEAD_S, cpu_s=bounds.wall_s)
            judge = await backend.start_program(tester, limits=wide)
            try:
                return await _mediate(judge, subject)
            finally:
                judge.kill()
        finally:
            subject.kill()


def _program(name: str) -> str:
    values = (_INSIDE / "values.py").read_text()
    return values + (_INSIDE / name).read_text().replace(_IMPORT, "")


async def _mediate(judge: Job, subject: Job) -> Verdict:
    """Carry questions and answers until the verdict is there."""
    while True:
        line = await judge.read_line(_LARGEST_LINE_BYTES)
        if not line.endswith(b"\n"):
            result = await judge.wait()
            raise RewardError(
                f"the tests ended with {result.status} and without a verdict: "
                f"{result.error_text.strip()[-500:]}"
            )
        words = json.loads(line)
        if "verdict" in words:
            return _read_verdict(words)
        await subject.write(line)
        try:
            reply = await subject.read_line(_LARGEST_LINE_BYTES)
        except SandboxError as error:
            if subject.result is not None or "longer" not in str(error):
                raise
            return Verdict("error", "a value is too large")
        if not reply.endswith(b"\n"):
            return _verdict_of(await subject.wait())
        if not _is_plain_answer(reply):
            return Verdict("error", "the solution meddled with its own answers")
        await judge.write(reply)


def _is_plain_answer(reply: bytes) -> bool:
    try:
        words = json.loads(reply)
    except (ValueError, RecursionError):
        return False
    return isinstance(words, dict) and (
        {"value", "changed"} == set(words) or {"error", "message"} == set(words)
    )


def _read_verdict(words: dict[str, str]) -> Verdict:
    status, message = words["verdict"], words["message"]
    if status == "passed":
        return Verdict("passed")
    if status == "failed":
        return Verdict("failed", message)
    if status == "error":
        return Verdict("error", message)
    raise RewardError(f"the tests are broken: {message}. Nothing is known about the solution.")


async def judge_together(
    backend: Backend,
    code: str,
    tests: str,
    *,
    limits: Limits | None = None,
    rollout: str = "",
) -> Verdict:
    """Run solution and tests in one interpreter, for tests that need the solution's own classes.

    The verdict says so: a solution that sets out to deceive its tests can do it here.
    """
    # Tells an end of the tests from an exit in their middle.
    mark = secrets.token_hex(16)
    program = f"{code}\n\n{tests}\n\nprint()\nprint({mark!r})\n"
    result = await backend.run(program, limits=limits, rollout=rollout)
    if result.is_ok and result.stdout.endswith(f"\n{mark}\n".encode()):
        return Verdict("passed", scoring_isolation="shared")
    if result.is_ok:
        return Verdict("error", "it ended before its tests did", "shared")
    verdict = _verdict_of(result)
    is_wrong = verdict.status == "error" and "AssertionError" in verdict.message
    return replace(
        verdict, status="failed" if is_wrong else verdict.status, scoring_isolation="shared"
    )
