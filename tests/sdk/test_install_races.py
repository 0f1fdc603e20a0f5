"""Installing where others install too, where the last one was killed, and where nothing fits."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from strop.errors import InstallError
from strop.hub.installing.record import InstallRecord, inspect_installation, write_install_record
from strop.hub.installing.target import Target, installation, read_target
from tests.descriptors import open_descriptors

MARKER = ".strop-install-in-progress"
LONG_AGO = 1_000_000_000.0


@pytest.fixture
def target(tmp_path: Path) -> Target:
    folder = tmp_path / "site"
    folder.mkdir()
    return Target(Path(sys.executable), "3.11.0", folder, True, {})


def half_installed(target: Target, name: str = "maze") -> Path:
    """What an installer leaves while it copies: metadata without its RECORD."""
    dist_info = target.folder / f"{name}-0.1.0.dist-info"
    (dist_info / "licenses").mkdir(parents=True)
    (dist_info / "METADATA").write_text(f"Name: {name}\nVersion: 0.1.0\n")
    (dist_info / "licenses" / "LICENSE").write_text("MIT\n")
    return dist_info


INSTALLER = """
import sys, time
from pathlib import Path
from strop.hub.installing.target import Target, installation
folder, log, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
with installation(Target(Path(sys.executable), "3.11.0", folder, True, {})):
    with log.open("a") as file:
        file.write(f"{name} in\\n")
    print("in", flush=True)
    time.sleep(0.1)
    sys.stdin.read()
    with log.open("a") as file:
        file.write(f"{name} out\\n")
"""


def installer(target: Target, log: Path, name: str) -> "subprocess.Popen[str]":
    """Stays until its input ends."""
    command = [sys.executable, "-c", INSTALLER, str(target.folder), str(log), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_two_installers_take_turns(target: Target, tmp_path: Path) -> None:
    log = tmp_path / "log"

    children = [installer(target, log, name) for name in "abc"]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
    codes = [child.wait(120) for child in children]
    for child in children:
        assert child.stdout is not None
        child.stdout.close()

    lines = log.read_text().split("\n")[:-1]
    assert codes == [0, 0, 0]
    # Whoever comes in goes out before the next comes in.
    for entered, left in zip(lines[::2], lines[1::2], strict=True):
        assert entered.removesuffix(" in") == left.removesuffix(" out")
    assert list(target.folder.iterdir()) == []


def test_what_another_installer_is_copying_is_left_alone(target: Target, tmp_path: Path) -> None:
    with installer(target, tmp_path / "log", "a") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in\n"
        # The first one has begun to copy, and will write its RECORD only at the end.
        dist_info = half_installed(target)
        seen: list[bool] = []

        def come_second() -> None:
            with installation(target):
                seen.append((dist_info / "METADATA").exists())

        second = threading.Thread(target=come_second)
        second.start()
        time.sleep(0.2)
        assert seen == []
        (dist_info / "RECORD").write_text("")
        child.communicate(timeout=120)
        second.join(60)

    assert seen == [True]


def test_what_a_killed_installer_left_is_removed_by_the_next(
    target: Target, tmp_path: Path
) -> None:
    with installer(target, tmp_path / "log", "a") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in\n"
        dist_info = half_installed(target)
        whole = half_installed(target, "whole")
        (whole / "RECORD").write_text("")
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert (target.folder / MARKER).exists()

    with installation(target):
        assert not dist_info.exists()
        assert whole.exists()
    assert not (target.folder / MARKER).exists()


def test_what_lay_there_before_the_killed_one_began_is_left_alone(target: Target) -> None:
    old = half_installed(target)
    (target.folder / MARKER).touch()
    os.utime(old, (LONG_AGO, LONG_AGO))

    with installation(target):
        assert old.exists()


def test_a_link_in_a_half_installed_package_is_removed_and_not_followed(
    target: Target, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    (target.folder / MARKER).touch()
    os.utime(target.folder / MARKER, (LONG_AGO, LONG_AGO))
    dist_info = half_installed(target)
    (dist_info / "link").symlink_to(precious)

    with installation(target):
        assert not dist_info.exists()
    assert (precious / "file").read_text() == "keep"


@pytest.mark.parametrize(
    ("error", "is_marked"), [(InstallError("x"), False), (RuntimeError("x"), True)]
)
def test_only_what_may_have_left_half_a_package_leaves_the_marker(
    error: Exception, is_marked: bool, target: Target
) -> None:
    with pytest.raises(type(error)), installation(target):
        raise error

    assert (target.folder / MARKER).exists() == is_marked
    # The lock is free in any case.
    with installation(target):
        assert (target.folder / MARKER).exists()
    assert not (target.folder / MARKER).exists()


def test_no_descriptor_is_left_open(target: Target) -> None:
    before = open_descriptors()

    for _ in range(5):
        with installation(target):
            pass

    assert open_descriptors() <= before


def test_a_folder_that_is_not_there_is_named_with_the_way_out(target: Target) -> None:
    target.folder.rmdir()

    with pytest.raises(InstallError, match=r"cannot be written.*--python"), installation(target):
        pass


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    return tmp_path / "python"


PRINTING = {
    "nothing": "",
    "a word": "echo hello",
    "half of JSON": "echo '{\"python\":'",
    "JSON of another shape": "echo '[]'",
    "null": "echo null",
    "an object without packages": "echo '{}'",
    "packages that are none": 'echo \'{"packages": [1], "python": "3", "folder": "/"}\'',
}


@pytest.mark.parametrize("case", PRINTING)
def test_a_program_that_is_no_python_is_named(case: str, interpreter: Path) -> None:
    interpreter.write_text(f"#!/bin/sh\n{PRINTING[case]}\n")
    interpreter.chmod(0o755)

    with pytest.raises(InstallError, match=r"python is no Python: it answers .*--python"):
        read_target(interpreter)


def test_a_program_that_fails_is_named_with_its_last_word(interpreter: Path) -> None:
    interpreter.write_text("#!/bin/sh\necho first >&2\necho the cause >&2\nexit 1\n")
    interpreter.chmod(0o755)

    with pytest.raises(InstallError, match="the cause"):
        read_target(interpreter)


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_a_file_that_cannot_be_run_is_named(mode: int, interpreter: Path) -> None:
    interpreter.write_bytes(b"\x7fELF no program\n")
    interpreter.chmod(mode)

    with pytest.raises(InstallError, match=r"cannot be run|no Python"):
        read_target(interpreter)


def test_an_interpreter_that_prints_at_its_start_is_understood(interpreter: Path) -> None:
    interpreter.write_text(f'#!/bin/sh\necho welcome\nexec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)

    assert read_target(interpreter).python_version.startswith("3.")


def test_broken_packages_of_a_target_do_not_hide_the_others(
    interpreter: Path, tmp_path: Path
) -> None:
    site = tmp_path / "more"
    for name, content in (
        ("bad-1.0.dist-info", b"Name: \xff\n"),
        ("empty-1.0.dist-info", b""),
        ("good-1.0.dist-info", b"Name: Good_One\nVersion: 1.0\n"),
    ):
        (site / name).mkdir(parents=True)
        (site / name / "METADATA").write_bytes(content)
    interpreter.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)

    packages = read_target(interpreter).packages

    assert packages["good-one"].version == "1.0"
    assert packages["good-one"].dist_info == site / "good-1.0.dist-info"
    assert "bad" not in packages


RECORD = InstallRecord("http://hub.example", "ada", "maze", "0.1.0", "ab" * 32)


def installed(folder: Path, listing: str = "maze.py,,\n") -> Path:
    dist_info = folder / "maze-0.1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "RECORD").write_text(listing)
    return dist_info


def test_writing_a_record_twice_lists_it_once(tmp_path: Path) -> None:
    dist_info = installed(tmp_path)

    write_install_record(dist_info, RECORD)
    first = (dist_info / "RECORD").read_bytes()
    write_install_record(dist_info, RECORD)

    assert (dist_info / "RECORD").read_bytes() == first
    assert inspect_installation(dist_info).state == "matches"
    assert sorted(each.name for each in dist_info.iterdir()) == ["RECORD", "strop-install.json"]


@pytest.mark.parametrize("listing", ["", "maze.py,,", "maze.py,,\r\n", '"a, b.py",,\n', "\n\n"])
def test_any_listing_is_extended_and_matches(listing: str, tmp_path: Path) -> None:
    dist_info = installed(tmp_path, listing)

    write_install_record(dist_info, RECORD)

    found = inspect_installation(dist_info)
    assert (found.state, found.difference) == ("matches", None)
    assert found.record is not None
    assert found.record.reference == "ada/maze@0.1.0"


@pytest.mark.parametrize(
    "path", ["../../outside.py", "/etc/hostname", "maze.py", "with space.py", "ünï.py"]
)
def test_a_listed_file_that_is_not_as_listed_differs(path: str, tmp_path: Path) -> None:
    dist_info = installed(tmp_path, f"{path},sha256=AAAA,3\n")

    write_install_record(dist_info, RECORD)

    found = inspect_installation(dist_info)
    assert found.state == "differs"
    assert found.difference == f"{path} was altered or removed"


def test_many_who_write_the_same_record_leave_a_whole_one(tmp_path: Path) -> None:
    dist_info = installed(tmp_path)
    write_install_record(dist_info, RECORD)
    states: list[str] = []

    def write() -> None:
        for _ in range(10):
            write_install_record(dist_info, RECORD)
            states.append(inspect_installation(dist_info).state)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(states) == {"matches"}
    assert sorted(each.name for each in dist_info.iterdir()) == ["RECORD", "strop-install.json"]


def test_a_record_that_cannot_be_written_says_that_the_package_is_there(tmp_path: Path) -> None:
    dist_info = installed(tmp_path)
    (dist_info / "RECORD").unlink()

    with pytest.raises(InstallError, match=r"ada/maze@0\.1\.0 is installed, but its record"):
        write_install_record(dist_info, RECORD)
