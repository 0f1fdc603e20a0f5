"""Science with one boxed answer: quantities with units, choices, or texts that a judge reads."""

import os
from typing import Literal

from science_env.answer import correct
from science_env.dataset import dataset_tasks
from science_env.procedural import Topic, procedural_tasks
from strop import Environment, OpenAIModel, Task
from strop.rewards import parse_unit

__all__ = ["ScienceEnvironment", "load_environment"]

SYSTEM_PROMPT = (
    "Solve the problem. Think step by step, then give the final answer, and nothing else, "
    r"inside \boxed{}: of choices the letter, such as \boxed{C}; a quantity with its unit, to at "
    r"least three digits, such as \boxed{1.25e3 kg m/s^2}; else a few words."
)


class ScienceEnvironment(Environment):
    """Science problems, and the judge that they may need."""

    judge_model: OpenAIModel | None = None

    async def setup(self) -> None:
        """Read the units now, and not within the first reward."""
        parse_unit("m")

    async def close(self) -> None:
        """Close the connections to the judge."""
        if self.judge_model is not None:
            await self.judge_model.close()


def load_environment(
    dataset: Literal["procedural", "mmlu_stem", "arc_challenge", "openbookqa", "rows"] = (
        "procedural"
    ),
    path: str | None = None,
    *,
    columns: dict[str, str] | None = None,
    level: int = 1,
    topic: Topic = "mixed",
    seed: int = 0,
    tolerance: float = 0.01,
    judge_model: str | None = None,
    judge_url: str = "http://127.0.0.1:8000/v1",
    judge_key_env: str = "OPENAI_API_KEY",
) -> ScienceEnvironment:
    """The environment.

    Args:
        dataset: Where the problems come from; ``rows`` are those of a file of your own.
        path: A JSON or JSON lines file, or a folder that holds the data set; None fetches it from
            the Hugging Face hub (extra ``hf``).
        columns: How a file calls the columns ``question``, ``answer``, ``choices``, ``unit`` and
            ``key``, such as ``{"question": "Problem"}``.
        level: Of procedural problems: 1 (one law, one unit each) to 3 (several laws, any units).
        topic: Of procedural problems: one of them, or all in turn.
        seed: Of procedural problems: another seed gives others.
        tolerance: Largest difference of a quantity, as a share of the reference.
        judge_model: Name of a model that reads answers in words; None takes the reference's own.
        judge_url: Where it is served, in the manner of OpenAI.
        judge_key_env: Name of the variable that holds its key, if it needs one.
    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is {tolerance}. Allow a share of 0 up to 1.")
    if dataset != "procedural":
        tasks = dataset_tasks(dataset, path, columns or {})
    elif path is None and columns is None:
        tasks = procedural_tasks(level, topic, seed)
    else:
        raise ValueError(
            "Procedural problems are read from no file. Say which data set `path` and `columns` "
            'belong to: dataset="mmlu_stem", "arc_challenge", "openbookqa" or "rows".'
        )
    judge = None
    if judge_model is not None:
        judge = OpenAIModel(judge_model, judge_url, api_key=os.environ.get(judge_key_env))
    environment = ScienceEnvironment(
        tasks=tasks,
        rewards=[correct(tolerance, judge)],
        system_prompt=SYSTEM_PROMPT,
        oracle=_solve,
    )
    environment.judge_model = judge
    return environment


def _solve(task: Task) -> str:
    return rf"The answer is \boxed{{{task.reference}}}."
