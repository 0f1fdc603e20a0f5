"""Measure the branches that the tests of the floors take; all other tests run at full speed.

A plugin of pytest, ``-p tests.architecture.measuring``, for processes that coverage measures since
they began (``COVERAGE_PROCESS_START``). Tracing makes Python 1.6 times as slow, in this process and
in every one that a test starts.
"""

import os
import tomllib
from collections.abc import Generator
from fnmatch import fnmatchcase
from pathlib import Path

import coverage
import pytest

from tests.architecture.tree import ROOT

_FLOORS = Path(__file__).with_name("coverage_floors.toml")
_INHERITED = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""What makes coverage measure the processes that a test starts."""


def is_measured(test: Path) -> bool:
    """Whether a module of tests counts for a floor."""
    patterns: list[str] = tomllib.loads(_FLOORS.read_text())["measured"]
    name = test.relative_to(ROOT).as_posix()
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Measuring:
    """Goes on measuring while tests are collected, and then for each test that counts."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._coverage = measured
        self._inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._is_on = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Turn measuring on or off for one test with its fixtures."""
        if is_measured(item.path) is not self._is_on:
            self._switch()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        """Measure the hub that tests share, whichever of them asks for it first."""
        is_shared_hub = fixturedef.argname == "hub" and not self._is_on
        if not is_shared_hub:
            return (yield)
        os.environ.update(self._inherited)
        try:
            return (yield)
        finally:
            self._hide_from_processes()

    def pytest_unconfigure(self) -> None:
        """Keep what was measured."""
        self._coverage.stop()
        self._coverage.save()

    def _switch(self) -> None:
        self._is_on = not self._is_on
        if self._is_on:
            os.environ.update(self._inherited)
            self._coverage.start()
        else:
            self._coverage.stop()
            self._hide_from_processes()

    def _hide_from_processes(self) -> None:
        for name in self._inherited:
            del os.environ[name]


def pytest_configure(config: pytest.Config) -> None:
    """Begin where tests run, and stop at once in a process that only hands them out."""
    measured = coverage.Coverage.current()
    if measured is None:
        raise pytest.UsageError("Set COVERAGE_PROCESS_START to the path of pyproject.toml.")
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        measured.stop()
    else:
        config.pluginmanager.register(Measuring(measured))
