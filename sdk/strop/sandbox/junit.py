"""Read test results that come out of a sandbox; whoever wrote them is not trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias
from xml.parsers import expat

TestStatus: TypeAlias = Literal["passed", "failed", "error", "skipped"]
_MOST_CASES = 100_000
_LONGEST_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """How one test ended."""

    __test__ = False

    id: str
    """As pytest names it: ``tests/test_a.py::TestB::test_c[0]``."""
    status: TestStatus
    message: str = ""
    wall_s: float = 0.0


class JUnitError(ValueError):
    """The results are no JUnit file, or one that is up to no good."""


class _Reader:
    def __init__(self) -> None:
        self.outcomes: list[TestOutcome] = []
        self._attributes: dict[str, str] = {}
        self._status: TestStatus = "passed"
        self._message = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            self._attributes, self._status, self._message = attributes, "passed", ""
        elif tag == "failure":
            self._end_with("failed", attributes)
        elif tag == "error":
            self._end_with("error", attributes)
        elif tag == "skipped" and self._status == "passed":
            self._end_with("skipped", attributes)

    def _end_with(self, status: TestStatus, attributes: dict[str, str]) -> None:
        self._status = status
        self._message = attributes.get("message", "")[:_LONGEST_MESSAGE]

    def end(self, tag: str) -> None:
        if tag != "testcase":
            return
        if len(self.outcomes) >= _MOST_CASES:
            raise JUnitError(f"more than {_MOST_CASES} tests")
        found = self._attributes
        try:
            wall_s = float(found.get("time", "0"))
        except ValueError:
            wall_s = 0.0
        wall_s = wall_s if math.isfinite(wall_s) else 0.0
        outcome = TestOutcome(_node_id(found), self._status, self._message, wall_s)
        self.outcomes.append(outcome)


def _node_id(attributes: dict[str, str]) -> str:
    """Put together pytest's name of a test, from what JUnit's oldest form tells."""
    name, file = attributes.get("name", ""), attributes.get("file", "")
    classes = attributes.get("classname", "")
    if not file:
        return f"{classes}::{name}" if classes else name
    module = file.removesuffix(".py").replace("/", ".")
    inner = classes.removeprefix(module).strip(".")
    return "::".join([file, *(part for part in inner.split(".") if part), name])


def read_junit(content: bytes) -> list[TestOutcome]:
    """Read a JUnit file.

    Raises:
        JUnitError: It is none, or declares entities, which no test runner does.
    """
    reader, parser = _Reader(), expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise JUnitError("it declares entities")

    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except JUnitError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:
        # The last two where it names an encoding that nobody knows.
        raise JUnitError(f"no XML: {error}") from error
    return reader.outcomes
