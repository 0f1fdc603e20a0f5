"""The checks that an author runs find what they are for."""

import random
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strop import Completion, End, Environment, Episode, Task, TaskSet, Trajectory, reward
from strop.errors import SettingsError
from strop.mixture import Mixture
from strop.testing import (
    POLICIES,
    CheckReport,
    Finding,
    check_environment,
    check_project,
    scripted_policy,
)
from tests.sdk.trajectories import a_single_turn_environment, is_exact

GOOD = """
    from strop import Environment, Task, TaskSet, reward

    @reward(range=(0, 1), inline=True)
    def exact(trajectory):
        return float(trajectory.text == trajectory.task.reference)

    def make(index, rng):
        text = "".join(rng.choices("abcdef", k=8))
        return Task(str(index), f"Reverse: {text}", text[::-1])

    def load_environment():
        return Environment(
            tasks=TaskSet.generate(make), rewards=[exact], oracle=lambda task: task.reference
        )
"""


def a_project(folder: Path, code: str) -> Path:
    (folder / "toy_env.py").write_text(textwrap.dedent(code))
    return folder


def verdicts(report: CheckReport) -> dict[str, str]:
    return {finding.check: finding.verdict for finding in report.findings}


def oracle(task: Task) -> Any:
    return task.reference


async def check(environment: Environment, **options: Any) -> dict[str, Finding]:
    findings = await check_environment(environment, **options)
    return {finding.check: finding for finding in findings}


async def test_a_good_environment_passes_every_check() -> None:
    findings = await check(a_single_turn_environment(oracle=oracle), reward_range=(0, 1))

    assert {finding.verdict for finding in findings.values()} == {"ok"}


async def test_doubled_keys_are_found() -> None:
    tasks = [Task("1", "x", "y"), Task("1", "x", "y")]

    findings = await check(a_single_turn_environment(tasks=tasks))

    assert findings["keys"].verdict == "failed"
    assert "'1' stands twice" in findings["keys"].message


@pytest.mark.parametrize(
    "odd", [(1, 2), {1: 2}, {1, 2}, object()], ids=["tuple", "key", "set", "object"]
)
async def test_tasks_that_json_cannot_carry_are_found(odd: Any) -> None:
    tasks = [Task("1", "x", "y", {"odd": odd})]

    environment = a_single_turn_environment(tasks=tasks)

    assert (await check(environment))["tasks_serialise"].verdict == "failed"


async def test_a_missing_oracle_is_a_warning_and_a_wrong_one_a_failure() -> None:
    assert (await check(a_single_turn_environment()))["oracle"].verdict == "warning"
    wrong = await check(a_single_turn_environment(oracle=lambda task: "no"))
    assert wrong["oracle"].verdict == "failed"


async def test_a_reward_that_anything_earns_is_found() -> None:
    generous = reward(range=(0, 1), inline=True, name="generous")(lambda trajectory: 1.0)

    findings = await check(a_single_turn_environment(rewards=[generous], oracle=oracle))

    assert {findings[f"floor_{name}"].verdict for name in ("empty", "constant", "random")} == {
        "failed"
    }


async def test_a_reward_that_odd_replies_break_is_found() -> None:
    @reward(range=(0, 1), inline=True)
    def brittle(trajectory: Trajectory) -> float:
        return float(trajectory.text.encode() == b"x")

    findings = await check(a_single_turn_environment(rewards=[brittle]))

    assert findings["fuzz"].verdict == "failed"
    assert "surrogate" in findings["fuzz"].message


async def test_a_reward_outside_the_manifests_range_is_found() -> None:
    minus = reward(inline=True, name="minus")(lambda trajectory: -1.0)

    findings = await check(a_single_turn_environment(rewards=[minus]), reward_range=(0, 1))

    assert findings["fuzz"].verdict == "failed"


async def test_ranges_of_the_rewards_beyond_the_manifests_are_a_warning() -> None:
    @reward(range=(-1, 1), weight=2.0, inline=True)
    def double(trajectory: Trajectory) -> float:
        return float(trajectory.text == trajectory.task.reference)

    @reward(inline=True)
    def unbounded(trajectory: Trajectory) -> float:
        return 0.0

    def verdict(findings: list[Any]) -> tuple[str, str]:
        (found,) = [each for each in findings if each.check == "reward_range"]
        return found.verdict, found.message

    narrow = await check_environment(
        a_single_turn_environment(rewards=[double]), reward_range=(0.0, 2.0)
    )
    wide = await check_environment(
        a_single_turn_environment(rewards=[double]), reward_range=(-2.0, 2.0)
    )
    open_ended = await check_environment(
        a_single_turn_environment(rewards=[double, unbounded]), reward_range=(0.0, 2.0)
    )

    assert verdict(narrow)[0] == "warning"
    assert "allow -2 to 2" in verdict(narrow)[1]
    assert verdict(wide)[0] == "ok"
    assert verdict(open_ended) == (
        "skipped",
        "`unbounded` declares no range, so that the total's is not known",
    )


def a_mixture(**options: Any) -> Mixture:
    """Of few tasks, which begin anew many times before as many are drawn as are checked."""
    inner = Mixture({"x": a_single_turn_environment(oracle=oracle)})
    return Mixture({"plain": a_single_turn_environment(oracle=oracle, **options), "mixed": inner})


async def test_a_good_mixture_passes_every_check() -> None:
    for bounds in ((0, 1), None):
        findings = await check(a_mixture(), reward_range=bounds)
        assert {finding.verdict for finding in findings.values()} == {"ok"}


async def test_doubled_keys_within_a_part_of_a_mixture_are_found() -> None:
    findings = await check(a_mixture(tasks=[Task("1", "x", "y"), Task("1", "x", "y")]))

    assert findings["keys"].verdict == "failed"
    assert "'plain:1' stands twice" in findings["keys"].message


async def test_the_range_of_a_mixture_is_that_of_its_parts() -> None:
    @reward(range=(0, 1), weight=3, inline=True)
    def heavy(trajectory: Trajectory) -> float:
        return 0.0

    @reward(inline=True)
    def free(trajectory: Trajectory) -> float:
        return 0.0

    wide = await check(a_mixture(rewards=[heavy]), reward_range=(0, 1))
    unknown = await check(a_mixture(rewards=[free]), reward_range=(0, 1))

    assert wide["reward_range"].verdict == "warning"
    assert "allow 0 to 3" in wide["reward_range"].message
    assert unknown["reward_range"].verdict == "skipped"
    assert "`plain:free` declares no range" in unknown["reward_range"].message


async def test_an_oracle_above_the_manifests_range_is_found() -> None:
    environment = a_single_turn_environment(
        rewards=[is_exact], oracle=lambda task: str(task.reference)
    )

    findings = await check(environment, reward_range=(0, 0.5))

    assert findings["oracle"].verdict == "failed"
    assert "outside the manifest's reward-range, 0 to 0.5" in findings["oracle"].message


async def test_a_group_that_does_not_share_its_beginning_is_found() -> None:
    class Own(Episode):
        def messages_of(self, seat: str) -> Any:
            return [*super().messages_of(seat), *self.task.prompt[: random.randint(0, 1)]]

    for _ in range(20):
        findings = await check(a_single_turn_environment(episode=Own))
        if findings["group"].verdict == "failed":
            return
    raise AssertionError("twenty coin throws were equal")


async def test_an_outcome_that_json_cannot_carry_is_found() -> None:
    class Odd(Episode):
        async def respond(self, completion: Completion) -> End:
            self.outcome["odd"] = {1, 2}  # type: ignore[assignment]
            return End()

    findings = await check(a_single_turn_environment(episode=Odd))

    assert findings["floor_empty"].verdict == "failed"
    assert "`outcome['odd']` of `Odd` is no JSON" in findings["floor_empty"].message


async def test_an_environment_without_tasks_is_found() -> None:
    findings = await check(Environment(tasks=[], rewards=[is_exact]))

    assert findings["tasks"].verdict == "failed"


def test_a_good_project_passes(tmp_path: Path) -> None:
    report = check_project(
        a_project(tmp_path, GOOD),
        "toy_env:load_environment",
        reward_range=(0, 1),
        requirements=["strop>=0.1"],
    )

    assert report.is_ok, report
    assert set(verdicts(report).values()) == {"ok"}
    assert report.measures["import_cpu_s"] > 0
    assert report.measures["dependency_count"] == report.measures["dependency_bytes"] == 0
    assert CheckReport.from_json(report.to_json()) == report
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy_env.py"]


def test_chance_that_is_not_seeded_is_found(tmp_path: Path) -> None:
    code = GOOD.replace("rng.choices", "__import__('random').choices")

    report = check_project(a_project(tmp_path, code), "toy_env:load_environment")

    assert verdicts(report)["deterministic"] == "failed"
    relaxed = check_project(tmp_path, "toy_env:load_environment", is_deterministic=False)
    assert verdicts(relaxed)["deterministic"] == "skipped"


def test_an_order_of_sets_is_found(tmp_path: Path) -> None:
    code = GOOD.replace("text[::-1])", "text[::-1], {'order': list({'ab', 'cd', 'ef', 'gh'})})")

    report = check_project(a_project(tmp_path, code), "toy_env:load_environment")

    assert verdicts(report)["deterministic"] == "failed"


@pytest.mark.parametrize(
    ("line", "check", "told"),
    [
        ("import threading; threading.Timer(600, print).start()", "import", "threads"),
        ("import subprocess; child = subprocess.Popen(['sleep', '30'])", "import", "child"),
        ("kept = open('/etc/hostname')", "import", "files"),
        ("import socket; kept = socket.socket()", "import", "sockets"),
        ("import logging; logging.basicConfig()", "import", "log handlers"),
        ("import signal; signal.signal(signal.SIGTERM, print)", "import", "signal handlers"),
        ("import os; os.chdir('/')", "import", "working folder"),
    ],
)
def test_what_importing_starts_is_found(tmp_path: Path, line: str, check: str, told: str) -> None:
    report = check_project(
        a_project(tmp_path, f"{line}\n{textwrap.dedent(GOOD)}"), "toy_env:load_environment"
    )

    assert verdicts(report)[check] == "failed"
    assert any(told in finding.message for finding in report.findings)


@pytest.mark.parametrize(
    "code",
    ["open('left.txt', 'w').close()", "import tempfile; tempfile.mkdtemp()"],
    ids=["beside", "temporary"],
)
def test_files_that_are_left_behind_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    loader = f"def load_environment():\n        {code}"
    text = GOOD.replace("def load_environment():", loader)

    report = check_project(a_project(tmp_path, text), "toy_env:load_environment")

    assert verdicts(report)["files"] == "failed"


def test_files_that_are_removed_again_are_no_fault(tmp_path: Path) -> None:
    code = "import tempfile\n        with tempfile.NamedTemporaryFile() as f: f.write(b'x')"
    text = GOOD.replace("def load_environment():", f"def load_environment():\n        {code}")

    report = check_project(a_project(tmp_path, text), "toy_env:load_environment")

    assert verdicts(report)["files"] == "ok"


def test_reaching_for_a_network_is_found(tmp_path: Path) -> None:
    code = GOOD.replace(
        "def load_environment():",
        "def load_environment():\n"
        "        import socket\n"
        "        try: socket.getaddrinfo('data.example.invalid', 443)\n"
        "        except OSError: pass",
    )

    report = check_project(a_project(tmp_path, code), "toy_env:load_environment")

    assert verdicts(report)["network"] == "failed"
    assert any("data.example.invalid" in finding.message for finding in report.findings)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import not_there", "not_there"),
        ("def load_environment(: pass", "SyntaxError"),
        ("x = 1", "load_environment"),
        ("import os; os._exit(7)", "exit code 7"),
        ("raise SystemExit('no')", "SystemExit|exit code"),
    ],
)
def test_what_cannot_be_loaded_is_told(tmp_path: Path, code: str, told: str) -> None:
    report = check_project(a_project(tmp_path, code), "toy_env:load_environment")

    assert not report.is_ok
    assert any(part in report.findings[0].message for part in told.split("|"))


@pytest.mark.parametrize("name", list(POLICIES))
async def test_every_policy_plays(name: str) -> None:
    environment = a_single_turn_environment(oracle=oracle)
    model = scripted_policy(name, environment)

    trajectory = await environment.rollout(environment.tasks["train"][0], model)

    assert trajectory.failure is None
    assert trajectory.segments[1].model == f"scripted:{name}"


async def test_the_mixed_policy_is_right_at_times() -> None:
    environment = a_single_turn_environment(oracle=oracle)
    model = scripted_policy("mixed", environment)

    rewards = [
        (await environment.rollout(task, model)).reward for task in environment.tasks["train"]
    ]

    assert {0.0, 1.0} == set(rewards)


def test_an_unknown_policy_and_a_missing_oracle_are_told() -> None:
    environment = a_single_turn_environment()
    with pytest.raises(SettingsError, match="Choose one of: oracle, mixed"):
        scripted_policy("clever", environment)
    with pytest.raises(SettingsError, match="declares no oracle"):
        scripted_policy("oracle", environment)


async def test_an_oracle_may_play_several_turns() -> None:
    class Twice(Episode):
        async def respond(self, completion: Completion) -> str | End:
            self.outcome["last"] = completion.text
            return End() if self.turn_count == 2 else "And?"

    @reward(range=(0, 1), inline=True)
    def both(trajectory: Trajectory) -> bool:
        return trajectory.outcome["last"] == "second"

    script: Callable[[Task], list[str]] = lambda task: ["first", "second"]  # noqa: E731
    environment = Environment(
        tasks=TaskSet([Task("1", "Go")]), rewards=[both], episode=Twice, oracle=script
    )

    assert (await check(environment, reward_range=(0, 1)))["oracle"].verdict == "ok"
