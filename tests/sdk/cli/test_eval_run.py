"""`strop eval run`: flags and run files, several environments, progress, interrupts, resuming."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from strop.trajectory_file import TrajectoryReader, read_trajectories
from tests.sdk.cli.command import STROP, on_terminal, strop


def run_file(folder: Path, **run: Any) -> Path:
    lines = [f"{name} = {json.dumps(value)}" for name, value in run.items()]
    text = """
        [[environments]]
        ref = "first-env"
        weight = 3.0
        settings = { size = 5 }
        [[environments]]
        ref = "second-env"
        [model]
        name = "scripted:mixed"
        completion_price = 2.0
        [run]
        split = "train"
    """
    path = folder / "run.toml"
    path.write_text(textwrap.dedent(text) + "\n".join(lines))
    return path


@pytest.mark.usefixtures("site")
def test_flags_make_a_run_and_leave_its_files(tmp_path: Path) -> None:
    out = tmp_path / "out"

    done = strop("eval", "run", "first-env", "--set", "size=4", "--out", out, "--json")

    assert done.code == 0, done.stderr
    assert done.document["mean_reward"] == 1.0
    assert done.document["attempt_count"] == 20
    assert sorted(path.name for path in out.iterdir()) == [
        "report.json",
        "run.json",
        "trajectories.jsonl",
    ]
    record = json.loads((out / "run.json").read_text())
    assert record["run"]["environments"] == [
        {"ref": "first-env", "weight": 1.0, "settings": {"size": "4"}}
    ]
    assert read_trajectories(out / "trajectories.jsonl")[0].settings == {"size": 4}


@pytest.mark.usefixtures("site")
def test_a_slice_is_run_with_fsync_and_without_its_references(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--skip", "5", "-n", "3", "--fsync", "--no-references", "--out", str(out)]
    finished = strop("eval", "run", "first-env", *options, "--json")

    assert finished.code == 0, finished.stderr
    kept = read_trajectories(out / "trajectories.jsonl")
    assert sorted(each.task.key for each in kept) == ["5", "6", "7"]
    assert all(each.reward == 1.0 for each in kept)
    assert b'"reference"' not in (out / "trajectories.jsonl").read_bytes()
    assert json.loads((out / "run.json").read_text())["run"]["run"]["fsync"] is True


@pytest.mark.usefixtures("site")
def test_a_file_mixes_environments_and_overrides_stand_over_it(tmp_path: Path) -> None:
    path = run_file(tmp_path, tasks=200, group_size=2)

    done = strop("eval", "run", "--config", path, "run.tasks=100", "run.seed=3", "--json")

    assert done.code == 0, done.stderr
    parts = done.document["environments"]
    assert set(parts) == {"first-env", "second-env"}
    assert sum(part["attempt_count"] for part in parts.values()) == 200
    assert 2 < parts["first-env"]["attempt_count"] / parts["second-env"]["attempt_count"] < 4.5
    assert 0.5 < done.document["mean_reward"] < 0.9
    assert done.document["cost"] == 0.0


@pytest.mark.usefixtures("site")
def test_only_the_tasks_that_are_named_are_run() -> None:
    done = strop("eval", "run", "first-env", "--task", "3", "--task", "1", "--json")

    assert done.document["task_count"] == 2


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], "usage", "Name an environment"),
        (["first-env", "run.seed"], "config", "no override"),
        (["first-env", "run.odd=1"], "config", "run.odd"),
        (["first-env", "--model", "gpt"], "config", "--base-url"),
        (["first-env", "--split", "test"], "settings", "This environment has: train, eval"),
        (["first-env", "--split", "train"], "settings", "has no end"),
        (["first-env", "--task", "99"], "settings", "no task '99'"),
        (["--config", "absent.toml"], "config", "cannot be read"),
    ],
)
def test_what_cannot_be_run_is_told(arguments: list[str], code: str, told: str) -> None:
    done = strop("eval", "run", *arguments, "--json")

    assert done.error["code"] == code
    assert told in done.error["message"]


@pytest.mark.usefixtures("site")
def test_another_run_is_not_resumed_in_the_same_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert strop("eval", "run", "first-env", "-n", "5", "--out", out).code == 0

    for flag, name in (("--seed", "seed"), ("--group-size", "group size")):
        refused = strop("eval", "run", "first-env", "--out", out, "--resume", flag, "2", "--json")
        assert f"another {name}" in refused.error["message"]
    more = strop("eval", "run", "first-env", "-n", "8", "--out", out, "--resume", "--json")
    assert more.document["attempt_count"] == 8
    assert "8/8 attempts" in more.stderr


@pytest.mark.usefixtures("site")
def test_more_tasks_than_there_are_is_said() -> None:
    more = strop("eval", "run", "first-env", "-n", "99", "--split", "eval", "--json")
    all_of_them = strop("eval", "run", "first-env", "--split", "eval", "--json")

    assert more.document["attempt_count"] == all_of_them.document["attempt_count"]
    assert "99 were asked for" in more.stderr
    assert "asked for" not in all_of_them.stderr


@pytest.mark.usefixtures("site")
def test_progress_is_plain_lines_without_a_terminal_and_one_live_line_on_one() -> None:
    plain = strop("eval", "run", "first-env", "--model", "mixed")
    live = on_terminal("eval", "run", "first-env", "--model", "mixed")

    assert "\033" not in plain.stderr
    assert "\r" not in plain.stderr
    assert "20/20 attempts" not in plain.stdout
    assert "reward" in live
    assert "\r\033[K" in live


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("number", "code", "told"),
    [(signal.SIGINT, 130, "Interrupted."), (signal.SIGTERM, 143, "Terminated.")],
)
def test_an_interrupt_leaves_whole_lines_and_says_how_to_go_on(
    number: signal.Signals, code: int, told: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    path = run_file(tmp_path, tasks=10**9, out=str(out))
    child = subprocess.Popen(
        [STROP, "eval", "run", "--config", path], stderr=subprocess.PIPE, text=True
    )
    lines = out / "trajectories.jsonl"
    _until(lambda: lines.exists() and lines.stat().st_size > 100_000)
    child.send_signal(number)
    _, said = child.communicate(timeout=120)

    assert child.returncode == code
    assert "Go on with --resume" in said
    assert told in said
    kept = read_trajectories(lines)
    assert len({each.attempt for each in kept}) == len(kept) > 10


AGENT = """
    from strop import Environment, Task, reward
    from strop.serve.intercept import AgentEpisode, Program

    class Sleeper(AgentEpisode):
        def program(self):
            return Program(["sh", "-c", "touch begun; sleep 600"])

    @reward(range=(0, 1), inline=True)
    def is_there(trajectory):
        return 1.0

    def load_environment():
        tasks = [Task(str(number), "wait") for number in range(4)]
        return Environment(
            tasks=tasks, rewards=[is_there], episode=Sleeper, oracle=lambda task: "x"
        )
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_of_the_programs_of_agents(
    number: signal.Signals, site: Path, tmp_path: Path
) -> None:
    (site / "first_env.py").write_text(textwrap.dedent(AGENT))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    child = subprocess.Popen(
        [STROP, "eval", "run", "first-env"],
        env=os.environ | {"TMPDIR": str(temporary)},
        stderr=subprocess.DEVNULL,
    )
    _until(lambda: len(list(temporary.glob("strop-agent-*/begun"))) == 4)
    child.send_signal(number)
    child.wait(120)

    assert [path.name for path in temporary.iterdir() if path.name.startswith("strop-")] == []


@pytest.mark.slow
@pytest.mark.usefixtures("site")
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_fifty_times_is_resumed_exactly(tmp_path: Path) -> None:
    _kill_and_resume(tmp_path, kill_count=50)


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("is_compared", [False, True])
def test_a_run_that_is_killed_is_resumed_exactly(tmp_path: Path, is_compared: bool) -> None:
    _kill_and_resume(tmp_path, kill_count=4, is_compared=is_compared)


def _kill_and_resume(folder: Path, kill_count: int, *, is_compared: bool = False) -> None:
    """50 tasks x 4 attempts of a model that takes its time, killed again and again."""
    slow = folder / "slow.py"
    slow.write_text(
        textwrap.dedent(SLOW_RUN.format(out=str(folder / "out"), is_compared=is_compared))
    )
    path = folder / "out" / "trajectories.jsonl"
    waiting = folder / "out" / "waiting"
    made: dict[Any, float] = {}
    finished = b""
    kills = 0
    while True:
        child = subprocess.Popen([sys.executable, slow], env={**os.environ, "ROUND": str(kills)})
        if kills == kill_count:
            assert child.wait(300) == 0
            break
        size = len(finished)
        step = 1 + 37 * kills % 4000
        _until(
            lambda size=size, step=step, child=child: (
                (path.exists() and path.stat().st_size >= size + step) or child.poll() is not None
            )
        )
        child.kill()
        child.wait()
        kills += 1
        content = path.read_bytes()
        assert content.startswith(finished)
        finished = content[: content.rfind(b"\n") + 1]
        members = [each for file in waiting.glob("*") for each in TrajectoryReader(file)]
        made |= {each.attempt: each.started_at_s for each in members}
    trajectories = read_trajectories(path)
    assert bool(made) == is_compared
    assert {each.attempt: each.started_at_s for each in trajectories}.items() >= made.items()
    assert not waiting.exists()
    assert path.read_bytes().startswith(finished)
    assert len(trajectories) == len({each.attempt for each in trajectories}) == 200


SLOW_RUN = """
    import asyncio
    from pathlib import Path
    import strop
    from strop.rubric import Rubric
    from first_env import load_environment

    async def answer(messages, tools, rng):
        await asyncio.sleep(rng.random() * 0.05)
        return messages[0].text[::-1]

    @strop.group_reward(weight=0.0)
    def place(members):
        return list(range(len(members)))

    plan = strop.RunPlan(split="train", task_count=50, group_size=4, concurrency=8)
    environment = load_environment()
    if {is_compared}:
        environment.rubric = Rubric([*environment.rubric.rewards, place])
    asyncio.run(strop.evaluate(
        environment, strop.ScriptedModel(answer), plan, out=Path({out!r}), is_resumed=True
    ))
"""


def _until(is_so: Any, limit_s: float = 120.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.002)
