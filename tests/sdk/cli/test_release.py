"""`strop env deprecate | archive | close | tag | delete`, `strop hub quarantine | purge`."""

from pathlib import Path
from typing import Any

import pytest

from strop.hub.wire import Scope
from strop_hub import admin
from tests.hub_server.author import Author
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.sdk.cli.command import Finished, strop


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with run_hub(tmp_path_factory.mktemp("releases") / "data") as running:
        yield running


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    author = Author.new(hub, tmp_path)
    author.publish("maze", "0.1.0", "0.2.0")
    return author


def env(author: Author, command: str, rest: str, *arguments: str, token: str = "") -> Finished:
    """`strop env COMMAND ada/maze… --json`, by the author."""
    reference = f"{author.owner}/maze{rest}"
    return strop(
        *("env", command, reference, *arguments, "--json"),
        STROP_HUB=author.hub.url,
        STROP_TOKEN=token or author.token,
    )


def on_machine(author: Author, command: str, rest: str, *arguments: str) -> Finished:
    """`strop hub COMMAND ada/maze… --json`, by the operator."""
    data = ["--data", str(author.hub.settings.data)]
    return strop("hub", command, f"{author.owner}/maze{rest}", *arguments, *data, "--json")


def test_an_environment_is_deprecated_archived_and_active_again(author: Author) -> None:
    deprecated = env(author, "deprecate", "", "--reason", "use labyrinth").document
    archived = env(author, "archive", "").document
    active = env(author, "archive", "", "--undo").document

    assert (deprecated["status"], deprecated["status_reason"]) == ("deprecated", "use labyrinth")
    assert archived["status"] == "archived"
    assert active["status"] == "active"
    assert env(author, "deprecate", "@0.1.0").error["code"] == "usage"


def test_an_environment_whose_versions_are_all_yanked_says_so(author: Author) -> None:
    for version in ("0.1.0", "0.2.0"):
        assert env(author, "yank", f"@{version}").code == 0
    shown = env(author, "info", "")

    assert shown.document["latest"] is None
    reference = f"{author.owner}/maze"
    as_text = strop("env", "info", reference, STROP_HUB=author.hub.url, STROP_TOKEN=author.token)
    assert as_text.code == 0
    assert f"`strop env versions {reference}` lists them" in as_text.stderr


def test_a_version_is_closed_and_deleted(author: Author) -> None:
    assert env(author, "close", "@0.1.0").document["is_closed"] is True
    assert env(author, "close", "").error["code"] == "usage"
    owner = author.hub.new_token(author.owner, scopes=[Scope.ADMIN])

    refused = env(author, "delete", "@0.2.0", "--yes")
    unsure = env(author, "delete", "@0.2.0", token=owner)
    deleted = env(author, "delete", "@0.2.0", "--yes", token=owner)

    assert refused.error["code"] == "scope_missing"
    assert unsure.code != 0
    assert deleted.document["deleted"] is True
    assert [item["version"] for item in author.resolve(f"{author.owner}/maze")] == ["0.1.0"]


def test_a_tag_is_set_listed_explained_and_taken_away(author: Author) -> None:
    assert env(author, "tag", "@0.1.0", "stable").document["items"][0]["version"] == "0.1.0"
    env(author, "tag", "@0.2.0", "stable")

    listed = env(author, "tag", "").document["items"]
    history = env(author, "tag", "@stable").document["items"]
    gone = env(author, "tag", "", "stable", "--delete").document["items"]

    assert [(item["tag"], item["version"]) for item in listed] == [("stable", "0.2.0")]
    assert [item["version"] for item in history] == ["0.2.0", "0.1.0"]
    assert gone == []
    assert env(author, "tag", "", "stable").error["code"] == "usage"
    assert env(author, "tag", "", "--delete").error["code"] == "usage"


def test_an_environment_is_transferred_to_a_team(author: Author) -> None:
    team = admin.organisation_add(author.hub.settings, f"team-{author.owner}", author.owner)
    owner = author.hub.new_token(author.owner, scopes=[Scope.ADMIN])

    moved = env(author, "transfer", "", team, token=owner)

    assert moved.document["owner"] == team
    assert author.resolve(f"{author.owner}/maze")[0]["owner"] == team
    assert env(author, "transfer", "@0.1.0", team).error["code"] == "usage"


def test_an_operator_quarantines_and_releases(author: Author) -> None:
    reference = f"{author.owner}/maze"

    for rest in ("@0.2.0", ""):
        stopped = on_machine(author, "quarantine", rest, "--reason", "leaky grader")
        assert stopped.document["status"] == "quarantined", stopped.stderr
        assert "leaky grader" in author.resolve(f"{reference}@0.2.0")[0]["detail"]
        assert on_machine(author, "quarantine", rest, "--undo").document["status"] == "active"

    assert author.resolve(reference)[0]["version"] == "0.2.0"
    assert on_machine(author, "quarantine", "").error["code"] == "usage"


def test_an_operator_purges_what_must_not_stay(author: Author) -> None:
    purged = on_machine(author, "purge", "@0.2.0", "--reason", "a key got in", "--yes")

    assert [one["version"] for one in purged.document] == ["0.2.0"]
    assert author.resolve(f"{author.owner}/maze")[0]["version"] == "0.1.0"
    absent = on_machine(author, "purge", "@0.2.0", "--reason", "again", "--yes")
    assert absent.error["code"] == "not_found"
