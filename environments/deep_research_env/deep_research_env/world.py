"""A made-up land as pages, and questions that lead over several of them."""

import random
import tomllib
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from strop import Task, TaskSet

HOPS = range(1, 6)
_YEARS = [str(year) for year in range(1100, 1900)]
_LAND: dict[str, Any] = tomllib.loads(Path(__file__).with_name("world.toml").read_text("utf-8"))


class World:
    """What is so in a land, and the pages that tell it.

    Args:
        seed: Another one makes another land.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"land/{seed}")  # noqa: S311 - a story, no secret
        self.names = {kind: _names(made, rng) for kind, made in _LAND["kinds"].items()}
        """By kind; every name is the title of a page."""
        relations, kinds = _LAND["relations"], _LAND["kinds"]
        self.relations = {kind: [r for r in relations if r["of"] == kind] for kind in kinds}
        """By the kind that they start from."""
        self.facts: dict[tuple[str, str], str] = {}
        """By name and phrase, whom or what a relation leads to."""
        self.pages = {n: self._tell(k, n, rng) for k, names in self.names.items() for n in names}
        """Texts by title."""

    def ask(self, rng: random.Random, hops: int) -> tuple[str, str, list[str]]:
        """A question over so many pages, its answer, and the pages in the order of reading."""
        while True:
            kind = rng.choice(list(self.relations))
            name = phrase = rng.choice(self.names[kind])
            support: list[str] = []
            while self.relations.get(kind) and name not in support and len(support) < hops:
                relation = rng.choice(self.relations[kind])
                support.append(name)
                phrase = relation["phrase"].format(x=phrase).replace("the the ", "the ")
                name, kind = self.facts[name, relation["phrase"]], relation["to"]
            if len(support) == hops and name not in support:
                return f"{'Who' if kind == 'person' else 'What'} is {phrase}?", name, support

    def _tell(self, kind: str, name: str, rng: random.Random) -> str:
        told = [_LAND["kinds"][kind]["is"].format(x=name)]
        for relation in self.relations[kind]:
            others = self.names.get(relation["to"], _YEARS)
            other = rng.choice([each for each in others if each != name])
            self.facts[name, relation["phrase"]] = other
            told.append(relation["fact"].format(x=name, y=other))
        rng.shuffle(told)
        return " ".join(told)


world_of = cache(World)
"""The land of a seed, made once."""


def world_tasks(seed: int, hops: int) -> dict[str, TaskSet]:
    """An infinite ``train`` and a finite ``eval``; no question is in both.

    Args:
        seed: Of the land.
        hops: Most pages that a question leads over; they take turns.

    Raises:
        ValueError: There is no such number of hops.
    """
    if hops not in HOPS:
        raise ValueError(f"hops is {hops}. Choose {HOPS[0]} to {HOPS[-1]}.")

    def make(is_eval: bool, index: int, rng: random.Random) -> Task:
        while True:
            text, answer, support = world_of(seed).ask(rng, index % hops + 1)
            # The text itself decides, so that both splits can be drawn without end and never meet:
            # one question of five belongs to `eval`.
            if (sha256(text.encode()).digest()[0] % 5 == 0) == is_eval:
                return Task(str(index), text, answer, {"support": [*support]})

    sizes = {"train": None, "eval": 200}
    return {s: TaskSet.generate(partial(make, s == "eval"), n, seed=seed) for s, n in sizes.items()}


def _names(made: dict[str, Any], rng: random.Random) -> list[str]:
    syllables, names = _LAND["syllables"], dict[str, None]()
    while len(names) < made["count"]:
        words = {part: rng.choice(syllables[part]) for part in ("adjective", "noun")}
        for word in ("A", "B"):
            words[word] = "".join(rng.choice(syllables[p]) for p in ("first", "middle", "last"))
        names[made["name"].format(**words)] = None
    return list(names)
