"""The author's tree as a list of members, its digest and its links (steps: package, publish)."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from strop.errors import PackageError
from strop.hub.rules.names import NameSet

Mode = Literal["100644", "100755", "120000"]
FILE: Final = "100644"
EXECUTABLE: Final = "100755"
LINK: Final = "120000"
_MAX_HOPS = 40


@dataclass(frozen=True, slots=True)
class SourceMember:
    """One file or link of a tree; folders follow from them, as in git."""

    path: str
    """Relative to the tree, with ``/``."""
    mode: Mode
    """As git writes it: a plain file, one that its owner may execute, or a link."""
    size_bytes: int
    target: str | None = None
    """Where a link leads, relative to its own folder; None for files."""


def digest_members(digests: Iterable[tuple[SourceMember, str]]) -> str:
    """The tree digest of members and the sha256 of each one's content or link target.

    It is the sha256 of the canonical JSON list of ``[path, mode, sha256]``, sorted by the bytes of
    the path, without spaces, ASCII only.
    """
    rows = [[member.path, member.mode, sha256] for member, sha256 in digests]
    rows.sort(key=lambda row: row[0].encode())
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode("ascii")).hexdigest()


def target_sha256(target: str) -> str:
    """The digest that stands for a link."""
    return hashlib.sha256(target.encode()).hexdigest()


def check_tree(members: Iterable[SourceMember], where: str) -> None:
    """Refuse names that meet, and links that do not lead to a member inside the tree.

    Raises:
        PackageError: The message names the member and the rule.
    """
    names = NameSet(where)
    targets: dict[str, str] = {}
    places = {""}
    for member in members:
        names.add(member.path)
        parts = member.path.split("/")
        places |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if member.target is not None:
            targets[member.path] = member.target
    for path in targets:
        problem = _link_problem(path, targets, places)
        if problem is not None:
            raise PackageError(
                f"{where}: the link {path!a} -> {targets[path]!a} {problem}. "
                "Replace it by a copy, or remove it."
            )


def _link_problem(path: str, targets: Mapping[str, str], places: set[str]) -> str | None:
    """Why a link cannot be kept, as the end of a sentence; None when it can."""
    target = targets[path]
    if not target or not target.isprintable() or "\\" in target:
        return "has a target that is empty or has backslashes or control characters"
    place: list[str] = path.split("/")[:-1]
    pending = [target]
    hops = 0
    while pending:
        head, _, rest = pending.pop().partition("/")
        if head == "" and not pending and not rest:
            break
        if head == "":
            return "is absolute, or has an empty part"
        if rest:
            pending.append(rest)
        if head == "..":
            if not place:
                return "leads out of the tree"
            place.pop()
        elif head != ".":
            place.append(head)
        where = "/".join(place)
        if where not in places:
            return "leads to nothing that is shipped"
        if where in targets:
            hops += 1
            if hops > _MAX_HOPS:
                return "leads in a circle"
            place.pop()
            pending.append(targets[where])
    where = "/".join(place)
    is_above = not where or f"{path}/".startswith(f"{where}/")
    return "leads to a folder that holds it" if is_above else None
