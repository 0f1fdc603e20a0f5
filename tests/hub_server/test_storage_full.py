"""A full disk refuses a push with its cause, leaves nothing, and needs no hand afterwards."""

import random
import re
import resource
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from sqlalchemy import event, text

from strop_hub.db import Database, sqlite_url
from strop_hub.errors import StorageFullError
from strop_hub.settings import MIB
from tests.factories import AnUpload, an_upload, sha256_of
from tests.hub_server import backends
from tests.hub_server.checking import check_whole, uploads_under_way
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.hub_server.test_outages import assert_clean
from tests.hub_server.test_push import assert_refused
from tests.servers.postgres import run_postgres
from tests.servers.processes import UNPRIVILEGED_ID, private_folder
from tests.servers.small_disk import can_mount, fill, fill_entries, make_space, on_small_disk

FILE_LIMIT_BYTES = 3_000_000
"""No file of the hub can grow above it: to a program that looks the same as a full disk."""

SMALL_DISK_BYTES = 16 * MIB
MOST_PUSHES = 200
"""What a full disk may still take: into pages that a database has already."""

NEEDS_MOUNT = pytest.mark.skipif(not can_mount(), reason="this user may not mount a small disk")


def a_large_upload(folder: Path, name: str = "large") -> AnUpload:
    # Only the packed file must be larger than the limit.
    content = random.Random(name).randbytes(2 * FILE_LIMIT_BYTES).hex()
    return an_upload(folder, name=name, files={f"{name}.py": f"# {content}"})


def repacked(upload: AnUpload) -> AnUpload:
    """The same upload, whose wheel is packed as small as can be."""
    with zipfile.ZipFile(upload.wheel) as archive:
        contents = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(upload.wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in contents.items():
            archive.writestr(member, content)
    return replace(upload, fields=upload.fields | {"wheel_sha256": sha256_of(upload.wheel)})


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


@pytest.mark.embedded
def test_a_limit_that_a_blob_or_the_database_reaches_is_no_space_and_needs_no_hand_later(
    hub_data: Path, tmp_path: Path
) -> None:
    first, second = (an_upload(tmp_path / v, name="maze", version=v) for v in ("1.0", "1.1"))
    # Packed it is below the limit; its README, a blob of its own, is not.
    wordy = repacked(an_upload(tmp_path, readme="# Maze\n" * (FILE_LIMIT_BYTES // 6)))
    assert wordy.wheel.stat().st_size < FILE_LIMIT_BYTES
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        assert hub.push(token, owner, first).status_code == 201
        limit_files(hub, FILE_LIMIT_BYTES)
        no_blob = hub.push(token, owner, wordy)
        # The files of an upload are smaller, what the database writes at once is not.
        limit_files(hub, 8192)
        no_rows = hub.push(token, owner, second)

        detail = assert_refused(no_blob, 507, "storage_full")
        assert re.search(r"hub's disk for blob [0-9a-f]{64} \(File too large\)", detail)
        assert "disk of the hub's database" in assert_refused(no_rows, 507, "storage_full")
        assert_read(hub, owner, token, first)
        assert check_whole(hub.settings) == 1

        limit_files(hub, resource.RLIM_INFINITY)
        for upload in (wordy, second):
            assert hub.push(token, owner, upload).status_code == 201
        assert check_whole(hub.settings) == 3


@NEEDS_MOUNT
@pytest.mark.embedded
@pytest.mark.slow
def test_a_disk_without_room_for_a_folder_is_named(hub_data: Path, tmp_path: Path) -> None:
    first, upload = (an_upload(tmp_path / v, version=v) for v in ("1.0", "1.1"))

    def use() -> None:
        with run_hub(hub_data) as hub:
            owner, token = hub.new_user()
            # The database is open, with the files that it needs for that.
            assert hub.push(token, owner, first).status_code == 201
            fill_entries(hub_data)
            refused = hub.push(token, owner, upload)
            assert "No space left" in assert_refused(refused, 507, "storage_full")
            make_space(hub_data)
            assert hub.push(token, owner, upload).status_code == 201

    on_small_disk(hub_data, SMALL_DISK_BYTES, use)


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


@NEEDS_MOUNT
@pytest.mark.embedded
def test_a_push_into_a_full_database_is_refused_and_needs_no_hand_later(
    hub_data: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"

    def use() -> None:
        backends.give(hub_data, {"database_url": sqlite_url(disk / "hub.sqlite3")})
        fill_while_pushing(disk, hub_data, tmp_path)

    on_small_disk(disk, SMALL_DISK_BYTES, use)


@NEEDS_MOUNT
@pytest.mark.embedded
@pytest.mark.slow
def test_a_push_into_a_full_postgresql_is_refused_and_needs_no_hand_later(
    hub_data: Path, tmp_path: Path
) -> None:
    with private_folder("disk", owner_id=UNPRIVILEGED_ID) as parent:
        disk = parent / "disk"

        def use() -> None:
            with run_postgres() as server:
                backends.give(hub_data, {"database_url": server.new_database(disk / "space")})
                fill_while_pushing(disk, hub_data, tmp_path)

        on_small_disk(disk, 2 * SMALL_DISK_BYTES, use)


def fill_while_pushing(disk: Path, hub_data: Path, packages: Path) -> None:
    uploads = (
        an_upload(packages / str(number), name="maze", version=f"1.{number}")
        for number in range(MOST_PUSHES)
    )
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        first = next(uploads)
        assert hub.push(token, owner, first).status_code == 201
        fill(disk)

        upload, refused, taken_count = push_until_refused(hub, token, owner, uploads)
        detail = assert_refused(refused, 507, "storage_full")
        assert "disk of the hub's database" in detail
        assert refused.headers["content-type"] == "application/problem+json"
        assert_read(hub, owner, token, first)
        assert uploads_under_way(hub.settings) == []
        assert check_whole(hub.settings) == 1 + taken_count

        make_space(disk)
        assert hub.push(token, owner, upload).status_code == 201
        assert check_whole(hub.settings) == 2 + taken_count
        assert_clean(hub.settings)


def push_until_refused(
    hub: RunningHub, token: str, owner: str, uploads: Iterator[AnUpload]
) -> tuple[AnUpload, httpx.Response, int]:
    """The first upload that a full database does not take, its answer, and how many went before."""
    for count, upload in enumerate(uploads):
        answer = hub.push(token, owner, upload)
        if answer.status_code != 201:
            return upload, answer, count
    raise AssertionError("a full database took every push")


def assert_read(hub: RunningHub, owner: str, token: str, upload: AnUpload) -> None:
    """Pages that were never asked for come from the database, with and without a token."""
    files = f"/owners/{owner}/files/maze"
    assert hub.get(f"{files}/{upload.wheel.name}").content == upload.wheel.read_bytes()
    assert hub.get(f"/owners/{owner}/simple/maze/").status_code == 200
    assert hub.get(f"/api/v1/environments/{owner}/maze", token).json()["name"] == "maze"
    assert hub.get("/simple/never-asked-for/").status_code == 404
