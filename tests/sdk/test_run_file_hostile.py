"""A run file and its overrides: any document is a run or is refused, and nothing is changed."""

import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.errors import ConfigError
from strop.run_file import RunFile

MINIMAL: dict[str, Any] = {"environments": [{"ref": "maze"}]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        *("environments", "model", "seats", "sampling", "run", "ref", "weight", "settings"),
        *("name", "base_url", "tasks", "keys", "seed", "stop", "extra", "group_size"),
        *("concurrency", "token_budget", "max_failure_share", "0", "1", "-1", "²", "x"),
    ]
)


@given(st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON), max_size=4))
def test_any_document_is_a_run_or_is_refused(document: dict[str, Any]) -> None:
    try:
        run = RunFile.parse(document)
    except ConfigError:
        return
    assert RunFile.parse(run.to_json()) == run


@given(st.lists(KEYS, min_size=1, max_size=4), st.text(max_size=12))
def test_any_override_is_taken_or_refused_and_the_document_stays(
    path: list[str], value: str
) -> None:
    document = copy.deepcopy(MINIMAL)
    with contextlib.suppress(ConfigError):
        RunFile.parse(document, [f"{'.'.join(path)}={value}"])
    assert document == MINIMAL


@given(st.text(max_size=30))
def test_any_text_as_an_override_is_taken_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert RunFile.parse(MINIMAL, [text]).environments


@pytest.mark.parametrize(
    ("override", "place", "value"),
    [
        ("run.seed=3", ("run", "seed"), 3),
        ("run.seed=-3", ("run", "seed"), -3),
        ("run.seed=0x10", ("run", "seed"), 16),
        ("run.seed=1_000", ("run", "seed"), 1000),
        ("run.out=runs/a=b", ("run", "out"), "runs/a=b"),
        ("run.out='quoted'", ("run", "out"), "quoted"),
        ("run.out=", ("run", "out"), ""),
        ("run.out=true story", ("run", "out"), "true story"),
        ("run.out=" + "[" * 3000, ("run", "out"), "[" * 3000),
        ("run.keys=['1', '2']", ("run", "keys"), ["1", "2"]),
        ("run.tasks=0", ("run", "tasks"), 0),
        ("model.base_url=http://127.0.0.1:1/v1", ("model", "base_url"), "http://127.0.0.1:1/v1"),
        ("sampling.temperature=0.5", ("sampling", "temperature"), 0.5),
        ("sampling.extra.a.b.c=1", ("sampling", "extra"), {"a": {"b": {"c": 1}}}),
        ("sampling.extra={a = [1, {b = 2}]}", ("sampling", "extra"), {"a": [1, {"b": 2}]}),
        ("environments.0.ref=ada/maze", ("environments", 0, "ref"), "ada/maze"),
        ("seats.user.name=scripted:x", ("seats", "user", "name"), "scripted:x"),
    ],
)
def test_an_override_arrives_at_its_place_with_its_type(
    override: str, place: tuple[Any, ...], value: Any
) -> None:
    found: Any = RunFile.parse(MINIMAL, [override]).to_json()
    for key in place:
        found = found[key]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "override",
    [
        "environments.1.ref=x",
        "environments.-1.ref=x",
        "environments.².ref=x",
        "environments.first.ref=x",
        "environments.0=x",
        "run.seed.a=1",
        "run.seed.a.b=1",
        "sampling.temperature=inf",
        "sampling.temperature=nan",
        "sampling.temperature=-1",
        "sampling.top_p=0",
        "sampling.top_p=1.1",
        "sampling.max_tokens=0",
        "run.group_size=0",
        "run.concurrency=0",
        "run.tasks=-1",
        "run.seed=1.5",
        "run.seed=true",
        "run.seed=2024-01-01",
        "run.max_failure_share=2",
        "run.token_budget=0",
        "environments.0.weight=inf",
        "environments.0.weight=nan",
        "environments.0.weight=-1",
        "model.requests_per_s=0",
        "model.requests_per_s=inf",
        "model.prompt_price=-1",
        "unknown=1",
        "run.unknown=1",
        "environments=[]",
        "environments=3",
        "=",
        ".=1",
        "a..b=1",
        "run.seed",
    ],
)
def test_an_override_that_cannot_be_meant_is_refused(override: str) -> None:
    with pytest.raises(ConfigError):
        RunFile.parse(MINIMAL, [override])


def test_the_last_of_two_overrides_of_one_key_counts() -> None:
    assert RunFile.parse(MINIMAL, ["run.seed=1", "run.seed=2"]).run.seed == 2


def test_reading_the_same_document_twice_knows_nothing_of_the_first_time() -> None:
    document = copy.deepcopy(MINIMAL)

    RunFile.parse(document, ["run.seed=7", "environments.0.settings.size=3"])

    assert RunFile.parse(document).run.seed == 0
    assert RunFile.parse(document).environments[0].settings == {}


@pytest.mark.parametrize(
    "content",
    [b"a = " + b"[" * 5000, b"\xff\xfe", b"\x00", b"a = {b = " * 5000, b"a = '", b"= 1"],
)
def test_a_hostile_file_is_no_toml_with_its_path(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_bytes(content)

    with pytest.raises(ConfigError, match=r"run\.toml is no TOML"):
        RunFile.read(tmp_path / "run.toml")


@pytest.mark.parametrize("name", ["absent.toml", "folder", "absent/run.toml"])
def test_what_is_no_file_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(ConfigError, match="cannot be read"):
        RunFile.read(tmp_path / name)
