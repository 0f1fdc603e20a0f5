"""Whoever publishes what the tests of this folder read."""

from pathlib import Path

import pytest

from tests.hub_server.author import Author
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    """A user of the shared hub."""
    return Author.new(hub, tmp_path / "author")
