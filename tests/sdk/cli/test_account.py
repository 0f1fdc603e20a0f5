"""Who you are, and which hub you talk to."""

import os
import subprocess
from pathlib import Path

import pytest

from strop.config import config_path
from tests.hub_server.running_hub import RunningHub
from tests.sdk.cli.command import STROP, strop
from tests.sdk.loopback import HUB, reply, serve, unused_address


def test_login_keeps_a_token_that_the_hub_knows_privately(hub: RunningHub) -> None:
    user, token = hub.new_user()

    logged_in = strop("login", hub.url, text=f"{token}\n")

    assert logged_in.code == 0, logged_in.stderr
    assert f"You are {user}" in logged_in.stdout
    assert token not in logged_in.stdout + logged_in.stderr
    assert config_path().stat().st_mode & 0o777 == 0o600
    assert strop("whoami", "--json").document["user"] == user


def test_login_refuses_a_wrong_token_and_keeps_nothing(hub: RunningHub) -> None:
    refused = strop("login", hub.url, "--token", "strop_wrong", "--json")

    assert refused.error["code"] == "token_invalid"
    assert not config_path().exists()


def test_login_without_a_token_says_how_to_give_one(hub: RunningHub) -> None:
    refused = strop("login", hub.url)

    assert refused.code == 1
    assert "STROP_TOKEN" in refused.stderr


@pytest.mark.parametrize(
    ("answer", "code"), [(reply(200, "<html>", {}), "not_a_hub"), (None, "hub_unreachable")]
)
def test_login_at_something_that_is_no_hub_keeps_nothing(answer: bytes | None, code: str) -> None:
    with serve(lambda request: answer) as server:
        refused = strop("login", server.url, "--token", "strop_x", "--json")

    assert refused.error["code"] == code
    assert not config_path().exists()


def test_a_hub_with_a_path_too_many_is_told_its_address(hub: RunningHub) -> None:
    _, token = hub.new_user()
    refused = strop("whoami", "--hub", f"{hub.url}/zzz", "--json", STROP_TOKEN=token)

    assert refused.error["code"] == "not_a_hub"
    assert f"is {hub.url}. Leave /zzz out" in refused.error["message"]


def test_logins_at_the_same_time_are_all_kept(hub: RunningHub) -> None:
    user, token = hub.new_user()
    addresses = [hub.url, hub.url.replace("127.0.0.1", "localhost")]
    running = [
        subprocess.Popen([STROP, "login", address, "--token", token], stderr=subprocess.PIPE)
        for address in addresses
    ]
    for each in running:
        assert each.wait(120) == 0, each.stderr and each.stderr.read()
        if each.stderr:
            each.stderr.close()

    for address in addresses:
        assert strop("whoami", "--hub", address, "--json").document["user"] == user


def test_tokens_of_several_hubs_are_kept_and_each_goes_to_its_own(hub: RunningHub) -> None:
    _, token = hub.new_user()
    assert strop("login", hub.url, "--token", token).code == 0
    with serve(lambda request: reply(200, {"items": [], "next_cursor": None})) as other:
        listed = strop("env", "list", "--hub", other.url, "--json")

        assert listed.document == {"items": []}
        assert "authorization" not in other.requests[0].headers


def test_whoami_without_a_token_leads_to_login(hub: RunningHub) -> None:
    refused = strop("whoami", "--hub", hub.url, "--json")

    assert refused.error["code"] == "config"
    assert f"strop login {hub.url}" in refused.error["message"]


def test_whoami_shows_what_the_token_may_do(hub: RunningHub) -> None:
    user, token = hub.new_user()
    shown = strop("whoami", STROP_HUB=hub.url, STROP_TOKEN=token).stdout

    assert user in shown
    assert "scopes" in shown
    assert "expires" in shown


def test_config_shows_what_is_in_force_with_masked_tokens() -> None:
    hub = unused_address()
    token = "strop_abcdefghijklmnop"
    nothing = strop("config")
    shown = strop("config", STROP_HUB=hub, STROP_TOKEN=token)
    as_json = strop("config", "--json", STROP_HUB=hub, STROP_TOKEN=token)

    assert "none" in nothing.stdout
    assert f"{hub} (from the variable)" in shown.stdout
    assert "strop_ab… (from the variable)" in shown.stdout
    assert as_json.document["token"] == "strop_ab…"
    assert token not in shown.stdout + as_json.stdout


def test_config_changes_and_forgets_the_hub_and_a_token(hub: RunningHub) -> None:
    _, token = hub.new_user()
    strop("login", hub.url, "--token", token)

    assert strop("config", "token", "--unset").code == 0
    assert token not in config_path().read_text()
    assert strop("config", "hub", "https://Hub.Example/").code == 0
    assert strop("config", "--json").document["hub"] == "https://hub.example"
    assert strop("config", "hub", "--unset", "--json").document["hub"] is None


@pytest.mark.parametrize(
    "arguments",
    [["colour", "red"], ["token", "strop_x"], ["hub"], ["hub", "http://h", "--unset"], ["--unset"]],
)
def test_config_used_wrongly_changes_nothing(arguments: list[str]) -> None:
    assert strop("config", *arguments).code == 2
    assert not config_path().exists()


def test_a_file_that_others_can_read_is_told() -> None:
    path = config_path()
    path.parent.mkdir(parents=True)
    path.write_text("hub = 'http://127.0.0.1:9'\n")
    path.chmod(0o644)

    shown = strop("config")

    assert shown.code == 0
    assert "has mode 0644" in shown.stderr


def test_the_file_can_be_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "my.toml"

    strop("config", "hub", "http://127.0.0.1:9", STROP_CONFIG=str(elsewhere))

    assert "127.0.0.1:9" in elsewhere.read_text()
    assert not config_path().exists()


def test_a_config_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = strop("config", "hub", "http://h", STROP_CONFIG=str(tmp_path / "file" / "x.toml"))

    assert refused.code == 1
    assert "x.toml" in refused.stderr


def test_a_hub_that_speaks_of_the_future_is_understood() -> None:
    page: dict[str, object] = {"items": [], "next_cursor": None, "estimated_total": 3}
    with serve(lambda request: reply(200, page, HUB | {"strop-hub": "9.0"})) as server:
        assert strop("env", "list", "--hub", server.url, "--json").document == {"items": []}
    assert os.environ.get("STROP_HUB") is None
