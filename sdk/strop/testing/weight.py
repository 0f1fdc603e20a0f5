"""What an environment's dependencies weigh in this interpreter (step: check)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from strop.testing.report import Finding

MOST_DISTRIBUTIONS = 40
MOST_BYTES = 500_000_000
"""Beyond Strop; above either the check warns."""
_SDK = "strop"
_NAMED_COUNT = 3


@dataclass(frozen=True, slots=True)
class Weight:
    """Distributions that come with an environment, beyond Strop and all that Strop needs."""

    sizes: Mapping[str, int]
    """Bytes on disk of what each one's RECORD lists, by name in the normal form of PEP 503."""
    unmeasured: tuple[str, ...] = ()
    """Of these, those without a list of their files: editable ones, and those of no installer."""
    missing: tuple[str, ...] = ()
    """Requirements that nothing here meets; what they would bring is not known."""

    @property
    def size_bytes(self) -> int:
        """Of all together."""
        return sum(self.sizes.values())

    def measures(self) -> dict[str, float]:
        """Numbers of a report."""
        return {
            "dependency_count": float(len(self.sizes)),
            "dependency_bytes": float(self.size_bytes),
            "missing_dependency_count": float(len(self.missing)),
        }

    def finding(self) -> Finding:
        """What an author should know of it."""
        told = f"Beyond Strop it needs {len(self.sizes)} distributions, {_mb(self.size_bytes)}"
        largest = sorted(self.sizes, key=lambda name: (-self.sizes[name], name))[:_NAMED_COUNT]
        if largest:
            told += f" ({', '.join(f'{name} {_mb(self.sizes[name])}' for name in largest)})"
        if self.unmeasured:
            told += f"; without a list of files, so not measured: {', '.join(self.unmeasured)}"
        if self.missing:
            told += (
                f". Not here, so not counted: {', '.join(self.missing)}. Install the environment "
                "with its dependencies, then check again."
            )
        elif len(self.sizes) > MOST_DISTRIBUTIONS or self.size_bytes > MOST_BYTES:
            told += (
                f", more than {MOST_DISTRIBUTIONS} or {_mb(MOST_BYTES)}. Put what only some need "
                "into an extra."
            )
        else:
            return Finding("dependencies", "ok", told)
        return Finding("dependencies", "warning", told)


def weigh(requirements: Iterable[str]) -> Weight:
    """The closure of some requirements as it is installed here, less the closure of bare Strop.

    Extras count where a requirement asks for them; markers hold for this interpreter. Source:
    PEP 508, and PEP 627 for RECORD.

    Args:
        requirements: As PEP 508 writes them.
    """
    found, missing = _closure(requirements)
    base, _ = _closure([_SDK])
    sizes: dict[str, int] = {}
    unmeasured = []
    for name in sorted(found.keys() - base.keys()):
        size = _size_bytes(found[name])
        sizes[name] = size or 0
        if size is None:
            unmeasured.append(name)
    return Weight(sizes, tuple(unmeasured), tuple(sorted(missing)))


def _closure(
    requirements: Iterable[str],
) -> tuple[dict[str, metadata.Distribution], set[str]]:
    found: dict[str, metadata.Distribution] = {}
    missing: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = list(_wanted(requirements, ""))
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            missing.add(_bare(wanted))
            continue
        if not wanted.specifier.contains(distribution.version, prereleases=True):
            missing.add(f"{_bare(wanted)} ({distribution.version} is here)")
        found[name] = distribution
        for extra in ("", *sorted(wanted.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting.extend(_wanted(distribution.requires or (), extra))
    return found, missing


def _wanted(requirements: Iterable[str], extra: str) -> Iterator[Requirement]:
    """Those that hold for this interpreter and an extra; the empty one is none."""
    for text in requirements:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            yield wanted


def _bare(wanted: Requirement) -> str:
    return f"{canonicalize_name(wanted.name)}{wanted.specifier}"


def _size_bytes(distribution: metadata.Distribution) -> int | None:
    if _is_editable(distribution) or distribution.files is None:
        return None
    total = 0
    for file in distribution.files:
        try:
            total += distribution.locate_file(file).stat().st_size  # type: ignore[attr-defined]
        except OSError:
            # Bytecode comes and goes; what is recorded with a size should have been there.
            total += file.size or 0
    return total


def _is_editable(distribution: metadata.Distribution) -> bool:
    try:
        direct_url = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(direct_url.get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError):
        return False


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"
