"""A run file becomes environments and models, and a folder keeps to one run."""

import json
from pathlib import Path
from typing import Any

import pytest

from strop import OpenAIModel, run_sync
from strop.cli.run_models import open_model
from strop.cli.running import _check_same, _Seats
from strop.errors import ConfigError, SettingsError
from strop.model_choice import ModelChoice
from strop.models.budget import PacedModel
from strop.run_file import RunFile
from tests.sdk.trajectories import a_single_turn_environment

ENVIRONMENT = a_single_turn_environment(oracle=lambda task: task.reference)


def opened(**choice: Any) -> Any:
    model = open_model(ModelChoice(**choice), ENVIRONMENT)
    run_sync(model.close())
    return model


@pytest.mark.parametrize("name", ["scripted:oracle", "oracle", "scripted:empty", "random"])
def test_scripted_policies_need_no_address(name: str) -> None:
    assert opened(name=name).name.removeprefix("scripted:") == name.removeprefix("scripted:")


@pytest.mark.parametrize(
    ("name", "base_url", "shown"),
    [
        ("my-model", "http://127.0.0.1:8000/v1", "my-model"),
        ("http://127.0.0.1:8000/v1/my-model", None, "my-model"),
        ("oracle", "http://127.0.0.1:8000/v1", "oracle"),
    ],
)
def test_an_address_makes_a_client(name: str, base_url: str | None, shown: str) -> None:
    model = opened(name=name, base_url=base_url)

    assert isinstance(model, OpenAIModel)
    assert model.name == shown


def test_limits_pace_the_client_and_keep_its_name() -> None:
    model = opened(name="m", base_url="http://127.0.0.1:8000/v1", requests_per_s=5.0)

    assert isinstance(model, PacedModel)
    assert model.name == "m"


def test_a_name_without_an_address_is_told_with_the_policies() -> None:
    with pytest.raises(ConfigError, match=r"Where is the model gpt.*scripted:oracle"):
        opened(name="gpt")


def test_an_unknown_policy_is_told() -> None:
    with pytest.raises(SettingsError, match="no scripted policy 'clever'"):
        opened(name="scripted:clever")


def test_the_main_model_plays_every_seat_that_has_none() -> None:
    seats = _Seats({"": "main", "user": "other"})

    assert (seats["policy"], seats["user"]) == ("main", "other")
    assert "anything" in seats


def record(**run: Any) -> dict[str, Any]:
    document = {"environments": [{"ref": "ada/maze@1.0"}], "run": run}
    environment = {"environment": "ada/maze", "version": "1.0", "digest": "d", "state": "matches"}
    return {"run": RunFile.parse(document).to_json(), "environments": [environment]}


def kept(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "run.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "changes", [{}, {"tasks": 99}, {"concurrency": 3}, {"token_budget": 10}, {"out": "elsewhere"}]
)
def test_what_decides_no_attempt_may_change(tmp_path: Path, changes: dict[str, Any]) -> None:
    _check_same(kept(tmp_path, record()), record(**changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 5}, "another seed"),
        ({"group_size": 2}, "another group size"),
        ({"split": "train"}, "another split"),
        ({"seed": 5, "group_size": 2}, "another group size, another seed"),
    ],
)
def test_what_decides_attempts_must_stay(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        _check_same(kept(tmp_path, record()), record(**changes))


def test_another_digest_or_settings_are_another_run(tmp_path: Path) -> None:
    path = kept(tmp_path, record())
    rebuilt = record()
    rebuilt["environments"][0]["digest"] = "e"
    reset = record()
    reset["run"]["environments"][0]["settings"] = {"size": 9}

    with pytest.raises(ConfigError, match="another digest"):
        _check_same(path, rebuilt)
    with pytest.raises(ConfigError, match="another environment"):
        _check_same(path, reset)


@pytest.mark.parametrize(
    ("table", "changes", "named"),
    [
        ("model", {"api": "messages"}, "another model"),
        ("model", {"body": {"top_k": 3}}, "another model"),
        ("seats", {"user": {"name": "scripted:random"}}, "another model of a seat"),
    ],
)
def test_what_is_asked_otherwise_is_another_run(
    tmp_path: Path, table: str, changes: dict[str, Any], named: str
) -> None:
    path = kept(tmp_path, record())
    other = record()
    document = {**other["run"], table: {**other["run"][table], **changes}}
    other["run"] = RunFile.parse(document).to_json()

    with pytest.raises(ConfigError, match=named):
        _check_same(path, other)


def test_a_record_of_an_earlier_version_is_the_same_run(tmp_path: Path) -> None:
    earlier = record()
    for name in ("api", "body"):
        del earlier["run"]["model"][name]

    _check_same(kept(tmp_path, earlier), record())


def test_another_selector_of_the_same_environment_is_the_same_run(tmp_path: Path) -> None:
    again = record()
    again["run"]["environments"][0]["ref"] = "ada/maze@~=1.0"

    _check_same(kept(tmp_path, record()), again)
