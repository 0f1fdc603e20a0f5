"""Which database and which store of blobs the hubs of a test work on; real ones, started once."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from strop_hub.settings import Settings
from tests.servers.postgres import Postgres, run_postgres
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed, run_seaweed

EMBEDDED = "sqlite+folder"
SERVERS = "postgres+s3"
MIXED = ("sqlite+s3", "postgres+folder")

_servers = ExitStack()
_started: dict[str, Any] = {}
_given: dict[Path, dict[str, str]] = {}
_current = EMBEDDED


def postgres() -> Postgres:
    """The PostgreSQL of this test process."""
    if "postgres" not in _started:
        _started["postgres"] = _servers.enter_context(run_postgres())
    server: Postgres = _started["postgres"]
    return server


def seaweed() -> Seaweed:
    """The S3 store of this test process."""
    if "seaweed" not in _started:
        _started["seaweed"] = _servers.enter_context(run_seaweed())
    server: Seaweed = _started["seaweed"]
    return server


def stop_servers() -> None:
    """End what was started."""
    _servers.close()
    _started.clear()


@contextmanager
def use(backend: str) -> Iterator[None]:
    """Let hubs that are made in the block work on a backend."""
    global _current
    before, _current = _current, backend
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials().items():
            patch.setenv(name, value)
        try:
            yield
        finally:
            _current = before


def credentials() -> dict[str, str]:
    """How every client of the S3 store finds its keys."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def settings_for(data: Path) -> dict[str, str]:
    """Where the hub over the folder `data` keeps things; the same again for the same folder."""
    if data not in _given:
        database, store = _current.split("+")
        given = {}
        if database == "postgres":
            given["database_url"] = postgres().new_database()
        if store == "s3":
            server = seaweed()
            given["storage_url"] = f"s3://{server.new_bucket()}/blobs"
            given["s3_endpoint_url"] = server.url
        _given[data] = given
    return _given[data]


def settings_of(data: Path, **variables: Any) -> Settings:
    """The settings of the hub over the folder `data`."""
    return Settings.read({}, data=data, **settings_for(data), **variables)


def give(data: Path, settings: dict[str, str]) -> None:
    """Let the hub over the folder `data` work on servers that a test has started itself."""
    _given[data] = settings


def is_embedded() -> bool:
    """Whether hubs work on SQLite and a folder now."""
    return _current == EMBEDDED
