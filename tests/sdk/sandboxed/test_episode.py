"""Each episode has a sandbox of its own, from its setup to its close, and the record says which."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import strop
from strop import Completion, End, Message, ScriptedModel, Trajectory, reward, tool
from strop.errors import EnvironmentFaultError, EpisodeUseError, SandboxError, SettingsError
from strop.models.scripted import Reply, call, turn_of
from strop.sandbox import Backend, Level, SandboxSpec
from strop.sandbox.repository import LIMITS, Repository
from strop.sandbox.zygote import meter
from strop.sandboxed import SandboxEnvironment, SandboxEpisode, sandbox_tools
from strop.testing import check_environment
from strop.trajectory_json import decode_line, encode_line
from tests.descriptors import open_descriptors
from tests.sdk.sandbox.conftest import TIERS, stub_pids, wait_for_idle
from tests.sdk.sandboxed.conftest import (
    SPEC,
    TASKS,
    answers,
    ended,
    make_environment,
    play,
)
from tests.waiting import until

ECHO = call("bash", commands="echo here")


async def test_the_record_says_where_code_ran_and_within_which_limits(backend: Backend) -> None:
    trajectory = await play(make_environment(backend), [ECHO])
    sandbox = trajectory.outcome["sandbox"]

    assert trajectory.isolation == f"namespace ({backend.name})"
    assert isinstance(sandbox, dict)
    assert sandbox["backend"] == backend.name
    assert sandbox["isolation"] == "namespace"
    assert sandbox["network"] == "none"
    assert sandbox["limits"]["memory_bytes"] == SPEC.limits.memory_bytes  # type: ignore[index,call-overload]
    assert sandbox["not_enforced"] == sorted(backend.capabilities.not_enforced)
    assert "shared kernel" in sandbox["not_enforced"]


async def test_episodes_do_not_see_each_others_files(backend: Backend) -> None:
    script = [call("bash", commands="ls; echo x > left")]
    async with make_environment(backend) as environment:
        model = ScriptedModel.replies([*script, "done"])
        members = await environment.rollout_group(TASKS[0], model, 3)

    assert [answers(member) for member in members] == [["(no output)"]] * 3


async def test_an_environment_opens_and_closes_a_backend_of_its_own() -> None:
    environment = SandboxEnvironment(
        tasks=TASKS, rewards=[ended], tools=sandbox_tools("bash"), spec=SPEC, concurrency=1
    )
    for _ in range(2):
        async with environment:
            opened = environment.backend
            trajectory = await environment.rollout(TASKS[0], ScriptedModel.replies([ECHO, "done"]))
            stubs = stub_pids(opened)
            assert trajectory.reward == 1
        assert [pid for pid in stubs if os.path.exists(f"/proc/{pid}")] == []


async def test_a_backend_that_was_given_stays_open(backend: Backend) -> None:
    await play(make_environment(backend), [ECHO])

    assert (await backend.run("print(1)")).text == "1\n"


async def test_a_backend_that_this_machine_lacks_is_refused_at_the_start() -> None:
    environment = SandboxEnvironment(
        tasks=TASKS, rewards=[ended], backend="unsafe-subprocess", min_isolation=Level.NONE
    )
    with pytest.raises(SandboxError, match="isolates nothing"):
        await environment.__aenter__()


async def test_an_environment_that_is_not_open_says_so(backend: Backend) -> None:
    environment = make_environment(backend)
    trajectory = await environment.rollout(TASKS[0], ScriptedModel.constant("done"))

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "environment"
    assert "`async with`" in trajectory.failure.message


async def test_a_plain_environment_cannot_hold_a_sandbox_episode() -> None:
    environment = strop.Environment(tasks=TASKS, rewards=[ended], episode=SandboxEpisode)
    trajectory = await environment.rollout(TASKS[0], ScriptedModel.constant("done"))

    assert trajectory.failure is not None
    assert "needs a SandboxEnvironment" in trajectory.failure.message


def test_an_episode_without_a_sandbox_is_refused() -> None:
    with pytest.raises(SettingsError, match="no SandboxEpisode"):
        SandboxEnvironment(tasks=TASKS, rewards=[ended], episode=strop.Episode)  # type: ignore[arg-type]


async def test_the_workspace_is_gone_before_and_after_the_episode(backend: Backend) -> None:
    async with make_environment(backend) as environment:
        episode = environment.start(TASKS[0])
        assert isinstance(episode, SandboxEpisode)
        with pytest.raises(EpisodeUseError, match="not open"):
            _ = episode.workspace
        async with episode:
            sandbox = episode.workspace.sandbox
        with pytest.raises(EpisodeUseError, match="not open"):
            _ = episode.workspace
        with pytest.raises(SandboxError):
            await sandbox.exec("true")


async def test_a_setup_that_fails_after_the_sandbox_leaves_none(backend: Backend) -> None:
    class Broken(SandboxEpisode):
        async def setup(self) -> None:
            await super().setup()
            raise ValueError("broken")

    trajectory = await play(make_environment(backend, episode=Broken), [])

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "environment"
    await wait_for_idle(backend)


def _sandbox_pids(backend: Backend, word: str) -> list[int]:
    """Processes of sandboxes that have `word` in their command line."""
    found = []
    for stub in stub_pids(backend):
        for pid in meter.pids_below(stub):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(pid)
    return found


async def _find(backend: Backend, word: str) -> int:
    await until(lambda: _sandbox_pids(backend, word))
    return _sandbox_pids(backend, word)[0]


def _first_process_above(pid: int, backend: Backend) -> int:
    """The first process of the sandbox that `pid` runs in."""
    known = {child for stub in stub_pids(backend) for child in meter.pids_below(stub)}
    while True:
        status = Path(f"/proc/{pid}/status").read_text()
        namespaces = next(row for row in status.splitlines() if row.startswith("NSpid")).split()
        if namespaces[-1] == "1":
            return pid
        pid = int(next(row for row in status.splitlines() if row.startswith("PPid")).split()[1])
        assert pid in known


def _killing(backend: Backend, choose: Callable[[int], int]) -> ScriptedModel:
    """Starts something in the sandbox, has a process killed, and goes on as if nothing was."""

    async def policy(messages: Sequence[Message]) -> Reply:
        turn = turn_of(messages)
        if turn == 0:
            return call("bash", commands="sleep 6543 &")
        if turn == 1:
            os.kill(choose(await _find(backend, "6543")), signal.SIGKILL)
        return call("bash", commands="echo alive") if turn < 3 else "done"

    return ScriptedModel(policy)


async def test_a_killed_sandbox_is_a_failure_and_no_reward(backend: Backend) -> None:
    async with make_environment(backend) as environment:
        model = _killing(backend, lambda pid: _first_process_above(pid, backend))
        trajectory = await environment.rollout(TASKS[0], model)

    assert trajectory.failure is not None
    assert trajectory.failure.boundary == "sandbox", trajectory.failure.traceback
    assert trajectory.failure.type == "SandboxError"
    assert trajectory.reward is None
    assert trajectory.rewards == {}
    assert trajectory.isolation == f"namespace ({backend.name})"
    again = decode_line(encode_line(trajectory))
    assert (again.failure, again.outcome) == (trajectory.failure, trajectory.outcome)


async def test_what_the_models_own_processes_suffer_is_no_failure(backend: Backend) -> None:
    async with make_environment(backend) as environment:
        trajectory = await environment.rollout(TASKS[0], _killing(backend, lambda pid: pid))

    assert trajectory.failure is None
    # The shell tells of it with whichever command comes next.
    assert [told.split("\n")[0] for told in answers(trajectory)[1:]] == ["alive", "alive"]


async def test_a_sandbox_that_fails_in_an_authors_tool_or_reward_is_a_failure_of_the_sandbox(
    backend: Backend,
) -> None:
    class Own(SandboxEpisode):
        @tool
        async def look(self) -> str:
            """Look around."""
            await self.workspace.stop()
            return (await self.workspace.sandbox.exec("ls")).text

    @reward(live=True)
    async def checked(trajectory: Trajectory, episode: Own) -> float:
        await episode.workspace.stop()
        return float((await episode.workspace.sandbox.exec("true")).is_ok)

    in_tool = await play(make_environment(backend, episode=Own), [call("look")])
    in_reward = await play(make_environment(backend, episode=Own, rewards=[checked]), [])

    for trajectory in (in_tool, in_reward):
        assert trajectory.failure is not None
        assert (trajectory.failure.boundary, trajectory.failure.type) == ("sandbox", "SandboxError")
        assert trajectory.reward is None
    assert in_reward.failure is not None
    assert "checked" in in_reward.failure.message


async def test_a_live_reward_judges_in_a_fresh_sandbox(backend: Backend) -> None:
    @reward(live=True)
    async def solved(trajectory: Trajectory, episode: SandboxEpisode) -> float:
        code = await episode.workspace.read("answer.py")
        result = await episode.backend.run(code + b"\nprint(answer() == 42, PLACE)", env={})
        return float(result.text.startswith("True"))

    write = call("write_file", path="answer.py", content="PLACE = 1\ndef answer(): return 42\n")
    trajectory = await play(make_environment(backend, rewards=[solved]), [write])

    assert trajectory.reward == 1


@pytest.mark.parametrize("command", ["sleep 77 & sleep 60", "sleep 77 & while :; do :; done"])
async def test_a_cancel_frees_everything_and_waits_for_no_command(
    backend: Backend, command: str
) -> None:
    async with make_environment(backend) as environment:
        model = ScriptedModel.constant(call("bash", commands=command))
        rollouts = [asyncio.ensure_future(environment.rollout(t, model)) for t in TASKS[:4]]
        await _find(backend, "77")
        started_at = time.monotonic()
        for rollout in rollouts:
            rollout.cancel()
        await asyncio.wait(rollouts)
        await wait_for_idle(backend)

        assert time.monotonic() - started_at < 55
        assert all(rollout.cancelled() for rollout in rollouts)


@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.005, 0.01, 0.02, 0.04])
async def test_a_cancel_at_any_moment_of_the_setup_leaves_nothing(
    backend: Backend, delay_s: float
) -> None:
    async with make_environment(backend) as environment:
        model = ScriptedModel.constant(ECHO)
        rollouts = [asyncio.ensure_future(environment.rollout(t, model)) for t in TASKS[:3]]
        await asyncio.sleep(delay_s)
        for rollout in rollouts:
            rollout.cancel()
        await asyncio.wait(rollouts)
        await wait_for_idle(backend)


@pytest.mark.parametrize(
    ("count", "concurrency"), [(12, 4), pytest.param(64, 16, marks=pytest.mark.slow)]
)
async def test_many_rollouts_at_once_leave_nothing_behind(
    backend: Backend, count: int, concurrency: int
) -> None:
    script: list[Reply] = [
        call("bash", commands="export N=$RANDOM; sleep 999 & echo $N > n"),
        call("python", code="open('n').read().strip() != ''"),
        call("bash", commands="test $N = $(cat n) && echo same"),
        "done",
    ]
    before = open_descriptors()
    async with make_environment(backend, "bash", "python") as environment:
        turn = asyncio.Semaphore(concurrency)
        model = ScriptedModel.replies(script)

        async def attempt(index: int) -> Trajectory:
            async with turn:
                return await environment.rollout(TASKS[index], model)

        trajectories = await asyncio.gather(*(attempt(index) for index in range(count)))

    assert {trajectory.reward for trajectory in trajectories} == {1.0}
    assert {tuple(answers(trajectory)) for trajectory in trajectories} == {
        ("(no output)", "True", "same")
    }
    await wait_for_idle(backend)
    assert open_descriptors() <= before + 2


async def test_tasks_bring_source_trees_of_their_own(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")

    class Tree(SandboxEpisode):
        @property
        def source(self) -> Path:
            return tmp_path

        @property
        def spec(self) -> SandboxSpec:
            return replace(super().spec, limits=LIMITS)

    @reward(live=True)
    async def changed(trajectory: Trajectory, episode: Tree) -> float:
        found = Repository(episode.workspace.sandbox, base="HEAD")
        return float(b"+x = 2" in await found.diff())

    tmp_path.chmod(0o755)
    environment = make_environment(backend, episode=Tree, rewards=[changed])
    trajectory = await play(environment, [call("edit_file", path="a.py", old="1", new="2")])

    assert trajectory.failure is None, trajectory.failure
    assert trajectory.reward == 1
    assert (tmp_path / "a.py").read_text() == "x = 1\n"


async def test_groups_driven_by_hand_open_and_close_their_sandboxes(backend: Backend) -> None:
    async with make_environment(backend) as environment:
        async with environment.start_group(TASKS[0], 3) as group:
            for episode in group.episodes:
                assert isinstance(episode, SandboxEpisode)
                await episode.workspace.write("a", b"1")
            scored = await group.score()
        await wait_for_idle(backend)

    assert [member.stop_reason for member in scored] == ["cancelled"] * 3


async def test_the_authors_check_plays_it() -> None:
    environment = SandboxEnvironment(
        tasks=TASKS[:2],
        rewards=[ended],
        tools=sandbox_tools("bash"),
        spec=SPEC,
        backend=TIERS[0].name,
        oracle=lambda task: [ECHO, "done"],
    )
    findings = await check_environment(environment)

    assert [each for each in findings if each.verdict not in ("ok", "skipped")] == []


async def test_an_override_that_forgets_the_setup_is_told(backend: Backend) -> None:
    class Forgetful(SandboxEpisode):
        async def setup(self) -> None:
            pass

    trajectory = await play(make_environment(backend, episode=Forgetful), [ECHO])

    assert trajectory.failure is not None
    assert "not open" in trajectory.failure.message
    with pytest.raises(EnvironmentFaultError, match="not open"):
        _ = make_environment(backend).backend


class Judged(SandboxEpisode):
    """Runs what the model wrote, in a sandbox that ends with it."""

    has_workspace = False

    async def respond(self, completion: Completion) -> End:
        self.outcome["printed"] = (await self.backend.run(completion.text)).text
        return End()


async def test_an_episode_that_only_judges_opens_no_sandbox(backend: Backend) -> None:
    environment = make_environment(backend, episode=Judged)
    environment.tools = ()
    async with environment:
        model = ScriptedModel.constant("print(6 * 7)")
        trajectory = await environment.rollout(TASKS[0], model)
        async with environment.start(TASKS[0]) as episode:
            assert isinstance(episode, Judged)
            with pytest.raises(EpisodeUseError, match="no sandbox"):
                _ = episode.workspace

    assert trajectory.outcome["printed"] == "42\n"
    assert trajectory.isolation == f"namespace ({backend.name})"
    assert "sandbox" in trajectory.outcome
