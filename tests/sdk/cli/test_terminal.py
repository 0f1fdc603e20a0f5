"""Colours and bars are for terminals alone."""

import os
import pty
import subprocess
from pathlib import Path

from tests.sdk.cli.command import STROP, on_terminal, strop
from tests.sdk.cli.conftest import Author

ESCAPE = "\x1b["


def test_an_error_is_coloured_on_a_terminal_and_plain_elsewhere() -> None:
    assert f"{ESCAPE}31;1merror:{ESCAPE}0m" in on_terminal("env", "info", "x", "--hub", "http://h")
    assert ESCAPE not in strop("env", "info", "x", "--hub", "http://h").stderr


def test_colours_can_be_switched_off() -> None:
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert ESCAPE not in on_terminal("env", "info", "x", "--hub", "http://h", **variables)


def test_a_push_shows_a_bar_on_a_terminal_and_leaves_nothing_of_it(
    author: Author, project: Path
) -> None:
    own = {"STROP_HUB": author.hub.url, "STROP_TOKEN": author.token}
    shown = on_terminal("env", "push", project, "--no-isolation", **own)

    assert "Uploading ━" in shown
    assert "100%" in shown
    assert f"Published {author.name}/maze-env@0.1.0" in shown.rpartition(f"{ESCAPE}K")[2]


def test_a_push_elsewhere_shows_no_bar(author: Author, project: Path) -> None:
    pushed = author.run("env", "push", project, "--no-isolation")

    assert pushed.code == 0, pushed.stderr
    assert "━" not in pushed.stderr + pushed.stdout
    assert ESCAPE not in pushed.stderr + pushed.stdout


def test_a_token_is_asked_for_without_being_shown(author: Author) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [STROP, "login", author.hub.url], stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = os.read(ours, 1000)
        # The blank comes once the terminal has stopped to echo.
        while b"Token: " not in shown:
            shown += os.read(ours, 1000)
        os.write(ours, f"{author.token}\n".encode())
        while b"is kept in" not in shown:
            shown += os.read(ours, 1000)
        assert process.wait(120) == 0
    os.close(ours)
    assert author.token not in shown.decode()
    assert f"You are {author.name}" in shown.decode()
