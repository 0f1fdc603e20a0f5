"""What the page of an environment tells about its standing."""

from pathlib import Path

import pytest

from tests.hub_server.author import Author, ask
from tests.hub_server.releases.test_standing import call, set_status
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    author = Author.new(hub, tmp_path)
    author.publish("maze", "0.1.0", "0.2.0")
    return author


@pytest.mark.embedded
@pytest.mark.parametrize("status", ["deprecated", "archived", "quarantined"])
def test_the_page_tells_the_status_with_its_reason(author: Author, status: str) -> None:
    set_status(author, status, "use <labyrinth>")

    page = ask(author.hub, "GET", f"/{author.owner}/maze").text

    assert f"{author.owner}/maze is {status}:" in page
    assert "use &lt;labyrinth&gt;" in page


@pytest.mark.embedded
def test_the_page_of_a_quarantined_version_tells_why(author: Author) -> None:
    call(author, "POST", "/versions/0.2.0/quarantine", reason="leaky")

    page = ask(author.hub, "GET", f"/{author.owner}/maze/0.2.0").text
    latest = ask(author.hub, "GET", f"/{author.owner}/maze").text

    assert "0.2.0 is quarantined:" in page
    assert "leaky" in page
    assert "is quarantined" not in latest
