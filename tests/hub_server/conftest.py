"""A hub that the tests of this folder share; each makes users of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_server.running_hub import RunningHub, run_hub


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A real hub process; one for the whole session."""
    with run_hub(tmp_path_factory.mktemp("hub") / "data") as running:
        yield running


@pytest.fixture
def hub_data(tmp_path: Path) -> Path:
    """Where a test makes a hub of its own."""
    return tmp_path / "hub"
