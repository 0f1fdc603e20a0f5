"""Judge a solution by hidden cases, in sandboxes that hold one or the other, never both."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from strop import Task
from strop.sandbox import Backend, Limits
from strop.sandbox.judge import Case, Verdict, judge_calls, judge_output

Language = Literal["python", "bash", "c", "cpp", "javascript"]
Judgement = tuple[list[int], Verdict]
"""Indexes of the cases that are failed, and the verdict of the first of them."""

CASE_LIMITS = Limits(wall_s=20.0, cpu_s=4.0)
"""Of a program, for each input."""
CALL_LIMITS = Limits(wall_s=60.0, cpu_s=10.0)
"""Of a function, for all calls together."""


@cache
def read_text(name: str) -> str:
    """A text of this package's data."""
    return (Path(__file__).with_name("data") / name).read_text(encoding="utf-8")


async def judge(backend: Backend, task: Task, code: str) -> Judgement:
    """Run a solution against all cases of a task.

    Raises:
        SandboxError: A sandbox failed; nothing is known about the solution.
    """
    reference: Any = task.reference
    code = code.encode(errors="replace").decode()
    judge_one = _judge_calls if reference["judge"] == "calls" else _judge_program
    failed, verdict = await judge_one(backend, task, code)
    # What is told is the same in every run: without addresses in memory.
    return failed, replace(verdict, message=re.sub("0x[0-9a-fA-F]+", "0x…", verdict.message))


async def _judge_program(backend: Backend, task: Task, code: str) -> Judgement:
    reference: Any = task.reference
    cases = [Case(*(text.encode() for text in pair)) for pair in reference["cases"]]
    options: Any = {"language": task.metadata["language"], "limits": CASE_LIMITS}
    verdicts = await judge_output(backend, code, cases[:1], **options)
    # Who does not come to an end in the first case is not asked the others.
    if verdicts[0].status == "timeout":
        return [*range(len(cases))], verdicts[0]
    verdicts += await judge_output(backend, code, cases[1:], **options)
    failed = [index for index, verdict in enumerate(verdicts) if not verdict.is_passed]
    return failed, verdicts[failed[0] if failed else 0]


async def _judge_calls(backend: Backend, task: Task, code: str) -> Judgement:
    reference: Any = task.reference
    verdict = await judge_calls(
        backend,
        f"{task.metadata['prelude']}\n{code}",
        f"{reference['setup']}\n{read_text('tester.txt')}\n_judge({reference['cases']!r})",
        entry_points=reference["names"],
        limits=CALL_LIMITS,
    )
    if verdict.status != "failed":
        return [] if verdict.is_passed else [*range(len(reference["cases"]))], verdict
    indexes, _, message = verdict.message.partition("\n")
    return [int(index) for index in indexes.split()], replace(verdict, message=message)
