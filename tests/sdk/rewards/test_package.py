"""The package of rewards costs nothing before one is used."""

import subprocess
import sys

import pytest

import strop.rewards


def test_importing_the_rewards_imports_none_of_their_libraries() -> None:
    code = (
        "import strop.rewards, sys; from strop.rewards import boxed_math, exact, numeric;"
        "boxed_math(); exact(); numeric();"
        "print(sorted({'sympy', 'math_verify', 'latex2sympy2_extended'} & set(sys.modules)))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert printed == "[]\n"


def test_every_public_name_loads() -> None:
    assert dir(strop.rewards) == sorted(strop.rewards.__all__)
    assert all(callable(getattr(strop.rewards, name)) for name in strop.rewards.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="fuzzy"):
        _ = strop.rewards.fuzzy
