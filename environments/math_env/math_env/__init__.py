"""Mathematics with one boxed answer: procedural problems, GSM8K or MATH-500."""

from typing import Literal

from math_env.answer import extract_answer
from math_env.dataset import dataset_tasks
from math_env.procedural import Topic, procedural_tasks
from strop import Environment, Task
from strop.rewards import boxed_math, numeric

__all__ = ["extract_answer", "load_environment"]

SYSTEM_PROMPT = (
    "Solve the problem. Think step by step, then give the final answer, and nothing else, "
    r"inside \boxed{}."
)


def load_environment(
    dataset: Literal["procedural", "gsm8k", "math500"] = "procedural",
    path: str | None = None,
    level: int = 1,
    topic: Topic = "mixed",
    seed: int = 0,
) -> Environment:
    """The environment.

    Args:
        dataset: Where the problems come from.
        path: A JSON lines file or a folder that holds the data set; None fetches it from the
            Hugging Face hub (extra ``hf``).
        level: Of procedural problems: 1 (sums up to 40) to 4.
        topic: Of procedural problems: one of them, or all in turn.
        seed: Of procedural problems: another seed gives others.
    """
    if dataset == "procedural":
        if path is not None:
            raise ValueError(
                f"path is {path!r}, but procedural problems are read from no file. "
                'Say which data set it holds: dataset="gsm8k" or dataset="math500".'
            )
        tasks = procedural_tasks(level, topic, seed)
        # As a number, so that a copy of `12 + 16` is no answer to what 12 + 16 is.
        correct = numeric(extract=extract_answer, name="correct")
    else:
        tasks = dataset_tasks(dataset, path)
        correct = boxed_math(extract=extract_answer, name="correct")
    return Environment(tasks=tasks, rewards=[correct], system_prompt=SYSTEM_PROMPT, oracle=_solve)


def _solve(task: Task) -> str:
    return rf"The answer is \boxed{{{task.reference}}}."
