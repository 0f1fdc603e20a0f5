"""Values cross between sandboxes exactly, and leave their classes behind."""

import contextlib
import json
import math
from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.sandbox.inside.values import decode, encode

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.complex_numbers(allow_nan=False, allow_infinity=False)
    | st.fractions()
)
HASHABLE = st.recursive(
    SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner), max_leaves=4
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(HASHABLE, inner),
    max_leaves=6,
)


@given(VALUES)
def test_a_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    back = decode(json.loads(json.dumps(encode(value))))

    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "value", [10**400, {1, 2}, range(3, 9, 2), deque([1]), Decimal("1.10"), Fraction(1, 3), int]
)
def test_rarer_values_come_back_too(value: Any) -> None:
    assert decode(encode(value)) == value


def test_numbers_that_are_none_come_back() -> None:
    assert math.isnan(decode(encode(math.nan)))
    assert decode(encode([math.inf, -math.inf])) == [math.inf, -math.inf]


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Forger(list[int]):
    def __eq__(self, other: object) -> bool:
        return True


def test_a_class_that_equals_everything_does_not_cross() -> None:
    assert decode(encode(Liar(3))) != 4
    assert decode(encode(Forger([1]))) != [2]


def test_iterators_cross_as_what_they_yield() -> None:
    assert list(decode(encode(iter([1, (2,)])))) == [1, (2,)]
    assert list(decode(encode({"a": 1}.items()))) == [("a", 1)]


def test_what_is_no_plain_value_is_refused() -> None:
    with pytest.raises(TypeError, match="object is no plain value"):
        encode([object()])


@pytest.mark.parametrize("text", [{"?": 1}, {}, {"l": 1, "t": 2}])
def test_what_was_not_encoded_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="no encoded value"):
        decode(text)


@pytest.mark.parametrize(
    "text",
    [
        {"i": "x"},
        {"i": None},
        {"f": "soon"},
        {"f": [1]},
        {"t": 5},
        {"d": [[1]]},
        {"d": [[[], 1]]},
        {"s": [[1]]},
        {"z": [{"d": []}]},
        {"b": "0"},
        {"a": 1},
        {"c": [1]},
        {"c": ["x", 1]},
        {"r": [1, 2, 0]},
        {"r": "abcd"},
        {"T": "eval"},
        {"T": "__import__"},
        {"T": []},
        {"D": "x"},
        {"F": [1, 0]},
        {"F": [1]},
        {"n": 3},
    ],
    ids=str,
)
def test_what_a_solution_made_up_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        decode([text])


LETTERS = st.sampled_from("iftzsqnbacrTDFd?")
MADE_UP = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("0x1ae", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(LETTERS, inner, max_size=2)
        | LETTERS.flatmap(lambda letter: st.fixed_dictionaries({letter: inner}))
    ),
    max_leaves=8,
)


@given(MADE_UP)
def test_anything_is_decoded_or_refused_and_nothing_is_run(text: Any) -> None:
    with contextlib.suppress(ValueError):
        value = decode(text)
        assert not callable(value) or isinstance(value, type)


@given(VALUES)
def test_encoding_is_plain_json_and_stable(value: Any) -> None:
    text = json.dumps(encode(value), allow_nan=False)

    assert json.dumps(encode(value)) == text


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        2**53 - 1,
        2**53,
        -(2**53),
        2**64,
        True,
        False,
        -0.0,
        5e-324,
        1e308,
        "",
        "\0",
        "\ud800",
    ],
    ids=ascii,
)
def test_scalars_at_their_borders_keep_type_and_value(value: Any) -> None:
    back = decode(json.loads(json.dumps(encode(value))))

    assert (type(back), repr(back)) == (type(value), repr(value))


def test_keys_keep_their_types_and_order() -> None:
    value = {1: "a", "1": "b", None: "c", (1, 2): "d", 1.5: "e", b"x": "f"}
    back = decode(json.loads(json.dumps(encode(value))))

    assert list(back.items()) == list(value.items())


@pytest.mark.parametrize(
    "value", [object(), lambda: 1, json, Liar, ValueError("x"), {"a": {1: json}}]
)
def test_what_carries_behaviour_stays_behind(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot leave its sandbox"):
        encode(value)
