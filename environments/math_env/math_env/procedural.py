"""Problems that are made up: any number of them, in six topics and five levels."""

import random
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from typing import Literal, get_args

from strop import Task, TaskSet

Topic = Literal["mixed", "arithmetic", "fractions", "linear", "modular", "percent", "sequences"]

LEVELS = range(5)
EVAL_COUNT = 240
_EVAL_SHARE = 5
"""One problem of so many belongs to ``eval``."""

Problem = tuple[str, Fraction | int]
Make = Callable[[random.Random, int], Problem]


def procedural_tasks(level: int, topic: Topic, seed: int) -> dict[str, TaskSet]:
    """An infinite ``train`` and a finite ``eval``; no problem is in both.

    Raises:
        ValueError: The topic has no such level.
    """
    lowest = 0 if topic == "arithmetic" else 1
    if level not in LEVELS[lowest:]:
        raise ValueError(f"level is {level}. Choose {lowest} to {LEVELS[-1]} of {topic}.")
    topics = [name for name in get_args(Topic) if name != "mixed"] if topic == "mixed" else [topic]

    def make(index: int, rng: random.Random, *, is_eval: bool) -> Task:
        chosen = topics[index % len(topics)]
        while True:
            text, answer = TOPICS[chosen](rng, level)
            if _belongs_to_eval(text) == is_eval:
                return Task(str(index), text, str(answer), {"topic": chosen, "level": level})

    def make_train(index: int, rng: random.Random) -> Task:
        return make(index, rng, is_eval=False)

    def make_eval(index: int, rng: random.Random) -> Task:
        return make(index, rng, is_eval=True)

    return {
        "train": TaskSet.generate(make_train, seed=seed),
        "eval": TaskSet.generate(make_eval, EVAL_COUNT, seed=seed),
    }


def _belongs_to_eval(text: str) -> bool:
    # The text itself decides, so that both splits can be drawn without end and never meet.
    return sha256(text.encode()).digest()[0] % _EVAL_SHARE == 0


def _arithmetic(rng: random.Random, level: int) -> Problem:
    if level < 2:
        largest = 20 if level else 9
        left, right = rng.randint(1, largest), rng.randint(1, largest)
        return f"What is {left} + {right}?", left + right
    terms = [rng.randint(2, 10**level) for _ in range(level)]
    text, value = str(terms[0]), terms[0]
    for term in terms[1:]:
        sign = rng.choice("+-")
        text += f" {sign} {term}"
        value += term if sign == "+" else -term
    factor = rng.randint(2, 10 * level)
    return f"What is {factor} * ({text})?", factor * value


def _fractions(rng: random.Random, level: int) -> Problem:
    terms = [
        Fraction(rng.randint(1, 5 * level), rng.randint(2, 5 * level)) for _ in range(level + 1)
    ]
    text = " + ".join(f"({term})" for term in terms)
    return f"Compute {text}. Give a fraction or a whole number.", sum(terms, Fraction())


def _linear(rng: random.Random, level: int) -> Problem:
    size = 4 * level + 2
    root = Fraction(rng.randint(-size, size), 1 if level < 3 else rng.randint(1, level))
    slope, shift = rng.randint(2, size), rng.randint(1, size)
    if level == 1:
        return f"Solve for x: {slope}x + {shift} = {slope * root + shift}", root
    other = rng.choice([n for n in range(-size, size + 1) if n not in (0, 1, -1, slope)])
    right = (slope - other) * root + shift
    sign = "-" if right < 0 else "+"
    return f"Solve for x: {slope}x + {shift} = {other}x {sign} {abs(right)}", root


def _modular(rng: random.Random, level: int) -> Problem:
    modulus = rng.randint(3, 6 * level + 4)
    if level < 3:
        value = rng.randint(10, 10 ** (level + 1))
        return f"What is the remainder when {value} is divided by {modulus}?", value % modulus
    base, exponent = rng.randint(2, 30), rng.randint(5, 20 * level)
    return (
        f"What is the remainder when {base}^{exponent} is divided by {modulus}?",
        pow(base, exponent, modulus),
    )


def _percent(rng: random.Random, level: int) -> Problem:
    whole = rng.randint(2, 30 * level) * (20 if level < 3 else 1)
    share = rng.randint(1, 19) * 5 if level < 3 else rng.randint(1, 150)
    part = Fraction(whole * share, 100)
    if level % 2:
        return f"What is {share}% of {whole}?", part
    return f"A price of {whole} rises by {share}%. What is the new price?", whole + part


def _sequences(rng: random.Random, level: int) -> Problem:
    start, difference = rng.randint(-10 * level, 10 * level), rng.randint(2, 5 * level)
    place = rng.randint(5, 10**level)
    shown = ", ".join(str(start + i * difference) for i in range(4))
    last = start + (place - 1) * difference
    if level < 3:
        return f"The sequence {shown}, … goes on evenly. What is its term number {place}?", last
    return (
        f"The sequence {shown}, … goes on evenly. What is the sum of its first {place} terms?",
        place * (start + last) // 2,
    )


TOPICS: dict[str, Make] = {
    "arithmetic": _arithmetic,
    "fractions": _fractions,
    "linear": _linear,
    "modular": _modular,
    "percent": _percent,
    "sequences": _sequences,
}
