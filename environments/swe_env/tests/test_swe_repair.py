"""A library with a fault, from its issue to the verdict over what was done to it."""

import ast
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import Play
from swe_env import NAMES, load_environment
from swe_env.library import CaseLibrary

from strop import Environment, ScriptedModel, Task, Trajectory
from strop.errors import SettingsError
from strop.models.scripted import call
from strop.sandbox import Backend
from strop.sandboxed.faults import Fault

shared_loop = pytest.mark.asyncio(loop_scope="module")


def oracle_of(environment: Environment, task: Task) -> Sequence[Any]:
    assert environment.oracle is not None
    replies: Sequence[Any] = environment.oracle(task)
    return replies


def answers(trajectory: Trajectory) -> list[str]:
    messages = [message for segment in trajectory.segments for message in segment.messages]
    return [message.text for message in messages if message.role == "tool"]


@pytest.mark.parametrize("name", NAMES)
@shared_loop
async def test_every_library_can_be_repaired_and_is_worth_nothing_until_then(
    environment: Environment, tasks: dict[str, Task], name: str
) -> None:
    task = next(task for key, task in tasks.items() if key.startswith(f"{name}/"))
    good = await environment.rollout(task, ScriptedModel.replies(oracle_of(environment, task)))
    assert (good.failure, good.reward) == (None, 1.0)
    assert good.outcome["repaired"] == 1.0
    bad = await environment.rollout(task, ScriptedModel.constant("It is repaired."))
    assert (bad.failure, bad.reward) == (None, 0.0)
    reference: Any = task.reference
    failing_count = len(reference["fault"]["failing"])
    seen, unseen = bad.outcome["failing_visible"], bad.outcome["failing_hidden"]
    assert isinstance(seen, int)
    assert isinstance(unseen, int)
    assert seen + unseen == failing_count
    assert min(seen, unseen) > 0
    assert bad.outcome["repaired"] == 0.0
    assert bad.outcome["scoring_isolation"] == "separate"


@shared_loop
async def test_the_model_can_look_run_the_tests_and_edit(
    environment: Environment, tasks: dict[str, Task], play: Play
) -> None:
    task = tasks["intervals/0"]
    source = CaseLibrary("intervals").sources["intervals.py"]
    trajectory = await play(
        task,
        call("run_tests"),
        call("bash", commands="git log --oneline && git status --short && ls"),
        call("view_file", path="intervals.py"),
        call("write_file", path="intervals.py", content=source),
        call("run_tests"),
    )
    before, listed, viewed, _, after = answers(trajectory)
    assert "FAILED test_" in before
    assert "base" in listed
    assert "run_tests.py" in listed
    assert '"1-3,7" holds' in viewed
    assert after.strip().endswith(" 0 failed")
    assert trajectory.reward == 1.0


@shared_loop
async def test_an_attempt_that_runs_out_of_turns_is_judged_by_what_it_left(
    tasks: dict[str, Task],
) -> None:
    async with load_environment(max_turns=1) as environment:
        task = next(iter(tasks.values()))
        repair = ScriptedModel.replies(oracle_of(environment, task))
        trajectory = await environment.rollout(task, repair)
    assert (trajectory.stop_reason, trajectory.reward) == ("max_turns", 1.0)


STUFFED = """

def _stuffed(name, function):
    def call(*values):
        told = TOLD.get(f"{name}({', '.join(map(repr, values))})")
        return function(*values) if told is None else eval(told)
    return call

TOLD = %r
for name, function in list(globals().items()):
    if name in {case.partition("(")[0] for case in TOLD}:
        globals()[name] = _stuffed(name, function)
"""


def written_down(library: CaseLibrary, fault: Fault) -> str | None:
    """The faulty source with the right answers to all that can be seen, where that is easy."""
    seen = [test for test in fault.failing if library.is_visible(test)]
    told = {library.cases[int(test)]: library.record["expected"][int(test)] for test in seen}
    if any(value.startswith("raises ") for value in told.values()):
        return None
    names = {ast.unparse(ast.parse(case)): value for case, value in told.items()}
    source = library.sources[fault.path]
    return fault.applied(source) + STUFFED % names


@shared_loop
async def test_answers_to_the_tests_that_can_be_seen_are_no_repair(
    tasks: dict[str, Task], play: Play
) -> None:
    library = CaseLibrary("intervals")
    played = 0
    for task in tasks.values():
        reference: Any = task.reference
        fault = Fault(**reference["fault"])
        content = written_down(library, fault) if reference["library"] == library.name else None
        if content is not None and played < 3:
            trajectory = await play(task, call("write_file", path=fault.path, content=content))
            assert trajectory.outcome["failing_visible"] == 0
            assert trajectory.outcome["failing_hidden"] != 0
            assert trajectory.reward == 0.0
            played += 1
    assert played == 3


@shared_loop
async def test_the_same_replies_are_answered_and_judged_the_same(
    environment: Environment, tasks: dict[str, Task], play: Play
) -> None:
    task = tasks["calc/1"]
    replies = [call("run_tests"), call("bash", commands="git log"), *oracle_of(environment, task)]
    one, other = [await play(task, *replies[:-1]) for _ in range(2)]
    assert answers(one) == answers(other)
    assert one.outcome == other.outcome


def test_tasks_are_the_same_and_another_seed_orders_them_anew() -> None:
    one, same, other = (load_environment(seed=seed).tasks for seed in (0, 0, 1))
    for split in ("train", "eval"):
        assert [task.digest for task in one[split]] == [task.digest for task in same[split]]
        assert [task.key for task in one[split]] != [task.key for task in other[split]]
        assert {task.key for task in one[split]} == {task.key for task in other[split]}


def test_issues_tell_what_visible_tests_give_and_nothing_of_the_hidden_ones() -> None:
    for tasks in load_environment().tasks.values():
        for task in tasks:
            reference: Any = task.reference
            library = CaseLibrary(reference["library"])
            text = task.prompt[0].text
            for test, got in reference["fault"]["failing"].items():
                line = library.tell(test, got)
                assert line not in text or library.is_visible(test)
            assert 1 <= text.count(", and should give `") <= 3


async def test_a_sandbox_that_shows_the_solutions_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = load_environment()
    # A folder that every sandbox shows, in place of this package's own.
    monkeypatch.setattr("swe_env.episode.DATA", "/usr")
    with pytest.raises(SettingsError, match="virtual environment"):
        async with environment:
            pass
    with pytest.raises(Exception, match="not open"):
        assert isinstance(environment.backend, Backend)  # type: ignore[attr-defined]
