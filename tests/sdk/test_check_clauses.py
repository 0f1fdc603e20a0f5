"""One thing is wrong with each environment, and the check names it."""

import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from strop import (
    End,
    Environment,
    Episode,
    Reward,
    Task,
    Trajectory,
    group_reward,
    reward,
    turn_reward,
)
from strop.mixture import Mixture
from strop.testing import CheckReport, check_environment, check_project
from strop.testing.probes import probe_environment
from strop.testing.worker import MOST_IMPORT_CPU_S, MOST_IMPORT_S

TOOLS = """
    import random
    from strop import End, Environment, Episode, Task, reward, tool

    COUNT = 0

    class Dice(Episode):
        async def setup(self):
            self.outcome["sum"] = 0

        @tool
        def roll(self, sides: int) -> int:
            return LINE

        async def respond(self, completion):
            return End()

    @reward(range=(0, 1), inline=True)
    def high(trajectory):
        return float(trajectory.outcome["sum"] == 99)

    def load_environment():
        return Environment(
            tasks=[Task(str(n), "Roll", n) for n in range(2)], rewards=[high], episode=Dice
        )
"""
PLAIN = """
    import os
    from strop import Environment, Task, reward

    SEEN = []

    @reward(range=(0, 1), inline=True)
    def right(trajectory):
        return LINE

    def load_environment():
        return Environment(
            tasks=[Task(str(n), "x", "y") for n in range(2)],
            rewards=[right],
            oracle=lambda task: "y",
        )
"""


def checked(folder: Path, code: str, **options: Any) -> CheckReport:
    (folder / "toy_env.py").write_text(textwrap.dedent(code))
    return check_project(folder, "toy_env:load_environment", reward_range=(0, 1), **options)


def found(report: CheckReport, check: str) -> tuple[str, str]:
    (finding,) = [each for each in report.findings if each.check == check]
    return finding.verdict, finding.message


def test_chance_in_a_tools_answer_is_named_with_task_and_policy(tmp_path: Path) -> None:
    report = checked(tmp_path, TOOLS.replace("LINE", "random.randint(1, 10**9)"))

    for check in ("repeats", "deterministic"):
        verdict, message = found(report, check)
        assert verdict == "failed"
        assert "first on task '0' of 'train' under the random policy" in message
    assert found(report, "fuzz_calls")[0] == "ok"


def test_the_episodes_own_chance_is_no_fault(tmp_path: Path) -> None:
    report = checked(tmp_path, TOOLS.replace("LINE", "self.rng.randint(1, 10**9)"))

    assert report.is_ok, report
    assert found(report, "repeats")[0] == found(report, "deterministic")[0] == "ok"


def test_what_attempts_leave_behind_for_others_is_named(tmp_path: Path) -> None:
    line = "SEEN.append(1) or min(1.0, len(SEEN) / 10**6)"

    report = checked(tmp_path, PLAIN.replace("LINE", line), is_deterministic=True)

    verdict, message = found(report, "repeats")
    assert verdict == "failed"
    assert "in its episode" in message


def test_a_reward_that_hangs_on_the_process_is_named(tmp_path: Path) -> None:
    line = "float(trajectory.text == 'y') or int(os.environ['PYTHONHASHSEED']) / 10"

    report = checked(tmp_path, PLAIN.replace("LINE", line))

    assert found(report, "repeats")[0] == "ok"
    verdict, message = found(report, "deterministic")
    assert verdict == "failed"
    assert "first on task '0' of 'train' under the random policy" in message


def test_an_oracle_that_fails_early_is_not_taken_for_chance(tmp_path: Path) -> None:
    line = "float(trajectory.text == 'y' and trajectory.task.key == '1')"

    report = checked(tmp_path, PLAIN.replace("LINE", line))

    verdict, message = found(report, "oracle")
    assert (verdict, "On task '0' of 'train' the oracle scores 0.0" in message) == ("failed", True)
    for check in ("repeats", "deterministic"):
        verdict, message = found(report, check)
        assert verdict == "skipped", message
        assert "but task '1' of 'train' under the oracle policy was not" in message


async def test_chance_is_told_also_where_the_oracle_failed_before() -> None:
    seen: list[int] = []

    @reward(range=(0, 1), inline=True)
    def odd(trajectory: Trajectory) -> float:
        seen.append(1)
        return len(seen) / 1e6

    tasks = [Task(key, "x", "y") for key in ("0", "1")]
    environment = Environment(tasks=tasks, rewards=[odd], oracle=_answer)
    findings, _ = await probe_environment(environment, (0, 1), is_deterministic=True)
    told = {finding.check: finding for finding in findings}

    assert told["oracle"].verdict == told["repeats"].verdict == "failed"
    assert "gives another result, first on task '0'" in told["repeats"].message


async def test_members_that_share_a_reward_leave_all_to_be_compared() -> None:
    @group_reward(range=(0, 1))
    def shared(members: list[Trajectory]) -> list[float]:
        return [0.5 * (member.text == "y") for member in members]

    tasks = [Task(key, "x", "y") for key in ("0", "1")]
    environment = Environment(tasks=tasks, rewards=[shared], oracle=_answer)
    findings, _ = await probe_environment(environment, None, is_deterministic=True)
    told = {finding.check: finding for finding in findings}

    assert (told["oracle"].verdict, told["oracle"].reward) == ("warning", 0.5)
    assert told["repeats"].verdict == "ok", told["repeats"]


class Listing(Episode):
    """Puts into its outcome what rewards may be tempted to change."""

    async def setup(self) -> None:
        self.outcome["seen"] = ["b", "a"]


def _nothing(trajectory: Trajectory) -> float:
    return 0.0


def _sorts(trajectory: Trajectory) -> float:
    seen: Any = trajectory.outcome["seen"]
    seen.sort()
    return 0.0


def _empties(trajectory: Trajectory) -> float:
    reference: Any = trajectory.task.reference
    reference.clear()
    return 0.0


def _marks_and_raises(trajectory: Trajectory) -> float:
    trajectory.outcome["scored"] = True
    raise ValueError("no")


async def _waits_and_marks(trajectory: Trajectory) -> float:
    trajectory.outcome["scored"] = True
    return 0.0


def _marks_members(trajectories: list[Trajectory]) -> list[float]:
    for each in trajectories:
        each.outcome["compared"] = True
    return [0.0 for _ in trajectories]


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (reward(_sorts), "_sorts"),
        (reward(_empties), "_empties"),
        (reward(inline=True)(_marks_and_raises), "_marks_and_raises"),
        (reward(_waits_and_marks), "_waits_and_marks"),
        (group_reward(_marks_members), "_marks_members"),
        (turn_reward(lambda trajectory: [_sorts(trajectory)]), "<lambda>"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_reward_that_changes_its_record_is_named(made: Reward, name: str) -> None:
    tasks = [Task("0", "x", ["y"])]
    environment = Environment(tasks=tasks, rewards=[made, reward(_nothing)], episode=Listing)
    plain = environment.rubric

    verdict, message = (await verdicts(environment))["pure"]

    assert verdict == "failed"
    assert f"On task '0' of 'train' the reward function `{name}` changes" in message
    assert environment.rubric is plain


async def test_a_reward_of_a_mixtures_part_that_changes_its_record_is_named() -> None:
    tasks = [Task("0", "x", ["y"])]
    part = Environment(tasks=tasks, rewards=[reward(_sorts)], episode=Listing)

    verdict, message = (await verdicts(Mixture({"part": part})))["pure"]

    assert verdict == "failed"
    assert "the reward function `part:_sorts` changes" in message


async def test_a_live_reward_may_still_add_to_the_outcome() -> None:
    @reward(live=True, range=(0, 1))
    def noted(trajectory: Trajectory, episode: Episode) -> float:
        episode.outcome["noted"] = True
        return 0.0

    tasks = [Task("0", "x", ["y"])]
    told = await verdicts(Environment(tasks=tasks, rewards=[noted], episode=Listing))

    assert told["pure"] == ("ok", "Reward functions leave records as they are")


@pytest.mark.slow
def test_an_import_that_computes_is_named(tmp_path: Path) -> None:
    begin = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
    code = textwrap.dedent(PLAIN.replace("LINE", "float(trajectory.text == 'y')"))

    slow = checked(tmp_path, begin.format(MOST_IMPORT_CPU_S) + code, is_deterministic=False)

    verdict, message = found(slow, "import_time")
    assert verdict == "warning"
    assert "more than 2 s or 5 s" in message
    assert slow.measures["import_cpu_s"] >= MOST_IMPORT_CPU_S
    assert slow.is_ok


def test_an_import_that_waits_is_named(tmp_path: Path) -> None:
    code = textwrap.dedent(PLAIN.replace("LINE", "float(trajectory.text == 'y')"))

    waiting = f"import time\ntime.sleep({MOST_IMPORT_S})\n" + code
    started = time.monotonic()
    report = checked(tmp_path, waiting, is_deterministic=False)

    assert time.monotonic() - started >= MOST_IMPORT_S
    assert found(report, "import_time")[0] == "warning"
    assert report.measures["import_cpu_s"] < report.measures["import_s"]


def test_dependencies_that_are_not_there_are_named(tmp_path: Path) -> None:
    code = PLAIN.replace("LINE", "float(trajectory.text == 'y')")

    report = checked(
        tmp_path, code, is_deterministic=False, requirements=["strop", "no-such-thing>=2"]
    )
    unknown = checked(tmp_path, code, is_deterministic=False)

    verdict, message = found(report, "dependencies")
    assert verdict == "warning"
    assert "no-such-thing>=2" in message
    assert report.measures["missing_dependency_count"] == 1
    assert found(unknown, "dependencies")[0] == "skipped"
    assert "dependency_count" not in unknown.measures


@reward(range=(0, 1), inline=True)
def right(trajectory: Trajectory) -> float:
    return float(trajectory.text == "y")


async def verdicts(environment: Environment) -> dict[str, tuple[str, str]]:
    findings = await check_environment(environment, reward_range=(0, 1))
    return {each.check: (each.verdict, each.message) for each in findings}


async def test_members_with_seeds_of_their_own_are_named() -> None:
    class Own(Episode):
        @property
        def seed(self) -> int:
            return self.attempt.member

    told = await verdicts(
        Environment(tasks=[Task("0", "x", "y")], rewards=[right], episode=Own, oracle=_answer)
    )

    assert told["group"][0] == "failed"
    assert "different seeds" in told["group"][1]
    assert "On task '0' of 'train'" in told["group"][1]


async def test_a_constant_answer_at_the_maximum_is_named() -> None:
    @reward(range=(0, 1), inline=True)
    def polite(trajectory: Trajectory) -> float:
        return float("know" in trajectory.text or trajectory.text == "y")

    told = await verdicts(
        Environment(tasks=[Task("0", "x", "y")], rewards=[polite], oracle=_answer)
    )

    assert told["floor_constant"][0] == "failed"
    assert "The constant policy scores 1" in told["floor_constant"][1]
    assert told["floor_empty"][0] == told["oracle"][0] == "ok"


async def test_the_mean_rewards_of_the_policies_are_kept() -> None:
    findings = await check_environment(
        Environment(tasks=[Task("0", "x", "y")], rewards=[right], oracle=_answer)
    )

    rewards = {each.check: each.reward for each in findings if each.reward is not None}
    assert rewards == {"oracle": 1, "floor_empty": 0, "floor_constant": 0, "floor_random": 0}


async def test_a_reward_that_compares_members_is_scored_with_its_group() -> None:
    @group_reward(range=(0, 1))
    def best(members: list[Trajectory]) -> list[float]:
        right = [member.text == "y" for member in members]
        return [float(each) / max(1, sum(right)) for each in right]

    class Short(Episode):
        async def respond(self, completion: Any) -> End:
            return End()

    told = await verdicts(
        Environment(tasks=[Task("0", "x", "y")], rewards=[best], episode=Short, oracle=_answer)
    )

    assert told["oracle"][0] == "warning"
    assert "scores 0.5, not 1" in told["oracle"][1]
    assert {told[name][0] for name in ("floor_empty", "floor_random", "fuzz", "fuzz_calls")} == {
        "ok"
    }


@pytest.mark.parametrize(
    ("value", "told"), [("nan", "nan"), ("inf", "inf"), ("2.0", "outside"), ("-1.0", "outside")]
)
async def test_numbers_that_are_no_rewards_are_named(value: str, told: str) -> None:
    @reward(inline=True)
    def odd(trajectory: Trajectory) -> float:
        return float(value)

    findings = await verdicts(Environment(tasks=[Task("0", "x", "y")], rewards=[odd]))

    for check in ("floor_empty", "floor_random", "fuzz", "fuzz_calls"):
        assert findings[check][0] == "failed", check
        assert told in findings[check][1]


def _answer(task: Task) -> str:
    return str(task.reference)
