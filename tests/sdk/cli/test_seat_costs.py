"""What a run costs is what each seat's and judge's model asks for the tokens that it took."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from strop import read_trajectories
from strop.run_file import RunFile
from strop.types import Usage
from tests.model_server import ModelServer
from tests.sdk.cli.command import Finished, strop
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


JUDGED = """
from strop import Environment, Task
from strop.models.openai import OpenAIModel
from strop.rewards import judge


class Judged(Environment):
    def __init__(self, model):
        rewards = [judge(model, f"Is it {n}?", {"yes": 1, "no": 0}, name=n) for n in ("one", "two")]
        super().__init__(tasks={"train": [Task("1", "Talk.")]}, rewards=rewards)
        self.model = model

    async def close(self):
        await self.model.close()


def load_environment(url: str) -> Environment:
    return Judged(OpenAIModel("my-judge", url))
"""

JUDGED_RUN = """
[[environments]]
ref = "judged-env"
settings = {{ url = "{judge_url}" }}

[model]
name = "my-policy"
base_url = "{policy_url}"
prompt_price = 100_000.0

[judges.one]
prompt_price = 100_000.0
completion_price = 2_000_000.0

[run]
tasks = 1
group_size = 2
out = "out"
"""


def as_is_asked(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    return "VERDICT: yes" if "VERDICT" in messages[-1]["content"] else "Hello."


async def run_judged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, template: str = JUDGED_RUN
) -> Finished:
    """The run of two judges in `folder`, which has succeeded."""
    monkeypatch.setenv("PYTHONPATH", str(install_module(folder / "site", "judged_env", JUDGED)))
    async with (
        ModelServer(as_is_asked, model="my-policy") as one,
        ModelServer(as_is_asked, model="my-judge") as other,
    ):
        text = template.format(policy_url=one.base_url, judge_url=other.base_url)
        (folder / "run.toml").write_text(text)
        run = ("eval", "run", "--config", "run.toml")
        done = await asyncio.to_thread(strop, *run, cwd=folder)

    assert done.code == 0, done.stderr
    return done


async def test_a_judge_is_paid_at_its_own_price_apart_from_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await run_judged(tmp_path, monkeypatch)

    assert "The cost lacks" not in done.stderr
    policy, judges = Usage(), {"judge:one": Usage(), "judge:two": Usage()}
    for trajectory in read_trajectories(tmp_path / "out" / "trajectories.jsonl"):
        policy += trajectory.usage
        for reply in trajectory.replies:
            assert reply.usage is not None
            judges[reply.source] += reply.usage
    paid = judges["judge:one"]
    assert min(policy.prompt_tokens, paid.prompt_tokens, paid.completion_tokens) > 0
    policy_cost = policy.prompt_tokens * 0.1
    judge_cost = paid.prompt_tokens * 0.1 + paid.completion_tokens * 2.0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["seat_costs"] == pytest.approx({"policy": policy_cost})
    assert report["judge_costs"] == pytest.approx({"judge:one": judge_cost})
    assert report["cost"] == pytest.approx(policy_cost + judge_cost)
    counted = report["report"]["source_usage"]
    assert {source: Usage(**counts) for source, counts in counted.items()} == judges
    assert Usage(**report["report"]["outside_usage"]) == paid + judges["judge:two"]
    assert f"cost {policy_cost + judge_cost:.2f}" in done.stderr
    shown = [line.split() for line in done.stdout.splitlines()]
    assert ["policy", f"{policy_cost:.2f}"] in shown
    assert ["judge:one", f"{judge_cost:.2f}"] in shown


async def test_a_priced_judge_that_is_not_there_is_told_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = JUDGED_RUN.replace("[judges.one]", "[judges.oen]")

    done = await run_judged(tmp_path, monkeypatch, template)

    (told,) = [line for line in done.stderr.splitlines() if "The cost lacks" in line]
    assert "prices oen, of which no tokens are known. Those known are of one, two." in told
    # Nobody is asked again: the servers are gone.
    file = tmp_path / "run.toml"
    file.write_text(file.read_text().replace("[judges.oen]", "[judges.one]"))
    run = ("eval", "run", "--config", "run.toml", "--resume")
    mended = await asyncio.to_thread(strop, *run, cwd=tmp_path)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert mended.code == 0, mended.stderr
    assert "The cost lacks" not in mended.stderr
    assert report["judge_costs"]["judge:one"] > 0


def run_with(
    model: dict[str, Any], judges: dict[str, Any] | None = None, **seats: dict[str, Any]
) -> RunFile:
    document = {"environments": [{"ref": "any"}], "model": model, "seats": seats}
    return RunFile.parse(document | {"judges": judges or {}})


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
    assert run.cost(TOOK, {"judge:polite": Usage(1, 1)}) == cost
    assert run.cost({}, {}) == (None if cost is None else 0.0)


def test_judges_are_priced_by_name_and_what_has_no_price_costs_nothing() -> None:
    took = {"judge:polite": Usage(3_000_000, 1_000_000), "search": Usage(1_000_000, 0)}
    price = {"prompt_price": 2.0}

    assert run_with({}, {"polite": price}).judge_costs(took) == {"judge:polite": 6.0}
    assert run_with({}, {"search": price}).judge_costs(took) == {"search": 2.0}
    assert run_with({}, {"polite": price}).cost(TOOK, took) == 6.0
    assert run_with(price, {"polite": price}).cost(TOOK, took) == 12.0
    assert run_with(price, {"polite": {}}).judge_costs(took) == {}
