"""A program's calls become the trajectory, whatever the program does besides calling."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strop import Completion, Message, Sampling, ScriptedModel, Task, Trajectory, reward
from strop.errors import ContextOverflowError
from strop.serve.intercept import AgentEpisode, Program
from tests.sdk.serve.intercept.programs import (
    TASK,
    Scripted,
    counter,
    echo,
    environment_of,
    output,
    play,
    texts,
)
from tests.waiting import until

TWO_CALLS = """
first = call("one")
print(say(first))
said = {"role": "assistant", "content": say(first)}
print(say(call([{"role": "user", "content": "one"}, said, {"role": "user", "content": "two"}])))
"""


async def test_each_call_of_the_program_is_a_turn_and_its_history_one_path() -> None:
    trajectory = await play(environment_of(TWO_CALLS))
    assert trajectory.failure is None
    assert texts(trajectory) == ["one/1", "two/3"]
    assert output(trajectory) == "one/1\ntwo/3"
    assert [each.role for each in trajectory.messages()] == ["user", "assistant"] * 2
    assert len(list(trajectory.leaves())) == 1
    assert (trajectory.stop_reason, trajectory.is_terminated) == ("ended", True)


async def test_an_edited_history_forks_and_keeps_what_was_said_before() -> None:
    text = """
    first = say(call("one"))
    said = {"role": "assistant", "content": "not " + first}
    call([{"role": "user", "content": "one"}, said, {"role": "user", "content": "two"}])
    """
    trajectory = await play(environment_of(text))
    assert texts(trajectory) == ["one/1", "two/3"]
    assert len(list(trajectory.leaves())) == 2


async def test_two_conversations_of_one_program_go_on_each_on_its_own_path() -> None:
    text = """
    heads = {name: [{"role": "user", "content": name}] for name in ("a", "b")}
    for _ in range(3):
        for head in heads.values():
            head.append({"role": "assistant", "content": say(call(head))})
            head.append({"role": "user", "content": "more"})
    """
    trajectory = await play(environment_of(text))
    assert trajectory.turn_count == 6
    assert len(list(trajectory.leaves())) == 2
    assert len(trajectory.segments) == 12


async def test_the_programs_wishes_narrow_the_drivers_sampling() -> None:
    seen: list[Sampling] = []

    class Watched(ScriptedModel):
        async def complete(self, messages, tools, sampling):  # type: ignore[no-untyped-def]
            seen.append(sampling)
            return Completion(Message("assistant", "cut"), finish_reason="length")

    environment = environment_of(
        "call('a', max_tokens=7, stop='\\n', temperature=9); call('b'); call('b')"
    )
    async with environment:
        trajectory = await environment.rollout(
            TASK, Watched(lambda _: ""), sampling=Sampling(temperature=0.5, max_tokens=100)
        )
    assert (seen[0].temperature, seen[0].max_tokens, seen[0].stop) == (0.5, 7, ("\n",))
    assert seen[1].max_tokens == 100
    assert seen[0].seed == seen[1].seed != seen[2].seed
    # A cut completion is the program's business; it goes on.
    assert (trajectory.turn_count, trajectory.stop_reason) == (3, "ended")


async def test_the_last_turn_is_scored_when_the_program_does_not_read_its_answer(
    tmp_path: Path,
) -> None:
    @reward
    def turns(trajectory: Trajectory) -> float:
        return float(trajectory.turn_count)

    asked = tmp_path / "asked"
    text = f"""
    call("first")
    connection = call("last", is_read=False)
    wait_for({str(asked)!r})
    """

    async def slow(messages: Any) -> str:
        if messages[0].text == "last":
            asked.touch()
            await asyncio.sleep(1.0)
        return "said"

    trajectory = await play(environment_of(text, rewards=[turns]), ScriptedModel(slow))
    assert texts(trajectory) == ["said", "said"]
    assert trajectory.rewards["turns"].value == 2.0


async def test_the_last_turn_is_scored_when_the_program_leaves_after_its_last_byte() -> None:
    text = """
    call("only")
    os._exit(0)
    """
    for _ in range(3):
        assert texts(await play(environment_of(text))) == ["only/1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("call('a'); sys.exit('boom')", "exit code 1: boom"),
        ("call('a'); os.kill(os.getpid(), 11)", "exit code -11"),
        ("print('nothing to do')", "without a call of the model"),
        ("import no_such_module", "exit code 1"),
    ],
    ids=["exit", "signal", "no call", "import"],
)
async def test_a_crash_is_a_failure_that_says_what_was_printed(text: str, message: str) -> None:
    trajectory = await play(environment_of(text))
    assert trajectory.failure is not None
    assert trajectory.failure.type == "EnvironmentFaultError"
    assert message in trajectory.failure.message
    assert trajectory.reward is None


async def test_an_exit_code_that_is_allowed_is_scored() -> None:
    trajectory = await play(environment_of("call('a'); sys.exit(3)", ok_exit_codes=(0, 3)))
    assert (trajectory.reward, trajectory.outcome["exit_code"]) == (1.0, 3)


async def test_a_program_that_is_not_there_is_a_failure() -> None:
    class Absent(Scripted):
        def program(self) -> Program:
            return Program(["no-such-program"])

    trajectory = await play(environment_of("", base=Absent))
    assert trajectory.failure is not None
    assert "no-such-program" in trajectory.failure.message
    assert "No such file" in trajectory.failure.message


@pytest.mark.parametrize("text", ["call('a'); time.sleep(3600)", "time.sleep(3600)"])
async def test_a_program_that_hangs_is_truncated_at_its_limit(text: str) -> None:
    trajectory = await play(environment_of(text, limit_s=1.5))
    assert (trajectory.stop_reason, trajectory.is_truncated) == ("time_limit", True)
    assert trajectory.failure is None


async def test_the_limit_of_the_turns_holds_for_the_programs_own_work() -> None:
    trajectory = await play(environment_of("call('a'); time.sleep(3600)", turns_s=4.0))
    assert trajectory.stop_reason == "time_limit"
    assert texts(trajectory) == ["a/1"]


async def test_a_program_over_its_turns_is_refused_and_may_end_by_itself() -> None:
    text = """
    for number in range(10):
        status, reply = call(str(number))
        if status != 200:
            print(status, reply["error"]["message"])
            break
    """
    trajectory = await play(environment_of(text, max_turns=3))
    assert (trajectory.stop_reason, trajectory.turn_count) == ("max_turns", 3)
    assert output(trajectory).startswith("403 The episode has ended")
    assert trajectory.outcome["exit_code"] == 0


async def test_a_fault_of_the_model_never_reaches_the_program_as_a_completion() -> None:
    def policy(messages: object) -> str:
        raise ContextOverflowError("too long")

    trajectory = await play(environment_of("print(call('a'))"), ScriptedModel(policy))
    assert (trajectory.stop_reason, trajectory.turn_count) == ("context_overflow", 0)
    assert "choices" not in output(trajectory)


async def test_what_scoring_needs_is_collected_when_nothing_of_the_program_runs() -> None:
    class Collecting(Scripted):
        async def prepare(self) -> None:
            (self.folder / "input.txt").write_text("given")

        async def collect(self) -> None:
            self.outcome["files"] = " ".join(sorted(path.name for path in self.folder.iterdir()))
            self.outcome["left"] = len(_processes_in(self.folder))

    text = """
    import subprocess
    call(open("input.txt").read())
    subprocess.Popen(["sleep", "60"], start_new_session=True)
    open("output.txt", "w").close()
    """
    trajectory = await play(environment_of(text, base=Collecting))
    assert texts(trajectory) == ["given/1"]
    assert trajectory.outcome["files"] == "input.txt output.txt"
    assert trajectory.outcome["left"] == 0


async def test_the_program_gets_none_of_our_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    text = "call('a'); print(sorted(os.environ), os.environ['HOME'] == os.getcwd())"
    trajectory = await play(environment_of(text))
    assert "HF_TOKEN" not in output(trajectory)
    assert output(trajectory).endswith("True")


async def test_a_cancel_kills_the_whole_tree_of_processes(
    leftovers: set[str],
) -> None:
    text = """
    import subprocess, signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hard = "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    for is_apart in (True, False):
        subprocess.Popen([sys.executable, "-c", hard], start_new_session=is_apart)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    call("go")
    time.sleep(600)
    """
    environment = environment_of(text)
    asked = asyncio.Event()

    async def wait_for_ever(messages: object) -> str:
        asked.set()
        await asyncio.sleep(600)
        return ""

    async with environment:
        rollout = asyncio.ensure_future(environment.rollout(TASK, ScriptedModel(wait_for_ever)))
        await asyncio.wait_for(asked.wait(), 60)
        folder = _folder_of(leftovers)
        assert len(_processes_in(folder)) >= 4
        rollout.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await rollout
        assert not _processes_in(folder)
        assert not folder.exists()


async def test_a_killed_trainer_leaves_no_program_running(tmp_path: Path) -> None:
    text = """
import asyncio, sys, strop, tempfile
from tests.sdk.serve.intercept.programs import TASK, environment_of
tempfile.tempdir = sys.argv[1]
environment = environment_of("call('a'); time.sleep(600)")
asyncio.run(environment.rollout(TASK, strop.ScriptedModel.constant("on")))
"""
    root = Path(__file__).parents[4]
    trainer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", text, str(tmp_path), cwd=root
    )
    await until(lambda: any(tmp_path.glob("strop-agent-*")))
    folder = _folder_of({str(tmp_path)})
    await until(lambda: len(_processes_in(folder)) >= 2)
    trainer.kill()
    await trainer.wait()
    await until(lambda: not _processes_in(folder))


async def test_a_trainer_can_drive_a_program_by_hand() -> None:
    environment = environment_of(TWO_CALLS)
    async with environment, environment.start(TASK) as episode:
        said = []
        while not episode.is_ended:
            said.append(episode.messages[-1].text)
            await episode.step(Completion(Message("assistant", "yes")))
        trajectory = await episode.score()
    assert said == ["one", "two"]
    assert texts(trajectory) == ["yes", "yes"]
    assert trajectory.reward == 1.0


async def test_a_trainer_that_stops_half_way_leaves_nothing(leftovers: set[str]) -> None:
    environment = environment_of("call('a'); call('b')")
    async with environment, environment.start(TASK):
        folder = _folder_of(leftovers)
        assert _processes_in(folder)
    assert not _processes_in(folder)
    assert not folder.exists()


async def test_many_programs_share_one_address_and_keep_their_turns_apart() -> None:
    tasks = [Task(str(number), f"Task {number}.") for number in range(6)]

    class Named(Scripted):
        def program(self) -> Program:
            return Program([*super().program().argv, self.task.prompt[0].text])

    environment = environment_of("call(sys.argv[1]); call(sys.argv[1] + '!')", base=Named)
    async with environment:
        made = await asyncio.gather(*(environment.rollout(each, echo()) for each in tasks))
    for task, trajectory in zip(tasks, made, strict=True):
        words = task.prompt[0].text
        assert texts(trajectory) == [f"{words}/1", f"{words}!/1"]


async def test_an_author_without_a_program_is_told() -> None:
    environment = environment_of("")
    environment._episode = AgentEpisode
    trajectory = await play(environment, counter())
    assert trajectory.failure is not None
    assert "needs a method `program`" in trajectory.failure.message


@pytest.fixture
def leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """A folder for temporary files of its own, empty again after the test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield {str(tmp_path)}
    assert not list(tmp_path.iterdir())


def _folder_of(leftovers: set[str]) -> Path:
    (root,) = leftovers
    (folder,) = Path(root).glob("strop-agent-*")
    return folder


def _processes_in(folder: Path) -> list[int]:
    """Processes whose home is a folder, by what their variables say."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"HOME={folder}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found
