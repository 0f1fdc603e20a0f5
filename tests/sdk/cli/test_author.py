"""What `strop env init` writes passes its check and builds; what is wrong is named."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from strop.hub.archive import check_wheel
from strop.hub.manifest import read_project
from tests.sdk.cli.command import strop


def test_a_summary_of_ones_own_is_written_as_it_is(tmp_path: Path) -> None:
    summary = 'Say "back\\slash" — quoted'
    written = strop("env", "init", "maze", "--summary", summary, "--json", cwd=tmp_path)

    manifest = read_project(tmp_path / written.document["folder"])

    assert manifest.summary == summary


@pytest.mark.parametrize("template", ["single-turn", "tools"])
def test_what_init_writes_is_checked_built_and_tested(template: str, tmp_path: Path) -> None:
    written = strop("env", "init", "My.Maze", "--template", template, "--json", cwd=tmp_path)
    folder = tmp_path / written.document["folder"]

    checked = strop("env", "check", folder, "--json")
    built = strop("env", "build", folder, "--out", tmp_path / "out", "--no-isolation", "--json")
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
    )

    assert written.document["name"] == "my-maze"
    assert checked.code == 0, checked.stdout
    verdicts = {each["check"]: each["verdict"] for each in checked.document["findings"]}
    assert verdicts.pop("summary") == "warning"
    assert set(verdicts.values()) == {"ok"}
    facts = check_wheel(Path(built.document["wheel"]))
    assert (facts.name, facts.sha256) == ("my-maze", built.document["digest"])
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "3d", "class", "json", "strop", "ü"])
def test_a_bad_name_is_refused_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    refused = strop("env", "init", "--json", "--", name, cwd=tmp_path)

    assert refused.code == 1
    assert "invalid_ref" in refused.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "maze").mkdir()

    refused = strop("env", "init", "maze", "--json", cwd=tmp_path)

    assert refused.error["code"] == "config"
    assert list((tmp_path / "maze").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = strop("env", "init", "maze", "--folder", tmp_path / "file" / "maze", "--json")

    assert refused.error["code"] == "config"


@pytest.mark.parametrize("command", ["check", "build", "push"])
def test_a_folder_that_is_no_environment_is_named(command: str, tmp_path: Path) -> None:
    refused = strop("env", command, tmp_path, "--json", STROP_HUB="http://127.0.0.1:9")

    assert refused.error["code"] == "manifest"
    assert str(tmp_path) in refused.error["message"]


def test_everything_that_is_wrong_with_a_manifest_is_named_at_once(project: Path) -> None:
    path = project / "pyproject.toml"
    text = path.read_text().replace('category = "other"', 'category = "odd"\ncolour = "red"')
    path.write_text(text.replace('sandbox = "none"', ""))

    message = strop("env", "check", project, "--json").error["message"]

    for part in ("category", "colour", "sandbox"):
        assert part in message


def test_a_check_that_finds_something_exits_with_1_and_says_what(project: Path) -> None:
    module = project / "maze_env" / "__init__.py"
    module.write_text(module.read_text().replace("task: str(task.reference)", 'task: "no"'))

    shown = strop("env", "check", project)

    assert shown.code == 1
    assert "The check failed." in shown.stdout
    assert "oracle" in shown.stdout


NIM = """
    import random
    from strop import End, Environment, Episode, Task, TaskSet, reward

    class Nim(Episode):
        seats = {"first": True, "second": True}

        async def setup(self):
            self.left = self.task.reference
            self.tell("second", self.task.prompt[0])

        async def respond(self, completion):
            taken = completion.text.strip()
            if taken not in ("1", "2", "3") or int(taken) > self.left:
                return End()
            self.left -= int(taken)
            if self.left == 0:
                self.outcome["winner"] = self.due_seat
                return End()
            other = "second" if self.due_seat == "first" else "first"
            self.tell(other, taken)
            self.due_seat = other
            return []

    @reward(range=(0, 1), inline=True)
    def first_wins(trajectory):
        return float(trajectory.outcome.get("winner") == "first")

    @reward(seat="second", range=(0, 1), inline=True)
    def second_wins(trajectory):
        return float(trajectory.outcome.get("winner") == "second")

    def play(task):
        left, moves = task.reference, []
        while left:
            moves.append(left % 4 or 1)
            left -= moves[-1]
        return [str(move) for move in moves]

    def make_task(index, rng):
        count = 4 * rng.randint(1, 5) + rng.randint(1, 3)
        return Task(str(index), f"Take 1 to 3 of {count} stones; who takes the last wins.", count)

    def load_environment():
        return Environment(
            tasks=TaskSet.generate(make_task), rewards=[first_wins, second_wins],
            episode=Nim, oracle=play,
        )
"""


def test_an_environment_in_which_two_seats_play_each_other_passes_its_check(project: Path) -> None:
    module = project / "maze_env" / "__init__.py"
    module.write_text(textwrap.dedent(NIM))

    checked = strop("env", "check", project, "--json")
    module.write_text(module.read_text().replace("left % 4 or 1", "1"))
    careless = strop("env", "check", project, "--json")

    assert checked.code == 0, checked.stdout
    verdicts = {each["check"]: each["verdict"] for each in checked.document["findings"]}
    assert verdicts.pop("summary") == "warning"
    assert set(verdicts.values()) == {"ok"}
    failed = {e["check"] for e in careless.document["findings"] if e["verdict"] == "failed"}
    assert "oracle" in failed


def test_a_module_that_cannot_be_imported_is_a_finding(project: Path) -> None:
    (project / "maze_env" / "__init__.py").write_text("import nowhere_to_be_found")

    checked = strop("env", "check", project, "--json")

    assert checked.code == 1
    assert checked.document["is_ok"] is False
    assert "nowhere_to_be_found" in checked.document["findings"][0]["message"]
