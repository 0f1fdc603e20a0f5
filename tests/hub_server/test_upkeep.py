"""Operators verify, collect, back up and move a hub, on every database and store."""

import hashlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from strop.errors import ConfigError
from strop.hub.refs import EnvRef
from strop.hub.wire import PushOutcome
from strop_hub import admin
from strop_hub.accounts import service as accounts
from strop_hub.audit.service import Act
from strop_hub.auth import caller_of
from strop_hub.db import now
from strop_hub.hub import Hub
from strop_hub.models import Environment, File, Lease, Owner
from strop_hub.publish import failpoints, sdk
from strop_hub.publish.record import Order
from strop_hub.publish.service import publish_files
from strop_hub.publish.validate import SOURCE, WHEEL, examine
from strop_hub.releases import operator
from strop_hub.releases.deletion import PURGE_LOG, read_purges
from strop_hub.settings import Settings
from strop_hub.storage import open_storage
from strop_hub.upkeep.collect import CollectionHeldError, collect
from strop_hub.upkeep.dump import back_up, restore
from strop_hub.upkeep.verify import verify
from tests.factories import AnUpload, an_upload, sha256_of
from tests.hub_server import backends
from tests.hub_server.checking import check_whole, lose_blob
from tests.hub_server.running_hub import run_hub
from tests.hub_server.test_upkeep_commands import hub_command

OWNER = "ada"


@dataclass
class FilledHub:
    """A hub of one author, without a server."""

    settings: Settings
    folder: Path

    def push(self, name: str, version: str) -> PushOutcome:
        upload = an_upload(self.folder / name / version, name=name, version=version)
        return self.push_files(upload)

    def push_files(self, upload: AnUpload) -> PushOutcome:
        with admin.open_hub(self.settings) as hub:
            assert upload.source is not None
            files = {WHEEL: sdk.received(upload.wheel), SOURCE: sdk.received(upload.source)}
            candidate = examine(files, {})
            with hub.database.read() as session:
                caller = caller_of(session, accounts.find_user(session, OWNER))
            order = Order(caller, OWNER, candidate, None, Act("publish", "by a test"))
            return publish_files(hub, order).outcome


@pytest.fixture
def filled(hub_data: Path, tmp_path: Path) -> FilledHub:
    settings = backends.settings_of(hub_data)
    admin.init(settings, OWNER, with_sdk=False)
    hub = FilledHub(settings, tmp_path / "packages")
    hub.push("maze", "1.0")
    hub.push("maze", "1.1")
    return hub


@contextmanager
def opened(settings: Settings) -> Iterator[Hub]:
    with admin.open_hub(settings) as hub:
        yield hub


def put_orphan(hub: Hub, content: bytes = b"orphan") -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    # Behind the hub's back, so that no lease is taken.
    open_storage(hub.settings).put_bytes(sha256, content)
    return sha256


def test_a_hub_that_is_whole_verifies_clean(filled: FilledHub) -> None:
    with opened(filled.settings) as hub:
        report = verify(hub)

    assert report.differences == []
    assert report.version_count == 2
    assert report.blob_count >= 4


def test_a_quarantined_version_is_no_difference(filled: FilledHub) -> None:
    with opened(filled.settings) as hub:
        operator.quarantine(hub, EnvRef.parse(f"{OWNER}/maze@1.1"), "leaky grader")

        assert verify(hub).differences == []


def test_everything_that_differs_is_named(filled: FilledHub) -> None:
    with opened(filled.settings) as hub:
        with hub.database.read() as session:
            first, second, *_ = session.query(File).order_by(File.id).all()
        lose_blob(filled.settings, first.sha256)

        def spoil(session: object) -> None:
            session.execute(update(Owner).values(stored_bytes=7))  # type: ignore[attr-defined]
            session.execute(  # type: ignore[attr-defined]
                update(File).where(File.id == second.id).values(size_bytes=1)
            )
            session.execute(  # type: ignore[attr-defined]
                update(Environment).values(latest_version_id=10_000)
            )

        hub.database.write(spoil)
        found = {(one.subject, one.detail) for one in verify(hub).differences}

    subjects = {subject for subject, _ in found}
    assert f"blob {first.sha256}" in subjects
    assert {first.filename, second.filename} <= subjects
    assert any("its row says 7" in detail for _, detail in found)
    assert any("latest version is none" in detail for _, detail in found)


@pytest.mark.embedded
def test_changed_bytes_are_named_with_their_digest(filled: FilledHub) -> None:
    blob = next(path for path in filled.settings.blobs.rglob("*") if path.is_file())
    blob.chmod(0o644)
    blob.write_bytes(b"changed")

    with opened(filled.settings) as hub:
        report = verify(hub)

    assert any("has other bytes" in one.detail for one in report.differences)


def test_collection_removes_old_orphans_and_nothing_else(filled: FilledHub) -> None:
    with opened(filled.settings) as hub:
        orphan = put_orphan(hub)
        assert collect(hub, grace_s=3600).kept_count >= 1
        assert hub.storage.has(orphan)
        assert collect(hub, grace_s=0, is_trial=True).removed_count >= 1
        assert hub.storage.has(orphan)

        result = collect(hub, grace_s=-5)

        assert result.removed_count >= 1
        assert not hub.storage.has(orphan)
        assert verify(hub).differences == []
    assert check_whole(filled.settings) == 2


def test_a_leased_blob_is_spared_until_the_lease_ends(filled: FilledHub) -> None:
    with opened(filled.settings) as hub:
        orphan = put_orphan(hub)
        hub.storage.lease([orphan])
        collect(hub, grace_s=-5)
        assert hub.storage.has(orphan)

        ended = update(Lease).values(expires_at=now() - timedelta(seconds=1))
        hub.database.write(lambda session: session.execute(ended))
        collect(hub, grace_s=-5)

        assert not hub.storage.has(orphan)


def test_what_collection_took_is_written_again_by_the_next_push(
    filled: FilledHub, tmp_path: Path
) -> None:
    upload = an_upload(tmp_path / "x", name="again", version="1.0")
    with opened(filled.settings) as hub:
        open_storage(hub.settings).put_file(sha256_of(upload.wheel), upload.wheel)
        collect(hub, grace_s=-5)
        assert not hub.storage.has(sha256_of(upload.wheel))

        assert filled.push_files(upload) is PushOutcome.PUBLISHED
        collect(hub, grace_s=-5)

    assert check_whole(filled.settings) == 3


def test_pushes_and_collections_at_once_lose_nothing(filled: FilledHub) -> None:
    is_over = threading.Event()

    def collect_on() -> None:
        with opened(filled.settings) as hub:
            while not is_over.is_set():
                collect(hub, grace_s=-5)

    collector = threading.Thread(target=collect_on)
    collector.start()
    try:
        outcomes = [filled.push("busy", f"1.{number}") for number in range(8)]
    finally:
        is_over.set()
        collector.join()

    assert outcomes == [PushOutcome.PUBLISHED] * 8
    assert check_whole(filled.settings) == 10


def test_a_purge_whose_command_was_killed_is_finished_once_by_all_that_collect(
    filled: FilledHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, day_s = filled.settings.data, 24 * 3600
    with monkeypatch.context() as patch, opened(filled.settings) as hub:
        before = {blob.sha256 for blob in hub.storage.blobs()}
        patch.setenv(failpoints.VARIABLE, failpoints.PURGE[0])
        killed = hub_command(data, "purge", f"{OWNER}/maze@1.1", "--reason", "a key", "--yes")
    assert killed.code == -signal.SIGKILL
    with ExitStack() as stack:
        hubs = [stack.enter_context(opened(filled.settings)) for _ in range(4)]
        assert collect(hubs[0], grace_s=day_s, is_trial=True).kept_count > 0
        assert ({blob.sha256 for blob in hubs[0].storage.blobs()}, read_purges(data)) == (
            before,
            [],
        )
        (difference,) = verify(hubs[0]).differences
        assert difference.subject == f"{OWNER}/maze@1.1"
        together = threading.Barrier(len(hubs))

        def finish(hub: Hub) -> int:
            together.wait()
            # Neither grace nor the lease of what was just put keeps it.
            return collect(hub, grace_s=day_s).removed_count

        with ThreadPoolExecutor(len(hubs)) as pool:
            assert set(pool.map(finish, hubs)) == {0}

        assert len((data / PURGE_LOG).read_text().splitlines()) == 1
        (record,) = read_purges(data)
        report = verify(hubs[0])
    assert (report.differences, report.orphan_count, record.reason) == ([], 0, "a key")


def test_a_backup_made_while_the_hub_is_pushed_to_is_whole(
    filled: FilledHub, tmp_path: Path
) -> None:
    pusher = threading.Thread(
        target=lambda: [filled.push("busy", f"1.{number}") for number in range(6)]
    )
    pusher.start()
    with opened(filled.settings) as hub:
        backup = back_up(hub, tmp_path / "backup")
        pusher.join()
        again = back_up(hub, tmp_path / "backup")
    assert 2 <= backup.row_counts["versions"] <= 8
    assert again.row_counts["versions"] == 8
    assert again.copied_count < again.blob_count

    restored = Settings.read({}, data=tmp_path / "restored")
    with opened(restored) as hub:
        restore(hub, tmp_path / "backup")
        assert verify(hub).differences == []
    assert check_whole(restored) == 8


def test_collection_waits_for_a_backup(filled: FilledHub) -> None:
    from strop_hub.upkeep.dump import _collection_held

    with opened(filled.settings) as hub:
        put_orphan(hub)
        with _collection_held(hub), pytest.raises(CollectionHeldError):
            collect(hub, grace_s=-5)
        assert collect(hub, grace_s=-5).removed_count >= 1


def test_a_hub_moves_to_another_database_and_store_and_back(
    filled: FilledHub, tmp_path: Path
) -> None:
    other = "postgres+s3" if backends.is_embedded() else "sqlite+folder"
    with opened(filled.settings) as hub:
        back_up(hub, tmp_path / "moved")
    with backends.use(other):
        data = tmp_path / "other"
        settings = backends.settings_of(data)
        with opened(settings) as hub:
            restore(hub, tmp_path / "moved")
            assert verify(hub).differences == []
        with run_hub(data, OWNER) as moved:
            owner, token = moved.new_user()
            upload = an_upload(tmp_path / "new", name="new", version="1.0")
            assert moved.push(token, owner, upload).status_code == 201
            assert len(moved.get("/api/v1/environments").json()["items"]) == 2
        assert check_whole(settings) == 3


def test_what_is_no_backup_and_a_hub_with_contents_are_refused(
    filled: FilledHub, tmp_path: Path
) -> None:
    with opened(filled.settings) as hub:
        with pytest.raises(ConfigError, match="no whole backup"):
            restore(hub, tmp_path)
        back_up(hub, tmp_path / "backup")
        with pytest.raises(ConfigError, match="has contents"):
            restore(hub, tmp_path / "backup")
        summary = tmp_path / "backup" / "backup.json"
        document = json.loads(summary.read_text()) | {"revision": "0000"}
        summary.write_text(json.dumps(document))
        with pytest.raises(ConfigError, match="schema 0000"):
            restore(hub, tmp_path / "backup")


@pytest.mark.embedded
def test_the_commands_do_the_same(filled: FilledHub, tmp_path: Path) -> None:
    def strop(*arguments: str, data: Path | None = None) -> tuple[int, str]:
        command = [str(Path(sys.executable).with_name("strop")), "hub", *arguments, "--data"]
        answer = subprocess.run(
            [*command, str(data or filled.settings.data)], capture_output=True, text=True
        )
        return answer.returncode, answer.stdout + answer.stderr

    code, told = strop("export", str(tmp_path / "out"))
    assert (code, "Exported into" in told) == (0, True)
    code, told = strop("import", str(tmp_path / "out"), data=tmp_path / "in")
    assert (code, "Imported from" in told) == (0, True)
    code, text = strop("verify", "--json", data=tmp_path / "in")
    assert code == 0
    assert json.loads(text)["version_count"] == 2
    assert "Would remove" in strop("gc", "--dry-run")[1]
    blob = next(path for path in filled.settings.blobs.rglob("*") if path.is_file())
    blob.unlink()
    assert strop("verify")[0] == 1
