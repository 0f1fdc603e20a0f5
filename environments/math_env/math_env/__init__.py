"""Mathematics with one final answer: made-up problems, GSM8K, MATH-500, AIME, SVAMP, any rows."""

import os
from typing import Any, Literal

from math_env.answer import extract_answer, extract_number
from math_env.dataset import dataset_tasks
from math_env.judged import judged
from math_env.procedural import Topic, procedural_tasks
from strop import Environment, OpenAIModel, Task
from strop.rewards import boxed_math, numeric

__all__ = ["MathEnvironment", "extract_answer", "load_environment"]

SYSTEM_PROMPT = (
    "Solve the problem. Think step by step, then give the final answer, and nothing else, "
    r"inside \boxed{}."
)


class MathEnvironment(Environment):
    """Problems, and the judge that they may need."""

    def __init__(self, judge_model: OpenAIModel | None, **definition: Any) -> None:
        """Define it; the judge is closed with it."""
        super().__init__(oracle=_solve, **definition)
        self._judge_model = judge_model

    async def close(self) -> None:
        """Close the connections to the judge."""
        if self._judge_model is not None:
            await self._judge_model.close()


def load_environment(
    dataset: Literal["procedural", "gsm8k", "math500", "aime", "svamp", "rows"] = "procedural",
    path: str | None = None,
    level: int = 1,
    topic: Topic = "mixed",
    seed: int = 0,
    *,
    columns: dict[str, str] | None = None,
    answer_form: Literal["boxed", "last_number"] = "boxed",
    cpu_limit_s: float = 5.0,
    judge_model: str | None = None,
    judge_url: str = "http://127.0.0.1:8000/v1",
    judge_key_env: str = "OPENAI_API_KEY",
) -> MathEnvironment:
    """The environment.

    Args:
        dataset: Where the problems come from; ``rows`` are those of a file or set of your own.
        path: A JSON lines or Parquet file, a folder of them, or ``hf://owner/name`` on the
            Hugging Face hub (extra ``hf``); None fetches a set that is known from there.
        level: Of procedural problems: 0 (only arithmetic, sums up to 18) or 1 (up to 40) to 4.
        topic: Of procedural problems: one of them, or all in turn.
        seed: Of procedural problems: another seed gives others.
        columns: How ``rows`` call the columns ``question``, ``answer`` and ``key``, such as
            ``{"question": "problem"}``.
        answer_form: Of procedural problems: ``last_number`` asks for no box, and takes the
            reply's last number.
        cpu_limit_s: Seconds of CPU that one symbolic comparison may take.
        judge_model: Name of a model that decides where the symbolic comparison cannot; None
            lets such attempts fail.
        judge_url: Where it is served, in the manner of OpenAI.
        judge_key_env: Name of the variable that holds its key, if it needs one.
    """
    if dataset == "procedural" and (path is not None or columns is not None):
        raise ValueError(
            f"path is {path!r}, but procedural problems are read from no file. Say which data set "
            'it holds: dataset="gsm8k", "math500", "aime", "svamp" or "rows".'
        )
    if answer_form == "last_number" and dataset != "procedural":
        raise ValueError(f'answer_form="last_number" is for procedural problems, not {dataset}.')
    is_boxed = answer_form == "boxed"
    if dataset == "procedural":
        tasks = procedural_tasks(level, topic, seed)
        # As a number, so that a copy of `12 + 16` is no answer to what 12 + 16 is.
        correct = numeric(extract=extract_number if is_boxed else None, name="correct")
    else:
        tasks = dataset_tasks(dataset, path, columns or {})
        correct = boxed_math(extract=extract_answer, cpu_limit_s=cpu_limit_s, name="correct")
    model = None
    if judge_model is not None and dataset != "procedural":
        model = OpenAIModel(judge_model, judge_url, api_key=os.environ.get(judge_key_env))
        correct = judged(correct, model)
    prompt = SYSTEM_PROMPT if is_boxed else None
    return MathEnvironment(model, tasks=tasks, rewards=[correct], system_prompt=prompt)


def _solve(task: Task) -> str:
    return rf"The answer is \boxed{{{task.reference}}}."
