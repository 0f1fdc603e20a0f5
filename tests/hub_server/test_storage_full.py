"""A full disk refuses a push with its cause, leaves nothing, and needs no hand afterwards."""

import random
import resource
from pathlib import Path

import pytest
from sqlalchemy import event, text

from strop_hub.db import Database, sqlite_url
from strop_hub.errors import StorageFullError
from tests.factories import AnUpload, an_upload
from tests.hub_server.checking import check_whole, uploads_under_way
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.hub_server.test_push import assert_refused

FILE_LIMIT_BYTES = 3_000_000
"""No file of the hub can grow above it: to a program that looks the same as a full disk."""


def a_large_upload(folder: Path, name: str = "large") -> AnUpload:
    # Only the packed file must be larger than the limit.
    content = random.Random(name).randbytes(2 * FILE_LIMIT_BYTES).hex()
    return an_upload(folder, name=name, files={f"{name}.py": f"# {content}"})


def limit_files(hub: RunningHub, size_bytes: int) -> None:
    _, hard = resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


def test_a_disk_that_fills_while_receiving_is_named_and_left_clean(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        upload = a_large_upload(tmp_path)
        limit_files(hub, FILE_LIMIT_BYTES)

        response = hub.push(token, owner, upload)

        assert "no space is left" in assert_refused(response, 507, "storage_full")
        assert uploads_under_way(hub.settings) == []
        assert check_whole(hub.settings) == 0
        assert hub.push(token, owner, an_upload(tmp_path, name="small")).status_code == 201

        limit_files(hub, resource.RLIM_INFINITY)
        assert hub.push(token, owner, upload).status_code == 201
        assert check_whole(hub.settings) == 2


def test_a_full_database_is_named_and_changes_nothing(tmp_path: Path) -> None:
    database = Database.open(sqlite_url(tmp_path / "hub.sqlite3"))
    with database.writing_engine.begin() as connection:
        connection.execute(text("CREATE TABLE notes (content TEXT)"))

    @event.listens_for(database.engine, "checkout")
    def _limit_pages(connection: object, *_: object) -> None:
        connection.execute("PRAGMA max_page_count = 10")  # type: ignore[attr-defined]

    with pytest.raises(StorageFullError, match="database"):
        database.write(
            lambda session: session.execute(
                text("INSERT INTO notes VALUES (:content)"), {"content": "x" * 1_000_000}
            )
        )

    with database.read() as session:
        assert session.scalar(text("SELECT count(*) FROM notes")) == 0
    database.close()
