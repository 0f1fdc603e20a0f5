"""Words by which environments are found, and how a search picks candidates by them.

A scan of all texts costs seconds on a large hub; an index of words and first letters costs
milliseconds, and a search looks at no more than `MAX_CANDIDATES` of what it finds.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, exists, insert, select, union_all
from sqlalchemy.orm import Session

from strop_hub.models import Environment, EnvironmentTerm

MAX_CANDIDATES = 2000
"""Rows that are ranked and shown to nobody beyond; the most downloaded when there are more."""

MAX_WORDS = 6
_MAX_NAMES = 200
_MAX_BEGINNINGS = 1000
_MAX_TERMS = 60
_TERM_LENGTH = 32
_PREFIXES = (2, 3)
_WORD = re.compile(r"[^\W_]+")
_LAST = "\U0010ffff"


def words_of(text: str) -> list[str]:
    """The words of what somebody looks for, in lower case."""
    return [word[:_TERM_LENGTH] for word in _WORD.findall(text.lower())[:MAX_WORDS]]


def terms_of(names: Iterable[str], text: str) -> set[str]:
    """What an environment is found by: every word, and the first letters of those of its names."""
    named = [word[:_TERM_LENGTH] for name in names for word in _WORD.findall(name.lower())]
    starts = {word[:length] for word in named for length in _PREFIXES}
    others = [word[:_TERM_LENGTH] for word in _WORD.findall(text.lower())]
    return {*starts, *list(dict.fromkeys([*named, *others]))[:_MAX_TERMS]}


def weight_of(download_count: int) -> int:
    """Popularity in powers of two: terms are written again only when it has doubled."""
    return download_count.bit_length()


def write_terms(session: Session, environment: Environment, terms: Iterable[str]) -> None:
    """Let an environment be found by these terms and no others."""
    environment_id, weight = environment.id, weight_of(environment.download_count)
    old = delete(EnvironmentTerm).where(EnvironmentTerm.environment_id == environment_id)
    session.execute(old)
    rows = [
        {"term": term, "environment_id": environment_id, "weight": weight} for term in sorted(terms)
    ]
    if rows:
        session.execute(insert(EnvironmentTerm), rows)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What every candidate fulfils: an environment that does not must take nobody's place."""

    owner_id: ColumnElement[int] | None = None
    """Few have one owner: these are gone through, rather than all that have a word."""
    conditions: Sequence[ColumnElement[bool]] = ()
    """On `Environment`."""

    @property
    def of_terms(self) -> ColumnElement[bool]:
        """Whether the environment of a term fulfils them."""
        ids = EnvironmentTerm.environment_id
        if self.owner_id is None:
            # Row by row, in the order of the terms, until there are enough.
            return exists().where(Environment.id == ids, *self.conditions)
        owned = select(Environment.id).where(Environment.owner_id == self.owner_id)
        return ids.in_(owned.where(*self.conditions))


def candidates(words: list[str], narrowing: Narrowing) -> Select[Any]:
    """The ids of environments that are worth a look; other words are compared afterwards."""
    word = max(words, key=len)
    name = "-".join(words)
    named = (
        select(Environment.id)
        .where(Environment.name >= name, Environment.name < name + _LAST)
        .where(*narrowing.conditions)
    )
    if narrowing.owner_id is not None:
        named = named.where(Environment.owner_id == narrowing.owner_id)
    found = [
        select(named.limit(_MAX_NAMES).subquery().c.id),
        select(_with_term(word, narrowing).subquery().c.environment_id),
    ]
    if len(word) > max(_PREFIXES):
        found.append(select(_beginning_with(word, narrowing).subquery().c.environment_id))
    both = union_all(*found).subquery()
    return select(both.c[0])


def _with_term(word: str, narrowing: Narrowing) -> Select[Any]:
    """The most popular that have exactly this term; an index keeps them in that order."""
    return (
        select(EnvironmentTerm.environment_id)
        .where(EnvironmentTerm.term == word, narrowing.of_terms)
        .order_by(EnvironmentTerm.weight.desc(), EnvironmentTerm.environment_id.desc())
        .limit(MAX_CANDIDATES)
    )


def _beginning_with(word: str, narrowing: Narrowing) -> Select[Any]:
    """Some that have a longer term; words of up to three letters have terms of their own."""
    return (
        select(EnvironmentTerm.environment_id)
        .where(EnvironmentTerm.term > word, EnvironmentTerm.term < word + _LAST)
        .where(narrowing.of_terms)
        .limit(_MAX_BEGINNINGS)
    )
