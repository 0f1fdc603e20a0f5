"""`strop hub`: make a hub, let people in, serve it."""

import io
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest

from strop.cli import main
from strop_hub import migration
from tests.sdk.cli.command import STROP, Finished, strop


def run(*arguments: str, **variables: str) -> Finished:
    """`strop hub …` in this process, which is quicker; `main` is all that the program calls."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(stdout), redirect_stderr(stderr):
        for name, value in variables.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as left:
            main(["hub", *arguments])
    return Finished(int(left.value.code or 0), stdout.getvalue(), stderr.getvalue())


def run_json(*arguments: str, **variables: str) -> Any:
    finished = run(*arguments, "--json", **variables)
    assert finished.code == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.fixture
def data(tmp_path: Path) -> str:
    """The folder of a hub with the administrator `ada`."""
    folder = str(tmp_path / "hub")
    run_json("init", "--data", folder, "--admin", "ada", "--no-sdk")
    return folder


def test_init_prints_the_token_once_and_can_be_repeated(tmp_path: Path) -> None:
    data = str(tmp_path / "hub")

    first = run_json("init", "--data", data, "--admin", "ada", "--no-sdk")
    again = run_json("init", "--admin", "ada", "--no-sdk", STROP_HUB_DATA=data)
    told = run("init", "--data", data, "--admin", "ada", "--no-sdk")

    assert first["token"].startswith("strop_")
    assert again == {"admin": "ada", "token": None, "sdk_version": None}
    assert "strop hub token create" in told.stdout


def test_people_are_let_in_and_out(data: str) -> None:
    added = run_json("user", "add", "Grace", "--data", data)
    created = run_json(
        *("token", "create", "--user", "grace", "--scope", "publish", "--scope", "read"),
        *("--limited-to", "grace/maze", "--days", "3", "--label", "laptop", "--data", data),
    )
    run_json("organisation", "add", "lab", "--owner", "ada", "--data", data)
    run_json("organisation", "member", "lab", "grace", "--role", "publisher", "--data", data)
    run_json("organisation", "member", "lab", "grace", "--role", "none", "--data", data)
    listed = run_json("token", "list", "--user", "grace", "--data", data)
    revoked = run_json("token", "revoke", created["prefix"], "--data", data)

    assert added["name"] == "grace"
    assert [user["name"] for user in run_json("user", "list", "--data", data)] == ["ada", "grace"]
    assert created["token"].startswith(created["prefix"])
    assert listed == [{key: value for key, value in created.items() if key != "token"}]
    assert listed[0]["scopes"] == ["publish", "read"]
    assert listed[0]["limited_to"] == "grace/maze"
    assert revoked["revoked_at"] is not None


def test_people_are_shut_out_and_given_room(data: str) -> None:
    run_json("user", "add", "grace", "--data", data)
    shut_out = run_json("user", "disable", "grace", "--data", data)
    users = run("user", "list", "--data", data).stdout
    let_in = run("user", "disable", "grace", "--undo", "--data", data)
    given = run_json("quota", "grace", "--size", "2 GiB", "--data", data)
    shown = run("quota", "grace", "--data", data).stdout
    back = run("quota", "grace", "--default", "--data", data).stdout

    assert shut_out["is_disabled"]
    assert "user, shut out" in users
    assert "let in again" in let_in.stdout + let_in.stderr
    assert given == {
        "owner": "grace", "stored_bytes": 0, "quota_bytes": 2 * 1024**3, "is_default": False,
    }  # fmt: skip
    assert "2,048.0 MiB" in shown
    assert "10,240.0 MiB (everybody's)" in back


@pytest.mark.parametrize(
    "arguments", [["--size", "much"], ["--size", "-1"], ["--size", "1MiB", "--default"]]
)
def test_a_quota_that_means_nothing_is_refused(data: str, arguments: list[str]) -> None:
    assert run("quota", "ada", *arguments, "--data", data).code == 2


def test_lists_are_tables_for_people_and_show_no_secret(data: str) -> None:
    token = run_json("token", "create", "--user", "ada", "--label", "laptop", "--data", data)
    run("token", "revoke", token["token"], "--data", data)

    tokens = run("token", "list", "--data", data).stdout
    users = run("user", "list", "--data", data).stdout

    assert "laptop" in tokens
    assert "revoked" in tokens
    assert "valid until" in tokens
    assert token["token"] not in tokens
    assert "administrator" in users


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["init", "--admin", "eve"], "forbidden", "user add eve --admin"),
        (["user", "add", "ada"], "name_taken", "Choose another"),
        (["user", "add", "api"], "name_reserved", "reserved"),
        (["user", "add", "-x-"], "invalid_ref", "is no name"),
        (["token", "create", "--user", "eve"], "not_found", "user add eve"),
        (["user", "disable", "ada"], "invalid_request", "user add NAME --admin"),
        (["quota", "eve"], "not_found", "user list"),
        (["claim", "ada/maze"], "not_found", "ada/maze"),
        (["token", "revoke", "strop_nothing"], "not_found", "token list"),
        (["organisation", "member", "lab", "ada", "--role", "owner"], "not_found", "lab"),
    ],
)
def test_refusals_name_the_remedy_and_exit_with_1(
    data: str, arguments: Sequence[str], code: str, hint: str
) -> None:
    command = [*arguments[:1], *arguments[1:], "--data", data, "--json"]
    if arguments[1] == "add" and arguments[-1].startswith("-"):
        command = ["user", "add", "--data", data, "--json", "--", arguments[-1]]

    finished = run(*command)

    assert finished.code == 1
    if "--" in command:
        assert hint in finished.stderr + finished.stdout
    else:
        error = json.loads(finished.stdout)["error"]
        assert error["code"] == code
        assert hint in error["message"]


def test_an_address_that_is_not_this_machines_is_refused(tmp_path: Path) -> None:
    place = ("--host", "203.0.113.1", "--port", "1")

    finished = strop("hub", "serve", "--data", str(tmp_path / "hub"), *place, "--json")

    assert finished.error["code"] == "config"
    assert "Choose another --port" in finished.error["message"]


def test_a_folder_is_needed_and_must_hold_a_hub(tmp_path: Path) -> None:
    nowhere = run("user", "list")
    empty = run("user", "list", "--data", str(tmp_path / "none"))

    assert (nowhere.code, empty.code) == (1, 1)
    assert "STROP_HUB_DATA" in nowhere.stderr
    assert "strop hub init" in empty.stderr


def test_serve_tells_its_address_and_stops_at_ctrl_c(tmp_path: Path) -> None:
    command = [str(STROP), "hub", "serve", "--data", str(tmp_path / "hub"), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as hub:
        assert hub.stderr is not None
        lines = []
        for line in hub.stderr:
            lines.append(line)
            if "The hub is at http" in line:
                break
        url = lines[-1].split(" at ")[1].split()[0]
        health = httpx.get(f"{url}/healthz")
        hub.send_signal(signal.SIGINT)
        hub.communicate(timeout=120)

    assert health.status_code == 200
    assert any("nobody can push yet" in line for line in lines)
    assert hub.returncode in (0, 130)


def test_what_the_hub_needs_is_named_when_it_is_not_installed(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None; from strop.cli import main; "
        f"main(['hub', 'init', '--data', {str(tmp_path / 'hub')!r}, '--admin', 'ada'])"
    )

    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert finished.returncode == 1
    assert "pip install 'strop[hub]'" in finished.stderr


@pytest.mark.parametrize(
    "command",
    [
        "init",
        "serve",
        "user add",
        "user list",
        "user disable",
        "quota",
        "claim",
        "token create",
        "token list",
        "token revoke",
        "organisation add",
        "organisation member",
    ],
)
def test_every_command_shows_an_example(command: str) -> None:
    finished = run(*command.split(), "--help")

    assert finished.code == 0
    assert f"strop hub {command}" in finished.stdout.split("Example")[1]


def test_what_looks_after_a_hub_makes_none_and_spares_a_backup(data: str, tmp_path: Path) -> None:
    folder, mistyped = tmp_path / "backup", tmp_path / "mistyped"
    run_json("backup", str(folder), "--data", data)
    kept = (folder / "backup.json").read_bytes()

    for arguments in (["backup", str(folder)], ["export", str(folder)], ["verify"], ["gc"]):
        refused = run(*arguments, "--data", str(mistyped), "--json")
        assert refused.error["code"] == "config"
        assert f"there is no hub in {mistyped}" in refused.error["message"]

    assert not mistyped.exists()
    assert (folder / "backup.json").read_bytes() == kept


def test_migrate_tells_the_schema_and_can_be_repeated(tmp_path: Path) -> None:
    made = run_json("migrate", "--data", str(tmp_path / "hub"))
    again = run("migrate", "--data", str(tmp_path / "hub"))

    assert made == {"revision": migration.latest_revision()}
    assert again.code == 0
    assert f"has the schema {made['revision']}" in again.stderr
