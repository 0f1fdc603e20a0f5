"""Faults are made in the same way everywhere, and those that are kept show."""

import ast
import json

import pytest
from build_faults import MOST, is_telling, record_of
from swe_env import NAMES
from swe_env.library import DATA, CaseLibrary

from strop.sandbox import open_backend
from strop.sandboxed.faults import possible_faults

SOURCE = '''"""Text."""
def f(a, b=True):
    if a < 1 and not b:
        a += 2
    return max(a, 3) * a.strip() if a != b else f"{a + 1}"
'''
CHANGED = [
    "b=False",
    "a <= 1",
    "a < 2",
    "a < 1 or not b",
    "and b:",
    "a -= 2",
    "a += 3",
    "min(a, 3)",
    "max(a, 4)",
    "max(a, 3) + a.strip()",
    "3) * a if",
    "a == b",
]


def test_every_kind_of_change_is_made_once_and_in_its_place() -> None:
    made = [fault.applied(SOURCE) for fault in possible_faults("f.py", SOURCE)]
    assert len(made) == len(set(made))
    assert [text for text in CHANGED if sum(text in each for each in made) != 1] == []
    for each in made:
        ast.parse(each)
        assert each != SOURCE
        # What stands inside of a formatted string has no place of its own in every Python.
        assert "{a + 1}" in each


def test_places_are_counted_in_bytes() -> None:
    source = "é = 1\nx = 'ü' if é < 2 else 3\n"
    made = {fault.applied(source) for fault in possible_faults("f.py", source)}
    assert "é = 2\nx = 'ü' if é < 2 else 3\n" in made
    assert "é = 1\nx = 'ü' if é <= 2 else 3\n" in made


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_is_a_change_that_shows(name: str) -> None:
    library = CaseLibrary(name)
    [(path, source)] = library.sources.items()
    possible = {(f.start, f.end, f.text) for f in possible_faults(path, source)}
    assert 8 <= len(library.faults) <= MOST
    for fault in library.faults:
        assert (fault.start, fault.end, fault.text) in possible
        assert is_telling(library, fault.failing)
        expected = library.record["expected"]
        assert all(expected[int(test)] != got for test, got in fault.failing.items())


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_recorded_is_what_the_sandbox_gives(name: str) -> None:
    library = CaseLibrary(name)
    [(path, source)] = library.sources.items()
    async with await open_backend() as backend:
        assert await library.failing(backend, {path: source.encode()}) == {}
        for fault in library.faults[::8]:
            sources = {path: fault.applied(source).encode()}
            assert await library.failing(backend, sources) == fault.failing


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
async def test_the_records_can_be_made_again(name: str) -> None:
    async with await open_backend() as backend:
        record = await record_of(backend, name)
    assert record == json.loads((DATA / name / "faults.json").read_text())
