"""What a run costs is what each seat's model asks for the tokens that this seat took."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from strop import read_trajectories
from strop.run_file import RunFile
from strop.types import Usage
from tests.model_server import ModelServer
from tests.sdk.cli.command import strop
from tests.sdk.cli.test_seat_models import assistant, customer, of_the_guide
from tests.sdk.installed_module import install_module

RUN = """
[[environments]]
ref = "support-env"

[model]
name = "my-policy"
base_url = "{policy_url}"
prompt_price = 10.0
completion_price = 30.0

[seats.customer]
name = "my-other"
base_url = "{other_url}"
completion_price = 2_000_000.0

[run]
split = "train"
tasks = 2
group_size = 2
out = "out"
"""


async def test_two_models_of_a_run_are_paid_at_their_own_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install_module(tmp_path / "site", "support_env", of_the_guide("support"))
    monkeypatch.setenv("PYTHONPATH", str(site))
    async with (
        ModelServer(assistant, model="my-policy") as one,
        ModelServer(customer, model="my-other") as other,
    ):
        text = RUN.format(policy_url=one.base_url, other_url=other.base_url)
        (tmp_path / "run.toml").write_text(text)
        run = ("eval", "run", "--config", "run.toml")
        done = await asyncio.to_thread(strop, *run, cwd=tmp_path)

    assert done.code == 0, done.stderr
    took: dict[str, Usage] = {"assistant": Usage(), "customer": Usage()}
    for trajectory in read_trajectories(tmp_path / "out" / "trajectories.jsonl"):
        for segment in trajectory.segments:
            if segment.usage is not None:
                took[segment.seat] += segment.usage
    policy, user = took["assistant"], took["customer"]
    assert min(policy.prompt_tokens, policy.completion_tokens, user.completion_tokens) > 0
    policy_cost = (policy.prompt_tokens * 10.0 + policy.completion_tokens * 30.0) / 1e6
    user_cost = user.completion_tokens * 2.0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["seat_costs"] == pytest.approx({"assistant": policy_cost, "customer": user_cost})
    assert report["cost"] == pytest.approx(policy_cost + user_cost)
    counted = report["report"]["seat_usage"]
    assert {seat: Usage(**counts) for seat, counts in counted.items()} == took
    assert f"cost {policy_cost + user_cost:.2f}" in done.stderr
    assert ["customer", f"{user_cost:.2f}"] in [line.split() for line in done.stdout.splitlines()]


def run_with(model: dict[str, Any], **seats: dict[str, Any]) -> RunFile:
    return RunFile.parse({"environments": [{"ref": "any"}], "model": model, "seats": seats})


TOOK = {"policy": Usage(1_000_000, 500_000), "user": Usage(2_000_000, 0)}


@pytest.mark.parametrize(
    ("run", "costs", "cost"),
    [
        (run_with({}), {}, None),
        (run_with({"prompt_price": 1.0}), {"policy": 1.0, "user": 2.0}, 3.0),
        (run_with({}, user={"prompt_price": 3.0}), {"user": 6.0}, 6.0),
        (run_with({"completion_price": 4.0}, user={}), {"policy": 2.0}, 2.0),
        (run_with({}, judge={"prompt_price": 3.0}), {}, 0.0),
    ],
)
def test_a_seat_without_a_model_of_its_own_is_played_and_paid_as_the_main_one(
    run: RunFile, costs: dict[str, float], cost: float | None
) -> None:
    assert run.seat_costs(TOOK) == costs
    assert run.cost(TOOK) == cost
    assert run.cost({}) == (None if cost is None else 0.0)
