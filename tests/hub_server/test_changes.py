"""The change feed: complete, in order, and silent about what is private."""

from pathlib import Path
from typing import Any

import pytest

from tests.hub_server.author import Author, ask
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def follow(hub: RunningHub, token: str | None = None, options: str = "") -> list[dict[str, Any]]:
    """Every event, some at a time, as a mirror reads them."""
    events: list[dict[str, Any]] = []
    while True:
        since = events[-1]["serial"] if events else 0
        response = ask(hub, "GET", f"/api/v1/changes?limit=7&since={since}{options}", token)
        assert response.status_code == 200, response.text
        items = response.json()["items"]
        events += items
        if not items:
            assert since == response.json()["last_serial"]
            return events


def test_a_follower_hears_of_everything_public_in_order_without_gaps(author: Author) -> None:
    author.publish("maze", "0.1.0", "0.2.0")
    author.publish("secret", visibility="private")
    author.yank("maze", "0.2.0")

    events = follow(author.hub)

    assert [event["serial"] for event in events] == list(range(1, len(events) + 1))
    mine = [event for event in events if event["owner"] == author.owner]
    assert [(event["action"], event["version"]) for event in mine] == [
        ("publish", "0.1.0"),
        ("publish", "0.2.0"),
        ("yank", "0.2.0"),
    ]


def test_the_whole_feed_is_for_administrators(author: Author) -> None:
    author.publish("secret", visibility="private")

    events = follow(author.hub, author.hub.admin_token, "&whole=true")
    refused = ask(author.hub, "GET", "/api/v1/changes?whole=true", author.token)

    assert [event["serial"] for event in events] == list(range(1, len(events) + 1))
    assert ("secret", author.owner) in {(event["name"], event["owner"]) for event in events}
    assert refused.status_code == 403


@pytest.mark.parametrize(
    "query", ["since=-1", "since=x", "limit=0", "limit=5000", f"since={2**63}"]
)
def test_a_senseless_position_is_refused(hub: RunningHub, query: str) -> None:
    assert ask(hub, "GET", f"/api/v1/changes?{query}").status_code == 422
