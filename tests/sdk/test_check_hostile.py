"""The check of a project outlives whatever that project does, and says what it was."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from strop.testing import CheckReport, check_project
from tests.sdk.published import MODULE

GOOD = MODULE.format(answer="42")


def checked(folder: Path, code: str) -> CheckReport:
    (folder / "toy_env.py").write_text(code)
    return check_project(folder, "toy_env:load_environment", is_deterministic=False)


def verdict(report: CheckReport, name: str) -> tuple[str, str]:
    (found,) = [each for each in report.findings if each.check == name]
    return found.verdict, found.message


def ends(pid_file: Path) -> bool:
    """Whether the process of a number in a file is gone, or soon is."""
    state = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    deadline = time.monotonic() + 120
    while state.exists() and " Z " not in state.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not state.exists() or " Z " in state.read_text()


DEADLY = {
    "leaves at its import": ("import os\nos._exit(0)\n", "exit code 0"),
    "leaves with a number": ("import os\nos._exit(7)\n", "exit code 7"),
    "crashes": ("import ctypes\nctypes.string_at(0)\n", "exit code -11"),
    "kills itself": ("import os\nos.kill(os.getpid(), 9)\n", "exit code -9"),
    "says why": ("import sys, os\nprint('my cause', flush=True)\nos._exit(1)\n", "my cause"),
    "leaves when it is loaded": (
        "import os\ndef load_environment():\n    os._exit(5)\n",
        "exit code 5",
    ),
    "raises": ("raise LookupError('my cause')\n", "LookupError: my cause"),
    "has no function": ("x = 1\n", "load_environment"),
    "returns nothing": ("def load_environment(): ...\n", "NoneType"),
    "is no Python": ("def load_environment(:\n", "SyntaxError"),
}


@pytest.mark.parametrize("case", DEADLY)
def test_a_project_that_ends_its_process_is_told_with_its_last_words(
    case: str, tmp_path: Path
) -> None:
    code, said = DEADLY[case]

    report = checked(tmp_path, code)

    assert not report.is_ok
    found, message = verdict(report, "loads")
    assert found == "failed"
    assert said in message
    assert len(message) < 3000


@pytest.mark.parametrize(
    "code",
    [
        "print('{}')\n" + GOOD,
        "print('x' * 1_000_000)\n" + GOOD,
        "import os\nos.close(1)\nos.close(2)\n" + GOOD,
        "import sys\nsys.stdout = sys.stderr = None\n" + GOOD,
        "import sys\nsys.path.clear()\n" + GOOD,
        "import random\nrandom.seed(1)\n" + GOOD,
        "import os\nos.environ.clear()\n" + GOOD,
        "import sys\nsys.setrecursionlimit(300)\n" + GOOD,
    ],
    ids=range(8),
)
def test_odd_manners_of_a_module_do_not_spoil_its_check(code: str, tmp_path: Path) -> None:
    report = checked(tmp_path, code)

    assert verdict(report, "loads")[0] == "ok"
    assert verdict(report, "fuzz")[0] == "ok"


LEFT = {
    "thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n",
    "child processes": "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n",
    "sockets": "import socket\nopened = socket.socket()\n",
    "log handlers": "import logging\nlogging.basicConfig()\n",
    "signal handlers": "import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)\n",
    "working folder": "import os\nos.chdir('/')\n",
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_an_import_starts_opens_or_changes_is_named_and_ended(
    kind: str, tmp_path: Path
) -> None:
    started_at = time.monotonic()

    report = checked(tmp_path, LEFT[kind] + GOOD)

    assert time.monotonic() - started_at < 200
    found, message = verdict(report, "import")
    assert found == "failed"
    assert kind in message
    assert not report.is_ok


ORPHANS = {
    "of a shell": "os.system('sleep 62 & echo $! > {pid}')",
    "in a session of its own": "os.system('setsid sleep 62 & echo $! > {pid}')",
    "of a thread": "thread = threading.Thread(target=lambda: open('{pid}', 'w').write(str("
    "subprocess.Popen(['sleep', '62']).pid)))\nthread.start()\nthread.join()",
}


@pytest.mark.parametrize("kind", ORPHANS)
def test_a_process_whose_parent_has_gone_is_named_and_ended(kind: str, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    start = ORPHANS[kind].format(pid=pid_file)

    report = checked(tmp_path, f"import os, subprocess, threading\n{start}\n{GOOD}")

    found, message = verdict(report, "left_behind")
    assert found == "failed"
    assert "sleep 62" in message
    assert ends(pid_file)


def test_a_child_that_a_project_leaves_running_is_ended_with_the_check(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"""
import subprocess
child = subprocess.Popen(["sleep", "61"])
open({str(pid_file)!r}, "w").write(str(child.pid))
"""

    checked(tmp_path, code + GOOD)

    assert ends(pid_file)


def test_a_file_that_is_left_behind_is_named(tmp_path: Path) -> None:
    left = tmp_path / "left.txt"

    report = checked(tmp_path, f"open({str(left)!r}, 'w').close()\n" + GOOD)

    found, message = verdict(report, "files")
    assert found == "failed"
    assert "left.txt" in message


@pytest.mark.parametrize(
    "body",
    [
        "raise SystemExit(0)",
        "raise RecursionError",
        "raise MemoryError",
        "return float('nan')",
        "return 10**400",
        "return None",
        "return 'x'",
        "return 2.0",
    ],
)
def test_a_grader_that_gives_no_number_of_its_range_is_named(body: str, tmp_path: Path) -> None:
    code = GOOD.replace("return float(trajectory.text == ANSWER)", body)
    assert code != GOOD

    report = checked(tmp_path, code)

    assert not report.is_ok
    found, message = verdict(report, "fuzz")
    assert found == "failed"
    assert "is_right" in message


@pytest.mark.parametrize("name", ["with space", "größe \U0001f600", "-dash"])
def test_a_folder_of_any_name_is_checked(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()

    assert verdict(checked(folder, GOOD), "loads")[0] == "ok"


def test_checks_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from strop.testing import check_project
report = check_project(Path(sys.argv[1]), "toy_env:load_environment", is_deterministic=True)
print(report.is_ok, [f.message for f in report.findings if f.verdict == "failed"])
"""
    (tmp_path / "toy_env.py").write_text(GOOD)

    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [child.communicate(timeout=200)[0] for child in children]

    assert said == ["True []\n"] * 3
