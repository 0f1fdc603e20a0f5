"""A hub that the tests of this folder share; each makes users of its own."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from strop_hub import admin
from strop_hub.settings import Settings
from tests.hub_server import backends
from tests.hub_server.running_hub import RunningHub, run_hub

_ON_SERVERS_DAILY = {
    "test_admin",
    "test_audit",
    "test_auth",
    "test_checks",
    "test_push",
    "test_push_race",
    "test_push_rules",
    "test_serve",
    "test_upkeep",
    "test_yank",
    "test_download",
    "test_environments",
    "test_index",
    "test_load",
    "test_impossible_text",
}
"""Modules whose subject is what a database and a store must hold."""

_WITH_HUBS_OF_THEIR_OWN = {"test_cache", "test_push_body"}
_OF_A_HUB = {"hub", "hub_data"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what needs a hub on every pair of database and store; most pairs in the slow suite."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if not _OF_A_HUB & set(metafunc.fixturenames) or module in _WITH_HUBS_OF_THEIR_OWN:
        return
    if metafunc.definition.get_closest_marker("embedded") is not None:
        return
    daily = () if module in _ON_SERVERS_DAILY else (pytest.mark.slow,)
    pairs = [
        pytest.param(backends.EMBEDDED, id=backends.EMBEDDED),
        pytest.param(backends.SERVERS, id=backends.SERVERS, marks=daily),
        *(pytest.param(pair, id=pair, marks=pytest.mark.slow) for pair in backends.MIXED),
    ]
    metafunc.parametrize("backend", pairs, indirect=True)


@pytest.fixture(autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The pair of database and store that the test's hubs work on."""
    name = getattr(request, "param", backends.EMBEDDED)
    with backends.use(name):
        yield name


class _SharedHubs:
    """One running hub for each pair, from its first use to the end of the session."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._hubs: dict[str, RunningHub] = {}
        self._stack = ExitStack()

    def get(self, backend: str) -> RunningHub:
        """The hub on the pair that is in use."""
        if backend not in self._hubs:
            data = self._folders.mktemp("hub") / "data"
            self._hubs[backend] = self._stack.enter_context(run_hub(data))
        return self._hubs[backend]

    def close(self) -> None:
        """Stop them."""
        self._stack.close()


@pytest.fixture(scope="session")
def _shared_hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_SharedHubs]:
    hubs = _SharedHubs(tmp_path_factory)
    yield hubs
    hubs.close()


@pytest.fixture
def hub(backend: str, _shared_hubs: _SharedHubs) -> RunningHub:
    """A real hub process; one for the whole session and pair."""
    return _shared_hubs.get(backend)


@pytest.fixture
def hub_data(tmp_path: Path) -> Path:
    """Where a test makes a hub of its own."""
    return tmp_path / "hub"


@pytest.fixture
def here(tmp_path: Path) -> Settings:
    """A hub without the SDK, into which another index is mirrored."""
    settings = backends.settings_of(tmp_path / "here")
    admin.init(settings, "ada", with_sdk=False)
    return settings


@pytest.fixture
def name() -> str:
    """An environment's name that is claimed by nobody yet."""
    return f"maze-{uuid.uuid4().hex[:12]}"
