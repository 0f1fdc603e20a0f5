"""A catalog of many environments, written straight into the tables, and what reads of it cost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Any

from packaging.version import Version as Number
from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from strop.hub.wire import FileKind, VersionKind
from strop_hub.db import Database, now
from strop_hub.models import (
    Claim,
    Environment,
    EnvironmentTerm,
    File,
    Owner,
    OwnerKind,
    Version,
    VersionStatus,
    Visibility,
)
from strop_hub.publish.order import sort_key
from strop_hub.search import terms_of

OWNERS = 500
CATEGORIES = ("math", "code", "science", "logic", "swe", "other")
_PIECE = 5000
_SYLLABLES = [first + second for first in "bcdfghklmnprstvz" for second in "aeiou"]


def vocabulary() -> list[str]:
    """The words of all names and summaries; a few are common, most are rare."""
    chance = random.Random(1)
    return ["".join(chance.choices(_SYLLABLES, k=chance.choice((2, 3, 4)))) for _ in range(4000)]


def fill(database: Database, environment_count: int, version_count: int) -> None:
    """Write so many environments, and so many versions in all, with one wheel each."""
    each = max(1, version_count // environment_count)
    words = vocabulary()
    with database.writing_engine.begin() as connection, Session(connection) as session:
        session.execute(
            insert(Owner),
            [
                {"id": n + 1000, "name": f"owner-{n}", "kind": OwnerKind.PERSON}
                for n in range(OWNERS)
            ],
        )
        for rows in _pieces(_environments(environment_count, words), _PIECE):
            session.execute(insert(Environment), rows)
            session.execute(insert(Claim), [_claim(row) for row in rows])
            session.execute(insert(EnvironmentTerm), [term for row in rows for term in _terms(row)])
        for rows in _pieces(_versions(environment_count, each), _PIECE):
            session.execute(insert(Version), rows)
            session.execute(insert(File), [_file(row) for row in rows])
        latest = (Environment.id - 1000) * each + each - 1 + 1000
        session.execute(update(Environment).values(latest_version_id=latest))


def _environments(count: int, words: list[str]) -> Iterator[dict[str, Any]]:
    chance = random.Random(2)
    weights = [1 / (number + 10) for number in range(len(words))]
    for number in range(count):
        chosen = chance.choices(words, weights, k=10)
        name = f"{chosen[0]}-{chosen[1]}-{number}"
        owner = number % OWNERS
        yield {
            "id": number + 1000,
            "owner_id": owner + 1000,
            "name": name,
            "visibility": Visibility.PUBLIC,
            "summary": " ".join(chosen[2:]),
            "category": CATEGORIES[number % len(CATEGORIES)],
            "tags": ["single-turn"],
            "search_text": f"owner-{owner} {name} {' '.join(chosen[2:])}",
            "latest_version_id": None,
            "created_at": now(),
            "updated_at": now() - timedelta(seconds=number),
        }


def _terms(row: dict[str, Any]) -> list[dict[str, Any]]:
    owner = str(row["search_text"]).partition(" ")[0]
    terms = terms_of([owner, str(row["name"])], str(row["search_text"]))
    return [{"term": term, "environment_id": row["id"]} for term in terms]


def _claim(row: dict[str, Any]) -> dict[str, Any]:
    return {"name": row["name"], "environment_id": row["id"], "claimed_at": row["created_at"]}


def _versions(environment_count: int, each: int) -> Iterator[dict[str, Any]]:
    numbers = [(f"0.{minor}.0", sort_key(Number(f"0.{minor}.0"))) for minor in range(each)]
    for environment in range(environment_count):
        for index, (number, key) in enumerate(numbers):
            version_id = environment * each + index + 1000
            yield {
                "id": version_id,
                "environment_id": environment + 1000,
                "version": number,
                "canonical_version": number.removesuffix(".0"),
                "sort_key": key,
                "is_prerelease": False,
                "status": VersionStatus.VISIBLE,
                "kind": VersionKind.STROP,
                "digest": f"{version_id:064x}",
                "size_bytes": 1000,
                "manifest_json": "{}",
                "published_at": now(),
                "published_by": "root",
            }


def _file(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "version_id": row["id"],
        "environment_id": row["environment_id"],
        "filename": f"e{row['environment_id']}-{row['version']}-py3-none-any.whl",
        "kind": FileKind.WHEEL,
        "sha256": row["digest"],
        "size_bytes": 1000,
        "uploaded_at": row["published_at"],
        "uploaded_by": "root",
    }


def _pieces(rows: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    while piece := list(islice(rows, size)):
        yield piece
