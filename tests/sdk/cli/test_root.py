"""The root: quick, plain, and every fault is an exit code."""

import json
import re
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.sdk.cli.command import STROP, strop
from tests.sdk.loopback import silent_server, unused_address

COMMANDS = [
    "env init",
    "env check",
    "env build",
    "env push",
    "env pull",
    "env install",
    "env uninstall",
    "env list",
    "env info",
    "env versions",
    "env yank",
    "eval run",
    "login",
    "whoami",
    "config",
]


def test_help_lists_the_groups() -> None:
    shown = strop("--help")

    assert shown.code == 0
    for group in ("env", "eval", "hub", "login", "whoami", "config"):
        assert re.search(rf"^  {group} ", shown.stdout, re.M)


def test_the_command_line_imports_nothing_heavy_before_a_command_needs_it() -> None:
    program = (
        "import sys, strop.cli, strop.cli.env, strop.cli.eval, strop.cli.account\n"
        "print([m for m in ('httpx', 'pydantic', 'rich', 'asyncio') if m in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.stdout.strip() == "[]", finished.stderr


def test_the_version_is_that_of_the_distribution() -> None:
    assert strop("--version").stdout == f"strop {version('strop')}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(command: str) -> None:
    shown = strop(*command.split(), "--help")

    assert shown.code == 0
    assert f"Usage: strop {command}" in shown.stdout
    assert re.search(rf"Examples:\n +strop {command}", shown.stdout)


def test_a_group_tells_whole_summaries_of_its_commands() -> None:
    shown = strop("env", "--help").stdout

    assert "...\n" not in shown.partition("Commands:")[2]
    assert "the same push again changes nothing." in " ".join(shown.split())
    assert "--install-completion" not in shown


@pytest.mark.parametrize("arguments", [[], ["env"], ["eval"]])
def test_a_group_without_a_command_shows_its_help(arguments: list[str]) -> None:
    shown = strop(*arguments)

    assert "Usage: strop" in shown.stdout + shown.stderr
    assert "Commands:" in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["evn"], "Did you mean 'env'?"),
        (["env", "pusch"], "Did you mean 'push'?"),
        (["env", "push", "--privat"], "--private"),
        (["env", "pull"], "Missing argument"),
        (["env", "list", "--limit", "0"], "limit"),
        (["env", "yank", "ada/maze"], "exact version"),
        (["eval", "run", "maze", "--set", "size"], "KEY=VALUE"),
    ],
)
def test_wrong_use_exits_with_2_and_says_how(arguments: list[str], said: str) -> None:
    shown = strop(*arguments, STROP_HUB="http://127.0.0.1:9")
    as_json = strop(*arguments, "--json", STROP_HUB="http://127.0.0.1:9")

    assert (shown.code, as_json.code) == (2, 2)
    assert said in shown.stderr
    assert shown.stdout == ""
    assert as_json.error["code"] == "usage"


def test_a_fault_is_one_line_without_a_traceback_and_exits_with_1() -> None:
    hub = unused_address()
    shown = strop("env", "info", "nonsense", "--hub", hub)

    assert shown.code == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("error: 'nonsense' names no environment")
    assert "Traceback" not in shown.stderr
    assert "Traceback" in strop("env", "info", "x", "--hub", hub, STROP_DEBUG="1").stderr


def test_a_fault_with_json_is_the_one_document_on_stdout() -> None:
    shown = strop("env", "info", "nonsense", "--json", "--hub", unused_address())

    assert shown.code == 1
    assert shown.error["code"] == "invalid_ref"
    assert shown.stderr == ""


def test_no_hub_at_all_tells_how_to_name_one() -> None:
    shown = strop("env", "list", "--json")

    assert (shown.code, shown.error["code"]) == (1, "config")
    assert "strop login" in shown.error["message"]


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_an_interrupt_exits_with_130(arguments: list[str]) -> None:
    with (
        silent_server() as hub,
        subprocess.Popen(
            [STROP, "env", "list", "--hub", hub.url, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        hub.wait_for_a_call()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)

    assert process.returncode == 130
    assert "Traceback" not in stderr
    if arguments:
        assert json.loads(stdout)["error"]["code"] == "interrupted"
    else:
        assert stderr == "error: Interrupted.\n"


def test_text_that_the_terminal_cannot_show_does_not_stop_a_command() -> None:
    shown = strop("env", "info", "größe", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")

    assert shown.code == 1
    assert "error: " in shown.stderr
    assert "Traceback" not in shown.stderr


def test_completion_offers_groups_and_commands() -> None:
    def complete(words: str) -> list[str]:
        position = str(len(words.split(" ")) - 1)
        finished = strop(_STROP_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=position)
        return finished.stdout.split()

    assert complete("strop e") == ["env", "eval"]
    assert "push" in complete("strop env pu")


def test_a_full_disk_is_told_with_what_to_do() -> None:
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            [STROP, "config", "--json"], stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert finished.returncode == 1
    assert "No space left on device. Make room" in finished.stderr
