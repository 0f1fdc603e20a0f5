"""The seats of the author's guide, each played by a model of its own: as a run file names them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from strop.trajectory_file import read_trajectories
from tests.architecture.tree import ROOT
from tests.model_server import ModelServer, Said
from tests.sdk.cli.command import strop
from tests.sdk.installed_module import install_module

RUN = """
[[environments]]
ref = "{ref}"

[model]
name = "my-policy"
base_url = "{policy_url}"

[seats.{seat}]
name = "my-other"
base_url = "{other_url}"

[run]
split = "train"
group_size = 2
out = "out"
"""


def of_the_guide(name: str) -> str:
    guide = (ROOT / "docs" / "guides" / "author.md").read_text()
    return guide.partition(f"```python file={name}.py\n")[2].partition("\n```")[0] + "\n"


def last_of(messages: Sequence[dict[str, Any]]) -> str:
    return str(messages[-1]["content"])


def assistant(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> Said | str:
    if messages[-1]["role"] == "tool":
        return "It is booked."
    if messages[-1]["role"] == "user":
        day = last_of(messages).rstrip(".")
        arguments = f'{{"day": "{day}"}}'
        return Said(calls=[{"id": "a", "name": "book", "arguments": arguments}])
    return "Which day?"


def customer(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    assert not tools
    wish = messages[0]["content"].partition("a table for ")[2].partition(".")[0]
    return "DONE" if last_of(messages) == "It is booked." else f"{wish}."


def proposer(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    return "12 * 7" if len(messages) > 1 else "something hard"


def solver(messages: Sequence[dict[str, Any]], tools: Sequence[Any]) -> str:
    factors = last_of(messages).removeprefix("What is ").partition("?")[0].split("*")
    return str(int(factors[0]) * int(factors[1]))


@pytest.mark.parametrize(
    ("module", "seats", "policies", "reward"),
    [
        ("support", ("assistant", "customer"), (assistant, customer), 1.0),
        ("quiz", ("proposer", "solver"), (proposer, solver), 0.0),
    ],
)
async def test_each_seat_is_played_by_its_own_model(
    module: str,
    seats: tuple[str, str],
    policies: tuple[Any, Any],
    reward: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = install_module(tmp_path / "site", f"{module}_env", of_the_guide(module))
    monkeypatch.setenv("PYTHONPATH", str(site))
    first, second = seats
    async with (
        ModelServer(policies[0], model="my-policy") as one,
        ModelServer(policies[1], model="my-other") as other,
    ):
        places = {"policy_url": one.base_url, "other_url": other.base_url}
        text = RUN.format(ref=f"{module}-env", seat=second, **places)
        (tmp_path / "run.toml").write_text(text)
        done = await asyncio.to_thread(
            strop, "eval", "run", "--config", "run.toml", "--json", cwd=tmp_path
        )

    assert done.code == 0, done.stderr
    kept = read_trajectories(tmp_path / "out" / "trajectories.jsonl")
    assert len(kept) == 2 * (2 if module == "support" else 4)
    for trajectory in kept:
        assert trajectory.failure is None
        assert trajectory.reward == reward
        models = {
            (each.seat, each.model) for each in trajectory.segments if each.kind == "completion"
        }
        assert models == {(first, "my-policy"), (second, "my-other")}
    if module == "quiz":
        assert {each.seats["solver"].reward for each in kept} == {1.0}
