"""List every skipped test with its cause; one that nobody allowed is an error.

Run as ``python -m tests.architecture.skips junit.xml [unsteady.xml]``. The second names what failed
and passed when it was run again, alone.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree

from tests.architecture.tree import ROOT

ALLOWED = ROOT / "tests" / "allowed_skips.txt"


@dataclass(frozen=True)
class Skip:
    """A test that did not run."""

    test: str
    """``tests.sdk.test_refs::test_name``."""
    cause: str


@dataclass(frozen=True)
class Outcome:
    """What a run of the tests came to."""

    passed_count: int
    failed_count: int
    skips: tuple[Skip, ...]


def read_outcome(report: Path) -> Outcome:
    """Read what pytest wrote with ``--junitxml``."""
    skips, failed_count, passed_count = [], 0, 0
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed_count += 1
        elif skipped is not None:
            test = f"{case.get('classname')}::{case.get('name')}"
            skips.append(Skip(test, " ".join(skipped.get("message", "").split())))
        else:
            passed_count += 1
    return Outcome(passed_count, failed_count, tuple(sorted(skips, key=lambda skip: skip.test)))


def read_allowed() -> list[str]:
    """The patterns of tests that may be skipped; each line has its reason after ``#``."""
    lines = (line.partition("#") for line in ALLOWED.read_text().splitlines())
    entries = [(pattern.strip(), reason.strip()) for pattern, _, reason in lines]
    for pattern, reason in entries:
        if pattern and not reason:
            raise SystemExit(f"{ALLOWED.name}: {pattern} has no reason. Write one after a `#`.")
    return [pattern for pattern, _ in entries if pattern]


def unallowed(skips: Sequence[Skip], allowed: Sequence[str]) -> list[Skip]:
    """The skips that no pattern allows."""
    return [skip for skip in skips if not any(fnmatchcase(skip.test, each) for each in allowed)]


def main(report: Path, unsteady: Path | None = None) -> int:
    """Print the tables; 1 when a skip is not allowed."""
    outcome = read_outcome(report)
    refused = unallowed(outcome.skips, read_allowed())
    print(f"Skipped tests: {len(outcome.skips)}")
    for skip in outcome.skips:
        verdict = "NOT ALLOWED" if skip in refused else "allowed"
        print(f"  {verdict:11}  {skip.test}  {skip.cause}")
    if refused:
        print(f"{len(refused)} skipped tests are not on {ALLOWED.name}. Mend what they lack.")
    print(
        f"{outcome.passed_count} passed, {outcome.failed_count} failed, "
        f"{len(outcome.skips)} skipped"
    )
    if unsteady is not None and unsteady.exists():
        again = read_outcome(unsteady)
        print(f"Run again, alone: {again.passed_count} passed, {again.failed_count} failed")
        for case in ElementTree.parse(unsteady).iter("testcase"):
            print(f"  UNSTEADY     {case.get('classname')}::{case.get('name')}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
