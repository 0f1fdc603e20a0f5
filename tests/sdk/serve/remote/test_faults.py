"""Cancels, silent clients, dead workers and wrong secrets: nothing hangs, nothing is left."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from strop import Completion, Environment, Episode, Message, ScriptedModel, Task, Trajectory, reward
from strop.errors import EnvironmentLostError, EpisodeUseError, ServeRefusedError
from strop.serve.client import SILENCE_S, RemoteEnvironment
from tests.sdk.loopback import listen_silently, reply, serve, unused_address
from tests.sdk.serve.remote.serving import SECRET, Serving, command, serving, start, write_project
from tests.waiting import until


class Living(Episode):
    """Counts those that live."""

    alive: set[str] = set()  # noqa: RUF012

    async def setup(self) -> None:
        self.alive.add(self.task.key)

    async def respond(self, completion: Completion) -> str:
        if completion.text == "wait":
            await asyncio.sleep(3600)
        return "on"

    async def close(self) -> None:
        await asyncio.sleep(0.05)
        self.alive.discard(self.task.key)


@reward
def one(trajectory: Trajectory) -> float:
    return 1.0


def living() -> tuple[Environment, set[str]]:
    alive: set[str] = set()
    episode = type("Living", (Living,), {"alive": alive})
    tasks = [Task(str(number), "Live.") for number in range(8)]
    return Environment(tasks=tasks, rewards=[one], episode=episode), alive


@pytest.mark.parametrize("said", ["wait", "go on"], ids=["in a step", "while sampling"])
async def test_a_cancel_of_one_of_many_frees_it_over_there_and_no_other(said: str) -> None:
    environment, alive = living()

    def make_model(key: str) -> ScriptedModel:
        async def policy(messages: Any) -> str:
            if said == "go on" and key == "0" and len(messages) > 1:
                await asyncio.sleep(3600)
            await asyncio.sleep(0.01)
            return said if key == "0" else "go on"

        return ScriptedModel(policy)

    with serving(environment) as server:
        async with server.connect() as remote:
            rollouts = [
                asyncio.ensure_future(remote.rollout(task, make_model(task.key)))
                for task in remote.tasks["train"]
            ]
            await until(lambda: len(alive) == 8)
            await asyncio.sleep(0.2)
            rollouts[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await rollouts[0]
            await until(lambda: "0" not in alive)
            others = await asyncio.gather(*rollouts[1:])
        assert [each.stop_reason for each in others] == ["max_turns"] * 7
        await until(lambda: not alive)
        await until(lambda: server.server.episode_count == 0)


async def test_a_client_that_was_killed_in_a_step_frees_its_episode(tmp_path: Path) -> None:
    environment, alive = living()
    text = f"""
import asyncio, strop
from strop.serve.client import RemoteEnvironment
async def main():
    remote = RemoteEnvironment(URL, {SECRET!r})
    await remote.rollout(remote.tasks["train"][0], strop.ScriptedModel.constant("wait"))
asyncio.run(main())
"""
    with serving(environment) as server:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", f"URL = {server.url!r}\n{text}"
        )
        await until(lambda: alive)
        await asyncio.sleep(0.3)
        client.kill()
        await client.wait()
        # Long before its lease ends.
        await until(lambda: not alive, 50)


async def test_a_silent_clients_episode_ends_with_its_lease() -> None:
    environment, alive = living()
    with serving(environment, lease_s=5.0) as server:
        async with server.connect() as remote:
            episode = remote.start(remote.tasks["train"][0])
            await episode.open()
            # While the client lives it renews the lease, however long it samples.
            await asyncio.sleep(6.0)
            assert alive
            await episode.step(Completion(Message("assistant", "go on")))
        await until(lambda: not alive)
        await episode.shut()


async def test_an_episode_that_is_gone_fails_its_attempt_and_keeps_its_turns() -> None:
    environment, _ = living()
    with serving(environment) as server:
        async with server.connect() as remote, remote.start(remote.tasks["train"][0]) as episode:
            await episode.step(Completion(Message("assistant", "first")))
            await _forget(server)
            with pytest.raises(EnvironmentLostError, match="no such episode"):
                await episode.step(Completion(Message("assistant", "second")))
            trajectory = await episode.score()
    assert trajectory.failure is not None
    assert trajectory.failure.type == "EnvironmentLostError"
    assert [each.text for each in trajectory.messages()][:3] == ["Live.", "first", "on"]
    assert trajectory.reward is None


async def _forget(server: Serving) -> None:
    loop = server.server._sweeping.get_loop()
    drained = asyncio.run_coroutine_threadsafe(server.server._app.drain(0), loop)
    await asyncio.wrap_future(drained)


async def test_a_slow_step_is_no_silence() -> None:
    class Slow(Episode):
        async def setup(self) -> None:
            await asyncio.sleep(5.0)

    environment = Environment(tasks=[Task("1", "Wait.")], rewards=[one], episode=Slow)
    with serving(environment) as server:
        async with server.connect(silence_s=4.0) as remote:
            trajectory = await remote.rollout(remote.tasks["train"][0], ScriptedModel.constant("x"))
    assert trajectory.failure is None
    assert trajectory.reward == 1.0


async def test_misuse_is_told_as_in_process() -> None:
    environment, _ = living()
    with serving(environment) as server:
        async with server.connect() as remote:
            episode = remote.start(remote.tasks["train"][0])
            with pytest.raises(EpisodeUseError, match="not open"):
                await episode.step(Completion(Message("assistant", "early")))
            async with episode:
                with pytest.raises(EpisodeUseError, match="single-use"):
                    await episode.open()
                await episode.score()
                with pytest.raises(EpisodeUseError, match="has ended"):
                    await episode.step(Completion(Message("assistant", "late")))


def test_another_secret_is_refused() -> None:
    environment, _ = living()
    with serving(environment) as server, pytest.raises(ServeRefusedError, match="secret"):
        RemoteEnvironment(server.url, "another")


def test_nobody_and_somebody_else_are_told_apart() -> None:
    with pytest.raises(EnvironmentLostError, match="strop serve"):
        RemoteEnvironment(unused_address(), SECRET)
    is_other = pytest.raises(ServeRefusedError, match="no server of environments")
    with serve(lambda _: reply(200, "<html>")) as other, is_other:
        RemoteEnvironment(other.url, SECRET)


async def test_a_server_that_falls_silent_fails_the_attempt() -> None:
    environment, _ = living()
    with serving(environment) as server, listen_silently() as silent:
        async with server.connect(silence_s=0.5) as remote:
            task = remote.tasks["train"][0]
            remote.workers[0] = type(remote.workers[0])(silent, SECRET)
            trajectory = await remote.rollout(task, ScriptedModel.constant("x"))
    assert trajectory.failure is not None
    assert trajectory.failure.type == "EnvironmentLostError"


async def test_killed_workers_fail_their_episodes_at_once_and_others_go_on(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    project = write_project(tmp_path / "count")
    options = ("--workers", "4", "--set", f"folder={marks}", "--set", "size=40")
    release = asyncio.Event()

    async def policy(messages: Any) -> str:
        if len(messages) == 3:
            await release.wait()
        return "next"

    with command(project, *options) as running:
        assert len(running.workers()) == 4
        async with running.connect() as remote:
            rollouts = [
                asyncio.ensure_future(remote.rollout(task, ScriptedModel(policy)))
                for task in remote.tasks["train"]
            ]
            await until(lambda: len(list(marks.iterdir())) == 40)
            await asyncio.sleep(0.5)
            victim = running.workers()[0]
            os.kill(victim, signal.SIGKILL)
            started = time.monotonic()
            release.set()
            made = await asyncio.gather(*rollouts)
            # Told by their connections, and not by silence.
            assert time.monotonic() - started < SILENCE_S
            failed = [each for each in made if each.failure is not None]
            assert len(failed) == 10
            assert {each.failure.type for each in failed if each.failure} == {
                "EnvironmentLostError"
            }
            assert all(each.reward == 1.0 for each in made if each.failure is None)
            # Another took its place, and nobody notices.
            await until(lambda: len(running.workers()) == 4 and victim not in running.workers())
            model = ScriptedModel.constant("next")
            again = await asyncio.gather(
                *(remote.rollout(task, model) for task in list(remote.tasks["train"])[:8])
            )
            assert [each.reward for each in again] == [1.0] * 8


async def test_an_asked_end_lets_live_episodes_end_and_takes_no_new_ones(tmp_path: Path) -> None:
    project = write_project(tmp_path / "count")
    with command(project, "--set", f"folder={tmp_path}", "--grace", "60") as running:
        async with running.connect() as remote:
            tasks = list(remote.tasks["train"])
            async with remote.start(tasks[0]) as episode:
                await episode.step(Completion(Message("assistant", "next")))
                running.process.send_signal(signal.SIGTERM)
                late = await _refused(remote, tasks[1])
                for _ in range(2):
                    await episode.step(Completion(Message("assistant", "next")))
                trajectory = await episode.score()
        assert trajectory.reward == 1.0
        assert late.failure is not None
        assert "about to end" in late.failure.message
        assert running.process.wait(120) == 0


async def test_a_second_signal_does_not_wait_for_live_episodes(tmp_path: Path) -> None:
    project = write_project(tmp_path / "count")
    with command(project, "--set", f"folder={tmp_path}", "--grace", "60") as running:
        async with running.connect() as remote, remote.start(remote.tasks["train"][0]):
            running.process.send_signal(signal.SIGINT)
            # Once more only when the first was taken: two that wait are one.
            await _refused(remote, remote.tasks["train"][1])
            running.process.send_signal(signal.SIGINT)
            assert running.process.wait(50) == 0


async def _refused(remote: RemoteEnvironment, task: Task) -> Trajectory:
    """What comes of an attempt once the server takes no new ones."""
    async with asyncio.timeout(60):
        while True:
            late = await remote.rollout(task, ScriptedModel.constant("next"))
            if late.failure is not None:
                return late


async def test_workers_do_not_outlive_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    project = write_project(tmp_path / "count")
    with command(project, "--workers", "2", "--set", f"folder={tmp_path}") as running:
        workers = running.workers()
        async with running.connect() as remote, remote.start(remote.tasks["train"][0]):
            assert (tmp_path / "0").exists()
            running.process.kill()
            await until(lambda: not any(_is_alive(pid) for pid in workers))
            assert not (tmp_path / "0").exists()


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_an_environment_that_is_not_installed_is_told_in_one_line(tmp_path: Path) -> None:
    with start(tmp_path / "nope", ()) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert json.loads(out)["error"]["code"] in ("environment_load", "invalid_ref")
    assert err == ""


@pytest.mark.parametrize(
    ("module", "message"),
    [("import no_such_module", "no_such_module"), ("1 / 0", "ZeroDivisionError")],
)
def test_an_environment_that_cannot_be_loaded_is_told_at_once(
    tmp_path: Path, module: str, message: str
) -> None:
    project = write_project(tmp_path / "count", module=module)
    with start(project, ()) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert message in err
    assert "could not start the environment" in out
