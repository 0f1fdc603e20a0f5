"""Programming problems judged by hidden cases in a sandbox: made up, HumanEval, MBPP, or files."""

from typing import Any, Literal

from code_env.datasets import human_eval_tasks, mbpp_tasks, stdio_tasks
from code_env.episode import Coding, share, solved
from code_env.judging import Language, read_text
from code_env.procedural import Topic, procedural_tasks
from strop import Environment, Task
from strop.sandboxed import SandboxEnvironment

__all__ = ["load_environment"]


def load_environment(
    dataset: Literal["procedural", "humaneval", "mbpp", "stdio"] = "procedural",
    path: str | None = None,
    language: Language = "python",
    *,
    topic: Topic = "mixed",
    seed: int = 0,
    grading: Literal["all", "fraction"] = "all",
    turns: int = 1,
    columns: dict[str, str] | None = None,
) -> Environment:
    """The environment.

    Args:
        dataset: Where the problems come from.
        path: Of HumanEval and MBPP the file or its folder, None for the Hugging Face hub (extra
            ``hf``); of ``stdio`` a JSON lines file, or a data set of the hub by its name.
        language: Of the programs; HumanEval and MBPP are in Python.
        topic: Of procedural problems: one of them, or all in turn.
        seed: Of procedural problems: another seed gives others.
        grading: 1 for passing all hidden cases and else 0, or the share of them that is passed.
        turns: Answers that may be given; after each the model is told a case that it fails.
        columns: Of ``stdio``: from ``prompt``, ``tests``, ``solution`` and ``key`` to the names of
            the columns, where they differ.
    """
    if dataset in ("humaneval", "mbpp") and language != "python":
        raise ValueError(f"{dataset} calls Python functions. Leave out language={language!r}.")
    if dataset == "procedural":
        if path is not None:
            raise ValueError(f"path is {path!r}, but procedural problems are read from no file.")
        tasks = procedural_tasks(language, topic, seed)
    elif dataset == "stdio":
        tasks = stdio_tasks(path, columns or {}, language)
    else:
        tasks = human_eval_tasks(path) if dataset == "humaneval" else mbpp_tasks(path)
    text = read_text("program.txt" if dataset in ("procedural", "stdio") else "function.txt")
    counted, other = (solved, share) if grading == "all" else (share, solved)
    return SandboxEnvironment(
        tasks=tasks,
        rewards=[counted, other.weighted(0.0)],
        system_prompt=text.strip().replace("@language@", language),
        episode=type("Coding", (Coding,), {"turns": turns}),
        max_turns=turns,
        oracle=_solve,
    )


def _solve(task: Task) -> str:
    reference: Any = task.reference
    return f"```{task.metadata['language']}\n{reference['solution'] or ''}\n```"
