"""Semantic versions: read, compare, raise, and select by ranges such as ``^1.2`` and ``>=1 <3``."""

import re
from dataclasses import dataclass

_VERSION = re.compile(
    r"v?(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)"
    r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)
_COMPARATOR = re.compile(r"(?P<operator>\^|~|>=|<=|>|<|=)?(?P<version>\S+)")


@dataclass(frozen=True)
class Version:
    """A version; build metadata is not kept."""

    major: int
    minor: int
    patch: int
    pre: str = ""

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{self.pre}" if self.pre else text

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Major, minor and patch."""
        return (self.major, self.minor, self.patch)


def parse(text: str) -> Version:
    """Read a version.

    Raises:
        ValueError: It is none.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no version")
    numbers = (int(match[name]) for name in ("major", "minor", "patch"))
    return Version(*numbers, match["pre"] or "")


def compare(left: str, right: str) -> int:
    """-1, 0 or 1, as the first version is lower than, equal to or higher than the second."""
    one, other = parse(left), parse(right)
    if one.numbers != other.numbers:
        return -1 if one.numbers < other.numbers else 1
    return _compare_pre(one.pre, other.pre)


def _compare_pre(left: str, right: str) -> int:
    if left == right:
        return 0
    if not left or not right:
        return 1 if not left else -1
    lefts, rights = left.split("."), right.split(".")
    for one, other in zip(lefts, rights):
        if one == other:
            continue
        if one.isdigit() and other.isdigit():
            return -1 if int(one) < int(other) else 1
        if one.isdigit() != other.isdigit():
            return -1 if one.isdigit() else 1
        return -1 if one < other else 1
    return -1 if len(lefts) < len(rights) else 1


def bump(text: str, part: str) -> str:
    """The next version: of ``major``, ``minor`` or ``patch``, or the final one of a pre-release.

    Raises:
        ValueError: There is no such part.
    """
    version = parse(text)
    major, minor, patch = version.numbers
    if part == "major":
        return str(Version(major + 1, 0, 0))
    if part == "minor":
        return str(Version(major, minor + 1, 0))
    if part == "patch":
        # A pre-release comes before its own final version.
        return str(Version(major, minor, patch if version.pre else patch + 1))
    raise ValueError(f"{part!r} is no part of a version")


def sort(versions: list[str]) -> list[str]:
    """Versions from the lowest to the highest."""
    ordered: list[str] = []
    for version in versions:
        place = len(ordered)
        while place > 0 and compare(ordered[place - 1], version) > 0:
            place -= 1
        ordered.insert(place, version)
    return ordered


def _completed(text: str) -> tuple[str, int]:
    """A version of which parts were left out, and how many were given."""
    parts = text.split(".")
    given = len(parts)
    return ".".join([*parts, "0", "0"][: max(3, given)]), given


def _upper(operator: str, version: Version, given: int) -> Version:
    """The first version that is beyond a ``^`` or ``~`` range."""
    major, minor, patch = version.numbers
    if operator == "~":
        return Version(major, minor + 1, 0) if given > 1 else Version(major + 1, 0, 0)
    if major > 0 or given == 1:
        return Version(major + 1, 0, 0)
    if minor > 0 or given == 2:
        return Version(0, minor + 1, 0)
    return Version(0, 0, patch + 1)


def satisfies(text: str, wanted: str) -> bool:
    """Whether a version is in a range; comparators with spaces between them must all hold.

    Pre-releases are in a range only where they are above its lower end, like other versions.
    """
    if "||" in wanted:
        return any(satisfies(text, part) for part in wanted.split("||"))
    for piece in wanted.split():
        match = _COMPARATOR.fullmatch(piece)
        assert match is not None
        if match["version"] == "*":
            continue
        full, given = _completed(match["version"])
        order = compare(text, full)
        operator = match["operator"] or "="
        if operator in "^~":
            upper = _upper(operator, parse(full), given)
            if order < 0 or compare(text, str(upper)) >= 0:
                return False
        elif not _holds(order, operator):
            return False
    return True


def _holds(order: int, operator: str) -> bool:
    if operator == ">":
        return order > 0
    if operator == "<":
        return order < 0
    if operator == ">=":
        return order >= 0
    if operator == "<=":
        return order <= 0
    return order == 0


def best(versions: list[str], wanted: str) -> str | None:
    """The highest version in a range; None where there is none."""
    fitting = [version for version in sort(versions) if satisfies(version, wanted)]
    return fitting[-1] if fitting else None
