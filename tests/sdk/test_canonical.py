"""Equal JSON values have one spelling and one digest; different ones have another."""

import hashlib
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.canonical import canonical_json, json_digest
from tests.sdk.test_task import JSON_VALUES


@given(JSON_VALUES)
def test_the_spelling_is_ascii_and_reads_back_equal(value: object) -> None:
    spelled = canonical_json(value)  # type: ignore[arg-type]

    assert spelled.isascii()
    assert json.loads(spelled) == value


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_keys_changes_nothing(value: dict[str, int]) -> None:
    turned = dict(reversed(value.items()))

    assert canonical_json(value) == canonical_json(turned)  # type: ignore[arg-type]
    assert json_digest(value) == json_digest(turned)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ({"b": 1, "a": [1, 2.5, None, True]}, b'{"a":[1,2.5,null,true],"b":1}'),
        ("é\u2028\ud800", b'"\\u00e9\\u2028\\ud800"'),
        (2**100, b"1267650600228229401496703205376"),
        ({"é": 1, "z": 2}, b'{"z":2,"\\u00e9":1}'),
        ([], b"[]"),
        ({}, b"{}"),
        ("", b'""'),
        (0.1, b"0.1"),
        (1e100, b"1e+100"),
        (-0.0, b"-0.0"),
    ],
)
def test_values_have_this_spelling(value: object, spelled: bytes) -> None:
    assert canonical_json(value) == spelled  # type: ignore[arg-type]
    assert json_digest(value) == hashlib.sha256(spelled).hexdigest()  # type: ignore[arg-type]


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), (0, False), ("1", 1), (None, "")])
def test_values_of_other_types_have_another_digest(one: object, other: object) -> None:
    assert json_digest(one) != json_digest(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [{1, 2}, object(), b"x", {"a": {1}}], ids=["set", "o", "b", "in"])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)  # type: ignore[arg-type]


def test_the_digest_is_the_same_in_another_process() -> None:
    code = "from strop.canonical import json_digest; print(json_digest({'b': [1], 'a': 'é'}))"

    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert printed == {json_digest({"a": "é", "b": [1]})}
