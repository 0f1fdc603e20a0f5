"""`strop eval run` asks a real engine in each of its APIs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strop.models.local import LocalServer
from strop.trajectory_file import read_trajectories
from tests.sdk.cli.command import strop

pytestmark = pytest.mark.xdist_group("local-model")

CODE = """
from strop import Environment, Task, reward

@reward(range=(0, 1), inline=True)
def spoke(trajectory):
    return float(bool(trajectory.text))

def load_environment():
    return Environment(tasks=[Task("1", "Say hello.")], rewards=[spoke])
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "site" / "hello_env-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info.parent / "hello_env.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hello-env\nVersion: 0.1.0\n")
    point = "[strop.environments]\nhello-env = hello_env:load_environment\n"
    (info / "entry_points.txt").write_text(point)
    (info / "RECORD").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(info.parent))


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    "api",
    [
        "completions",
        *(pytest.param(api, marks=pytest.mark.slow) for api in ("chat", "messages", "responses")),
    ],
)
async def test_a_run_by_flags_is_answered_by_the_engine(
    engine: LocalServer, weights: Path, tmp_path: Path, api: str
) -> None:
    out = tmp_path / "out"
    flags: list[str | Path] = ["--model", "smollm2", "--base-url", engine.base_url, "--api", api]
    flags += ["--tokenizer", weights] if api == "completions" else []
    command = ("eval", "run", "hello-env", *flags, "--stream", "--max-tokens", "3", "--json")
    finished = await asyncio.to_thread(strop, *command, "--out", out)

    assert finished.code == 0, finished.stderr
    assert finished.document["mean_reward"] == 1.0
    assert finished.document["usage"]["completion_tokens"] == 3
    (trajectory,) = read_trajectories(out / "trajectories.jsonl")
    (prompt, completion) = trajectory.segments
    if api == "completions":
        assert prompt.token_ids is not None
        assert completion.token_ids is not None
        assert len(prompt.token_ids) == trajectory.usage.prompt_tokens
        assert len(completion.token_ids) == 3
    else:
        assert (prompt.token_ids, completion.token_ids) == (None, None)
