"""Puzzles with one checked answer: generated ones, BIG-Bench Hard, knights and knaves."""

from typing import Literal

from logic_env.answer import extract_answer, formatted, same_roles, same_text
from logic_env.gym import verify_gym
from logic_env.procedural import procedural_tasks
from logic_env.rows import row_tasks
from strop import Environment, Reward, Task, Trajectory

SYSTEM_PROMPT = "Think step by step, then give the answer alone, as <answer>the answer</answer>."
VERIFIERS = {"gym": verify_gym, "text": same_text, "roles": same_roles}
"""By name: each tells what an answer to a task is worth."""


def load_environment(
    dataset: Literal["procedural", "bbh", "knights_knaves", "rows"] = "procedural",
    path: str | None = None,
    *,
    columns: dict[str, str] | None = None,
    generators: tuple[str, ...] = ("logic",),
    level: int = 1,
    curriculum_every: int = 0,
    partial_credit: bool = False,
    format_weight: float = 0.0,
    seed: int = 0,
) -> Environment:
    """The environment.

    Args:
        dataset: Where the problems come from.
        path: A file or folder of the data set; None fetches it from the Hugging Face hub
            (extra ``hf``).
        columns: How ``rows`` call the columns ``question`` and ``answer``, such as
            ``{"question": "problem"}``.
        generators: Of generated puzzles: ``own``, ``logic``, ``all``, or single ones by name.
        level: Of generated puzzles: 1 to 3.
        curriculum_every: Tasks of ``train`` after which the level rises by one; 0: never.
        partial_credit: Whether a verifier's credit for a part of the answer counts.
        format_weight: Share of the reward that is given for the form of the reply, 0 to 1.
        seed: Of generated puzzles: another seed gives others.
    """
    if not (0 <= format_weight <= 1 and level in (1, 2, 3) and curriculum_every >= 0):
        given = f"format_weight {format_weight}, level {level}, curriculum_every {curriculum_every}"
        raise ValueError(f"Out of range (0 to 1, 1 to 3, at least 0): {given}.")
    if path is None if dataset == "rows" else (path is not None and dataset == "procedural"):
        raise ValueError(f"dataset is {dataset!r} and path {path!r}: they do not go together.")
    if dataset == "procedural":
        tasks = procedural_tasks(generators, level, curriculum_every, seed)
    else:
        tasks = row_tasks(dataset, path, columns or {})

    def correct(trajectory: Trajectory) -> float:
        verify = VERIFIERS[str(trajectory.task.metadata["verifier"])]
        credit = float(verify(trajectory.task, extract_answer(trajectory.text)))
        return credit if partial_credit else float(credit == 1)

    rewards = [
        Reward(correct, weight=1 - format_weight, range=(0, 1)),
        Reward(formatted, weight=format_weight, range=(0, 1), is_inline=True),
    ]
    return Environment(tasks=tasks, rewards=rewards, system_prompt=SYSTEM_PROMPT, oracle=_solve)


def _solve(task: Task) -> str:
    return f"<answer>{task.reference}</answer>"
