"""The sort key orders versions byte by byte exactly as PEP 440 does."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from strop_hub.publish.order import sort_key

ORDERED = [
    "0.9",
    "0.10",
    "1.0.dev1",
    "1.0.dev9",
    "1.0.dev10",
    "1.0a1.dev1",
    "1.0a1",
    "1.0a1.post1",
    "1.0a2",
    "1.0b1",
    "1.0rc1.dev2",
    "1.0rc1",
    "1.0",
    "1.0+abc.5",
    "1.0+abc.7",
    "1.0+5",
    "1.0+5.1",
    "1.0.post1.dev1",
    "1.0.post1",
    "1.0.0.1",
    "1.1.dev1",
    "1.1",
    "1.10",
    "20240131",
    "1!0.1",
]

numbers = st.one_of(st.integers(0, 12), st.integers(0, 10**30))
local_parts = st.one_of(numbers.map(str), st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True))


@st.composite
def versions(draw: st.DrawFn) -> Version:
    text = ".".join(map(str, draw(st.lists(numbers, min_size=1, max_size=4))))
    if draw(st.booleans()):
        text = f"{draw(st.integers(0, 2))}!{text}"
    if draw(st.booleans()):
        text += f"{draw(st.sampled_from(['a', 'b', 'rc']))}{draw(numbers)}"
    if draw(st.booleans()):
        text += f".post{draw(numbers)}"
    if draw(st.booleans()):
        text += f".dev{draw(numbers)}"
    if draw(st.booleans()):
        text += "+" + ".".join(draw(st.lists(local_parts, min_size=1, max_size=3)))
    return Version(text)


def test_a_shuffled_list_is_put_back_into_order() -> None:
    shuffled = random.Random(3).sample(ORDERED, len(ORDERED))

    assert sorted(shuffled, key=lambda text: sort_key(Version(text)).encode()) == ORDERED


@pytest.mark.parametrize(("one", "other"), [("1.0", "1"), ("1.0.0+a", "1+a"), ("0!1", "1.0.0")])
def test_equal_versions_have_equal_keys(one: str, other: str) -> None:
    assert sort_key(Version(one)) == sort_key(Version(other))


@given(versions(), versions())
def test_keys_compare_as_versions_do(one: Version, other: Version) -> None:
    first, second = sort_key(one).encode(), sort_key(other).encode()

    assert (first < second) == (one < other)
    assert (first == second) == (one == other)
