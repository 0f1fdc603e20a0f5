"""The public names of `import strop`: few, lazy, and changed only on purpose."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import strop

SNAPSHOT = Path(__file__).with_name("public_names.txt")
MOST_NAMES = 40


def test_the_public_names_are_those_of_the_snapshot() -> None:
    assert sorted(strop.__all__) == SNAPSHOT.read_text().split()


def test_there_are_not_too_many() -> None:
    assert len(strop.__all__) == len(set(strop.__all__)) <= MOST_NAMES


@pytest.mark.parametrize("name", strop.__all__)
def test_every_public_name_loads_and_is_documented(name: str) -> None:
    value = getattr(strop, name)

    # A union of types is the one kind of public value without a docstring of its own.
    assert getattr(value, "__doc__", None)


def test_the_names_are_listed_and_nothing_else() -> None:
    assert dir(strop) == strop.__all__
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = strop.Nothing


def test_type_checkers_see_the_same_names_as_programs() -> None:
    text = Path(strop.__file__).read_text()
    block = text.split("if TYPE_CHECKING:")[1].split("_HOMES")[0]

    for name, home in strop._HOMES.items():
        assert name in block
        assert f"from strop.{home} import" in block
        assert hasattr(importlib.import_module(f"strop.{home}"), name)


def test_importing_strop_loads_no_module_of_it() -> None:
    code = "import sys, strop; print([m for m in sys.modules if m.startswith('strop.')])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
