"""Small programming problems that are made up: any number of them, with their hidden cases.

Numbers are never negative and expressions use only what Python, C, JavaScript and bash read the
same way, so that one expression serves the solutions in all of them.
"""

import json
import random
from functools import cache, partial
from hashlib import sha256
from typing import Any, Literal

from code_env.judging import Language, read_text
from strop import Task, TaskSet

Topic = Literal["mixed", "fold", "run", "recurrence", "pairs", "walk", "words"]

EVAL_COUNT = 240
CASE_COUNT = 10
_EVAL_SHARE = 5
"""One problem of so many belongs to ``eval``."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def procedural_tasks(language: Language, topic: Topic, seed: int) -> dict[str, TaskSet]:
    """An infinite ``train`` and a finite ``eval``; no problem is in both."""
    topics = [*_plans()["topics"]] if topic == "mixed" else [topic]

    def make(index: int, rng: random.Random, *, is_eval: bool) -> Task:
        chosen = topics[index % len(topics)]
        while True:
            pieces = _draw(chosen, rng)
            statement = _filled(chosen, "statement", pieces)
            # The text itself decides, so that both splits can be drawn without end and never meet.
            belongs_to_eval = sha256(statement.encode()).digest()[0] % _EVAL_SHARE == 0
            cases = _cases(chosen, pieces, rng) if belongs_to_eval == is_eval else []
            if len({output for _, output in cases}) > 2:
                break
        shown = "".join(f"\nInput:\n{i}Output:\n{o}" for i, o in cases[:2])
        # C is also C++.
        solution = _filled(chosen, "c" if language == "cpp" else language, pieces)
        reference: Any = {"judge": "stdio", "cases": cases, "solution": solution}
        metadata: Any = {"topic": chosen, "language": language}
        return Task(str(index), statement + shown, reference, metadata)

    return {
        "train": TaskSet.generate(partial(make, is_eval=False), seed=seed),
        "eval": TaskSet.generate(partial(make, is_eval=True), EVAL_COUNT, seed=seed),
    }


@cache
def _plans() -> Any:
    return json.loads(read_text("topics.json"))


def _draw(topic: str, rng: random.Random) -> dict[str, str]:
    """From each placeholder of a topic's texts to what takes its place."""
    plan, pieces = _plans()["topics"][topic], dict[str, str]()
    for names, options in plan["choices"].items():
        chosen = rng.choice(_plans()[options] if isinstance(options, str) else options)
        pieces.update(zip(names.split(), chosen, strict=True))
    # Numbers come last, since they also stand in what was chosen.
    numbers = {name: str(rng.randint(*bounds)) for name, bounds in plan["numbers"].items()}
    return {**pieces, **numbers}


def _filled(topic: str, name: str, pieces: dict[str, str]) -> str:
    text = read_text(f"{topic}/{name}.txt")
    for placeholder, piece in pieces.items():
        text = text.replace(f"@{placeholder}@", piece)
    return text


def _cases(topic: str, pieces: dict[str, str], rng: random.Random) -> list[list[str]]:
    """Inputs of growing size, and what the Python solution makes of them."""
    names: dict[str, Any] = {}
    definition = _filled(topic, "python", pieces).rpartition("print(")[0]
    exec(compile(definition, topic, "exec"), names)  # noqa: S102 - this package's own text
    inputs = [_input(topic, rng, size) for size in range(3, 3 + CASE_COUNT)]
    return [[text, f"{names['solve'](text)}\n"] for text in inputs]


def _input(topic: str, rng: random.Random, size: int) -> str:
    if topic == "words":
        words = ("".join(rng.choices(_LETTERS, k=rng.randint(1, 9))) for _ in range(size))
        return " ".join(words) + "\n"
    most = 20 if size == 3 else 999
    return f"{size}\n{' '.join(str(rng.randint(0, most)) for _ in range(size))}\n"
