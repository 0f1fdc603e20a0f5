"""A run is read from TOML, with every wrong field named, and nothing else happens."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strop.errors import ConfigError
from strop.model_choice import ModelChoice
from strop.run_file import RunFile
from strop.types import Usage

TEXT = """
[[environments]]
ref = "ada/math-env@~=0.1"
weight = 2.0
settings = { level = 3, topic = "sums" }

[[environments]]
ref = "ada/logic-env"

[model]
name = "my-model"
base_url = "http://127.0.0.1:8000/v1"
engine = "vllm"

[seats.user]
name = "scripted:constant"

[sampling]
temperature = 0.7
stop = ["END"]
extra = { min_p = 0.1 }

[run]
split = "train"
tasks = 100
group_size = 8
token_budget = 1000000
out = "runs/first"
"""


def write(folder: Path, text: str = TEXT) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_a_file_becomes_a_plan(tmp_path: Path) -> None:
    run = RunFile.read(write(tmp_path))
    plan = run.plan(["train", "eval"])

    assert [each.ref for each in run.environments] == ["ada/math-env@~=0.1", "ada/logic-env"]
    assert run.environments[0].settings == {"level": 3, "topic": "sums"}
    assert run.seats["user"].name == "scripted:constant"
    assert (plan.split, plan.task_count, plan.group_size, plan.concurrency) == ("train", 100, 8, 64)
    assert (plan.sampling.temperature, plan.sampling.stop) == (0.7, ("END",))
    assert plan.sampling.extra == {"min_p": 0.1}
    assert plan.token_budget == 1_000_000


def test_what_was_read_comes_back_equal_from_json(tmp_path: Path) -> None:
    run = RunFile.read(write(tmp_path))

    assert RunFile.parse(run.to_json()) == run


def test_overrides_stand_over_the_file(tmp_path: Path) -> None:
    overrides = [
        "run.seed=7",
        "run.keys=['a', 'b']",
        "model.name=other-model",
        "environments.0.settings.level=1",
        "sampling.extra.new.deep=true",
    ]

    run = RunFile.read(write(tmp_path), overrides)

    assert run.run.seed == 7
    assert run.plan(["train", "eval"]).keys == ("a", "b")
    assert run.model.name == "other-model"
    assert run.environments[0].settings["level"] == 1
    assert run.sampling.extra["new"] == {"deep": True}


@pytest.mark.parametrize(
    "override", ["run.seed", "=3", "run..seed=3", "environments.9.ref=x", "run.seed.deep=1"]
)
def test_overrides_that_lead_nowhere_are_told(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match=r"override|leads nowhere"):
        RunFile.read(write(tmp_path), [override])


def test_every_wrong_field_is_named_at_once(tmp_path: Path) -> None:
    text = TEXT + "\nunknown = 1\n[extra]\n[sampling2]\n"
    wrong = text.replace("group_size = 8", "group_size = 0").replace("0.7", '"hot"')

    with pytest.raises(ConfigError) as caught:
        RunFile.read(write(tmp_path, wrong))

    for field in ("run.unknown", "run.group_size", "sampling.temperature", "extra", "sampling2"):
        assert field in str(caught.value)


@pytest.mark.parametrize("text", ["", "x = ", "environments = []", "[run]\ntasks = 1"])
def test_what_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="run"):
        RunFile.read(write(tmp_path, text))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        RunFile.read(tmp_path / "none.toml")


def test_reading_loads_no_environment_and_opens_no_socket(tmp_path: Path) -> None:
    code = f"""
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(event) if event.startswith("socket.") else None)
from pathlib import Path
from strop.run_file import RunFile
RunFile.read(Path({str(write(tmp_path))!r}))
print(opened, [name for name in sys.modules if name.endswith("_env") or name == "httpx"])
"""

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert printed.strip() == "[] []"


def test_only_the_environments_must_be_given() -> None:
    run = RunFile.parse({"environments": [{"ref": "math-env"}]})
    expected: Any = {"split": None, "tasks": None, "group_size": 1}

    assert run.to_json()["run"].items() >= expected.items()
    assert run.model.name == "scripted:oracle"


@pytest.mark.parametrize(
    ("splits", "chosen"),
    [(["train", "eval"], "eval"), (["train"], "train"), (["train", "test"], "eval")],
)
def test_the_split_is_eval_or_the_only_one(splits: list[str], chosen: str) -> None:
    run = RunFile.parse({"environments": [{"ref": "math-env"}]})

    assert run.plan(splits).split == chosen


def test_tokens_have_a_price_where_one_is_given() -> None:
    usage = Usage(2_000_000, 500_000)

    assert ModelChoice().cost(usage) is None
    assert ModelChoice(prompt_price=1.0, completion_price=4.0).cost(usage) == 4.0
    assert ModelChoice(completion_price=4.0).cost(usage) == 2.0
