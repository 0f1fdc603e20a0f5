"""Commands on odd machines: no home, a poor locale, closed streams, hostile hubs, full disks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk.cli.command import STROP, Finished, strop
from tests.sdk.hub.environments import write_environment
from tests.sdk.loopback import Server, reply, serve, unused_address

POOR = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
NO_HUB = {"STROP_HUB": "", "STROP_TOKEN": "", "STROP_CONFIG": "/nonexistent/config.toml"}


def run(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> Finished:
    """Run a command where no hub is configured, unless `variables` say so."""
    return strop(*arguments, cwd=cwd, **(NO_HUB | variables))


def test_a_user_without_a_home_can_still_see_the_help_and_the_version() -> None:
    environ = {"PATH": os.environ["PATH"]}
    for argument in ("--help", "--version"):
        finished = subprocess.run([STROP, argument], env=environ, capture_output=True, text=True)
        assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize("home", ["/nonexistent", ""])
def test_a_home_that_is_not_there_is_an_empty_configuration(home: str) -> None:
    finished = run("config", "--json", HOME=home, STROP_CONFIG="", XDG_CONFIG_HOME="")

    assert finished.code == 0, finished.stdout
    assert (finished.document["hub"], finished.document["tokens"]) == (None, {})


def test_a_home_that_is_no_folder_is_named() -> None:
    finished = run("config", "--json", HOME="/dev/null", STROP_CONFIG="", XDG_CONFIG_HOME="")

    assert finished.error["code"] == "config"
    assert "/dev/null/.config/strop/config.toml cannot be read" in finished.error["message"]


@pytest.mark.parametrize("folder", ["/proc/strop", "/dev/null/strop"])
def test_a_folder_that_nobody_can_write_is_named(folder: str, tmp_path: Path) -> None:
    finished = run("config", "hub", "http://hub.example", "--json", STROP_CONFIG=folder)

    assert finished.code == 1
    assert folder in finished.error["message"]


def test_a_poor_locale_does_not_stop_names_of_every_kind(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze", files={"data/größe \U0001f600.txt": "x"})

    document = run("env", "push", str(folder), "--dry-run", "--json", LC_ALL="C", LANG="C")
    plain = run("env", "push", str(folder), "--dry-run", LC_ALL="C", LANG="C")

    assert document.code == plain.code == 0, document.stderr
    assert "größe \U0001f600.txt" in json.dumps(document.document, ensure_ascii=False)


def test_a_name_that_the_locale_cannot_write_is_told_with_the_way_out(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze", files={"data/größe \U0001f600.txt": "x"})

    finished = run("env", "push", str(folder), "--dry-run", "--json", cwd=None, **POOR)

    assert finished.error["code"] == "package"
    assert "PYTHONUTF8=1" in finished.error["message"]


@pytest.mark.parametrize("name", ["with space", "größe-\U0001f600", "-dash", "a'b\"c;$(x)"])
def test_a_project_in_a_folder_of_any_name_is_checked_and_listed(name: str, tmp_path: Path) -> None:
    folder = write_environment(tmp_path / name)

    finished = run("env", "push", "--dry-run", "--json", cwd=folder)

    assert finished.code == 0, finished.stderr
    assert "maze_env/__init__.py" in finished.stdout


def test_a_project_behind_a_link_is_the_same_project(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "real")
    (tmp_path / "link").symlink_to(folder)

    real, linked = (
        run("env", "push", str(tmp_path / each), "--dry-run", "--json") for each in ("real", "link")
    )

    assert real.document["tree_digest"] == linked.document["tree_digest"]


def test_the_umask_does_not_change_the_tree(tmp_path: Path) -> None:
    digests = set()
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            folder = write_environment(tmp_path / f"maze-{mask}")
        finally:
            os.umask(before)
        finished = run("env", "push", str(folder), "--dry-run", "--json")
        digests.add(finished.document["tree_digest"])

    assert len(digests) == 1


@pytest.mark.parametrize("arguments", [["--help"], ["env", "--help"], ["config", "--json"]])
def test_a_reader_that_went_away_is_no_traceback(arguments: list[str]) -> None:
    with subprocess.Popen(
        [STROP, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | NO_HUB,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read()

    assert "Traceback" not in said


def test_a_full_disk_behind_the_output_is_an_error_and_no_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run(
            [STROP, "config", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | NO_HUB,
        )

    assert finished.returncode != 0
    assert "Traceback" not in finished.stderr


def asked(server: Server, *arguments: str) -> Finished:
    return run(*arguments, "--hub", server.url, "--token", "strop_x")


HOSTILE_TEXT = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\r\x08"


def test_a_hub_cannot_write_to_the_terminal_through_its_errors() -> None:
    problem = {
        "title": "x",
        "status": 403,
        "detail": f"no {HOSTILE_TEXT}",
        "code": "forbidden",
        "problems": [f"and {HOSTILE_TEXT}"],
    }

    with serve(lambda request: reply(403, problem)) as server:
        finished = asked(server, "whoami")

    assert finished.code == 1
    assert "no " in finished.stderr
    assert all(letter.isprintable() or letter == "\n" for letter in finished.stderr)


def test_a_hub_cannot_write_to_the_terminal_through_its_listing() -> None:
    environment = {
        "owner": "ada",
        "name": f"maze{HOSTILE_TEXT}",
        "summary": HOSTILE_TEXT,
        "category": "logic",
        "tags": [HOSTILE_TEXT],
        "is_private": False,
        "latest_version": f"1{HOSTILE_TEXT}",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    page = {"items": [environment], "next_cursor": None}

    with serve(lambda request: reply(200, page)) as server:
        plain = asked(server, "env", "list")
        document = asked(server, "env", "list", "--json")

    assert plain.code == document.code == 0, plain.stderr
    assert all(letter.isprintable() or letter == "\n" for letter in plain.stdout)
    assert all(letter.isprintable() or letter == "\n" for letter in document.stdout)
    assert HOSTILE_TEXT in json.dumps(document.document, ensure_ascii=False).encode().decode() or (
        json.dumps(HOSTILE_TEXT)[1:-1] in document.stdout
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<html>It works</html>", "not_a_hub"),
        (b"", "not_a_hub"),
        (b"\x00" * 1000, "not_a_hub"),
    ],
)
def test_what_is_no_hub_is_named_in_text_and_in_json(body: bytes, code: str) -> None:
    with serve(lambda request: reply(200, body, {"content-type": "text/html"})) as server:
        plain = asked(server, "whoami")
        document = asked(server, "whoami", "--json")

        assert (plain.code, document.code) == (1, 1)
        assert server.url in plain.stderr
        assert document.error["code"] == code
        assert "strop_x" not in plain.stderr + document.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["env", "info", "not-a-reference"],
        ["env", "info", "ada/maze@~=1"],
        ["env", "install", "../evil"],
        ["env", "pull", "ada/maze@" + "9" * 5000],
        ["env", "install", "ada/maze@,"],
        ["env", "versions", "ada"],
        ["env", "yank", "ada/maze"],
    ],
)
def test_a_reference_that_is_none_is_refused_before_anybody_is_asked(arguments: list[str]) -> None:
    with serve(lambda request: reply(500)) as server:
        finished = asked(server, *arguments, "--json")

        assert finished.code in (1, 2)
        assert server.requests == []
    assert len(finished.error["message"]) < 1000
    assert "Traceback" not in finished.stderr


def test_a_hub_that_is_down_is_named_by_every_command_that_needs_it() -> None:
    address = unused_address()
    code = f"""
import strop.hub.client as client
from strop.errors import HubUnreachableError
with client.HubClient({address!r}, "strop_x", attempt_count=1) as hub:
    for act in (hub.whoami, hub.health, lambda: list(hub.environments()),
                lambda: list(hub.versions("a", "b")), lambda: hub.resolve(["a/b"])):
        try:
            act()
        except HubUnreachableError as error:
            print({address!r} in str(error))
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert finished.stdout.split() == ["True"] * 5


@pytest.mark.parametrize(
    "pair", ["size", "=1", "a b=1", "1x=2", "", "size:3", "-x=1", "x\n=1", "\udcff=1"]
)
def test_a_setting_of_another_form_is_a_wrong_use(pair: str) -> None:
    finished = run("eval", "run", "maze", f"--set={pair}", "--json")

    assert finished.code == 2
    assert finished.error["code"] == "usage"


@pytest.mark.parametrize(
    "variables",
    [
        {"STROP_HUB": "http://[::1"},
        {"STROP_HUB": "http://two words"},
        {"STROP_HUB": "hub.example"},
        {"STROP_HUB": "http://hub.example", "STROP_TOKEN": "strop_\u00fc"},
        {"STROP_HUB": "http://hub.example", "STROP_TOKEN": "two words"},
        {"STROP_HUB": "http://ada:hunter2@hub.example"},
    ],
)
def test_a_variable_that_is_wrong_is_told_without_repeating_a_secret(
    variables: dict[str, str],
) -> None:
    finished = run("whoami", "--json", cwd=None, **variables)

    assert finished.code == 1
    assert finished.error["code"] == "config"
    assert "hunter2" not in finished.stdout
    assert "two words" not in finished.stdout or "STROP_TOKEN" not in variables
