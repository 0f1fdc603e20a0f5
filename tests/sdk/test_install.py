"""What was asked for is what is installed: real hub, real pip, real virtual environments."""

import json
import subprocess
from pathlib import Path

import pytest

from strop.config import cache_folder
from strop.errors import HubRefusedError, InstallError
from strop.hub.client import HubClient
from strop.hub.install import InstallOptions, InstallReport, Outcome, install, uninstall
from strop.hub.installing.target import read_target
from tests.hub_server.running_hub import RunningHub
from tests.sdk.conftest import MakeTarget
from tests.sdk.loopback import reply, serve
from tests.sdk.published import publish

Author = tuple[str, str]
"""Name and token."""


def put(
    hub: RunningHub, target: Path, *references: str, replace: bool = False, upgrade: bool = False
) -> InstallReport:
    options = InstallOptions(target, "pip", replace, upgrade)
    with HubClient(hub.url) as client:
        return install(client, references, options)


def outcomes(report: InstallReport) -> list[str]:
    return [one.outcome for one in report.environments]


def state_in(target: Path, reference: str) -> str:
    program = f"import strop; print(strop.load({reference!r}).identity.state)"
    finished = subprocess.run(
        [target / "bin" / "python", "-c", program], capture_output=True, text=True
    )
    return finished.stdout.strip() or finished.stderr.strip().splitlines()[-1]


def module_in(target: Path, name: str = "maze") -> Path:
    return read_target(target).folder / f"{name}.py"


def dist_info_in(target: Path, name: str = "maze") -> Path:
    return read_target(target).packages[name].dist_info


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    """Somebody who has published maze 0.1.0."""
    made = hub.new_user()
    publish(hub, made, tmp_path)
    return made


@pytest.fixture
def maze(author: Author) -> str:
    """A published environment, as a reference without a version."""
    return f"{author[0]}/maze"


def test_an_environment_is_installed_recorded_and_loaded(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path
) -> None:
    owner, _ = author = hub.new_user()
    pushed = publish(hub, author, tmp_path)
    target = make_target()

    report = put(hub, target, f"{owner}/maze")

    assert outcomes(report) == [Outcome.INSTALLED]
    assert report.sdk is None
    record = json.loads((dist_info_in(target) / "strop-install.json").read_text())
    assert (record["hub"], record["owner"], record["name"]) == (hub.url, owner, "maze")
    assert (record["version"], record["digest"]) == ("0.1.0", pushed.version.digest)
    assert "strop-install.json,," in (dist_info_in(target) / "RECORD").read_text()
    assert state_in(target, f"{owner}/maze@0.1.0") == "matches"


def test_the_same_digest_again_is_already_installed(
    hub: RunningHub, make_target: MakeTarget, maze: str
) -> None:
    target = make_target()
    put(hub, target, maze)

    again = put(hub, target, f"{maze}@0.1.0")

    assert outcomes(again) == [Outcome.ALREADY_INSTALLED]
    assert again.installer is None


def test_altered_files_are_told_and_mended(
    hub: RunningHub, make_target: MakeTarget, maze: str
) -> None:
    target = make_target()
    put(hub, target, maze)
    module_in(target).write_text("def load_environment(): ...")

    assert "maze.py was altered" in state_in(target, maze)
    assert outcomes(put(hub, target, maze)) == [Outcome.REINSTALLED]
    assert state_in(target, maze) == "matches"


def test_another_version_replaces_the_one_that_is_there_up_or_down(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path, author: Author, maze: str
) -> None:
    publish(hub, author, tmp_path, version="0.2.0", answer="43")
    target = make_target()

    for version in ("0.1.0", "0.2.0", "0.1.0"):
        put(hub, target, f"{maze}@{version}")
        assert state_in(target, f"{maze}@{version}") == "matches"
    assert "0.1.0 is installed. Run `strop env install" in state_in(target, f"{maze}@0.2.0")


def test_another_owners_package_of_the_name_is_refused_until_the_first_is_gone(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path
) -> None:
    first, second = hub.new_user(), hub.new_user()
    publish(hub, first, tmp_path)
    publish(hub, second, tmp_path, answer="43")
    target = make_target()
    put(hub, target, f"{first[0]}/maze")

    with pytest.raises(InstallError, match=f"{first[0]}/maze@0.1.0 is installed.*--python"):
        put(hub, target, f"{second[0]}/maze", replace=True)
    assert state_in(target, f"{first[0]}/maze") == "matches"
    assert f"but {first[0]}/maze@0.1.0 is installed" in state_in(target, f"{second[0]}/maze")

    removed = uninstall("maze", InstallOptions(target, "pip"))
    assert removed is not None
    assert removed.owner == first[0]
    assert outcomes(put(hub, target, f"{second[0]}/maze")) == [Outcome.INSTALLED]


def test_two_owners_of_one_name_in_one_command_are_refused(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path
) -> None:
    first, second = hub.new_user(), hub.new_user()
    publish(hub, first, tmp_path)
    publish(hub, second, tmp_path, answer="43")

    with pytest.raises(InstallError, match="cannot both be installed"):
        put(hub, make_target(), f"{first[0]}/maze", f"{second[0]}/maze")


def test_the_very_same_files_without_a_record_are_adopted(
    hub: RunningHub, make_target: MakeTarget, author: Author, maze: str
) -> None:
    target = make_target()
    put(hub, target, maze)
    (dist_info_in(target) / "strop-install.json").unlink()

    assert "unknown owner" in state_in(target, maze)
    assert outcomes(put(hub, target, maze)) == [Outcome.ADOPTED]
    assert state_in(target, maze) == "matches"


def test_a_package_of_unknown_owner_is_replaced_only_when_asked(
    hub: RunningHub, make_target: MakeTarget, author: Author, maze: str
) -> None:
    target = make_target()
    put(hub, target, maze)
    (dist_info_in(target) / "strop-install.json").unlink()
    module_in(target).write_text("mine = True")

    with pytest.raises(InstallError, match=r"unknown owner.*--replace"):
        put(hub, target, maze)
    assert module_in(target).read_text() == "mine = True"
    assert outcomes(put(hub, target, maze, replace=True)) == [Outcome.REINSTALLED]


def test_what_an_environment_requires_of_the_hub_comes_from_it_too(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path
) -> None:
    owner, _ = author = hub.new_user()
    publish(hub, author, tmp_path, name=f"base-{owner}")
    needs = {"requires": [f"{owner}/base-{owner}@~=0.1"], "dependencies": [f"base-{owner}"]}
    publish(hub, author, tmp_path, manifest=needs)
    target = make_target()

    report = put(hub, target, f"{owner}/maze")

    assert [one.name for one in report.environments] == ["maze", f"base-{owner}"]
    assert state_in(target, f"{owner}/base-{owner}") == "matches"


def test_nothing_of_the_hub_is_asked_of_an_index_by_name(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, _ = author = hub.new_user()
    publish(hub, author, tmp_path, name=f"base-{owner}")
    needs = {
        "requires": [f"{owner}/base-{owner}"],
        "dependencies": [f"base-{owner}", "strop>=0.1", "not-there-at-all>=1"],
    }
    publish(hub, author, tmp_path, manifest=needs)
    with serve(lambda request: reply(404, "", {})) as index:
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/simple/")
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
        with pytest.raises(InstallError, match="not-there-at-all"):
            put(hub, make_target(), f"{owner}/maze")
        asked = {request.path for request in index.requests}

    assert asked == {"/simple/not-there-at-all/"}


def test_other_packages_keep_their_version_and_a_conflict_is_refused(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path
) -> None:
    owner, _ = author = hub.new_user()
    publish(hub, author, tmp_path, manifest={"dependencies": ["packaging<1"]})
    target = make_target()
    before = read_target(target).packages

    with pytest.raises(InstallError, match="packaging"):
        put(hub, target, f"{owner}/maze")

    assert read_target(target).packages == before


def test_a_target_without_the_sdk_needs_a_hub_that_has_it(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path
) -> None:
    owner, _ = author = hub.new_user()
    publish(hub, author, tmp_path, manifest={"dependencies": ["strop>=99"]})

    with pytest.raises(InstallError, match=r"no strop/strop@>=99 either.*strop hub init"):
        put(hub, make_target(has_sdk=False), f"{owner}/maze")


def test_a_target_without_the_sdk_gets_the_hubs(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path
) -> None:
    owner, _ = author = hub.new_user()
    publish(hub, author, tmp_path, manifest={"dependencies": ["strop>=77"]})
    target = make_target(has_sdk=False)
    publish(hub, ("strop", hub.admin_token), tmp_path, name="strop", version="77.1")

    report = put(hub, target, f"{owner}/maze")

    assert report.sdk == "77.1"
    assert read_target(target).packages["strop"].version == "77.1"


def test_a_cached_wheel_that_was_altered_is_fetched_again(
    hub: RunningHub, make_target: MakeTarget, maze: str
) -> None:
    put(hub, make_target("first"), maze)
    (cached,) = cache_folder().glob("wheels/*/maze-0.1.0-py3-none-any.whl")
    cached.write_bytes(b"something else")

    target = make_target("second")
    put(hub, target, maze)

    assert state_in(target, maze) == "matches"


def test_what_a_killed_installer_left_is_mended(
    hub: RunningHub, make_target: MakeTarget, tmp_path: Path, author: Author, maze: str
) -> None:
    publish(hub, author, tmp_path, version="0.2.0", answer="43")
    target = make_target()
    put(hub, target, f"{maze}@0.1.0")
    # As pip leaves it when it is killed between copying the files and writing RECORD.
    (read_target(target).folder / ".strop-install-in-progress").touch()
    (dist_info_in(target) / "RECORD").unlink()
    (dist_info_in(target) / "strop-install.json").unlink()

    put(hub, target, f"{maze}@0.2.0")

    assert state_in(target, f"{maze}@0.2.0") == "matches"
    assert len(list(read_target(target).folder.glob("maze-*.dist-info"))) == 1
    assert not (read_target(target).folder / ".strop-install-in-progress").exists()


def test_a_reference_that_names_nothing_changes_nothing(
    hub: RunningHub, make_target: MakeTarget
) -> None:
    target = make_target()
    with pytest.raises(HubRefusedError, match="nobody/nothing"):
        put(hub, target, "nobody/nothing")
    assert "nothing" not in read_target(target).packages


def test_only_environments_of_the_named_owner_are_uninstalled(
    hub: RunningHub, make_target: MakeTarget, maze: str
) -> None:
    target = make_target()
    put(hub, target, maze)
    options = InstallOptions(target, "pip")

    for name in ("packaging", "absent"):
        with pytest.raises(InstallError, match=f"{name} is no environment"):
            uninstall(name, options)
    with pytest.raises(InstallError, match=f"it is {maze}@0.1.0"):
        uninstall("somebody-else/maze", options)
    uninstall(f"{maze}@0.1.0", options)
    assert "maze" not in read_target(target).packages


@pytest.mark.parametrize("python", ["absent/bin/python", "file", "."])
def test_what_is_no_interpreter_is_named(python: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no program")
    with pytest.raises(InstallError, match="--python"):
        read_target(tmp_path / python)
