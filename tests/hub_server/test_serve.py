"""A hub starts, says how it is, and stops without cutting anybody off."""

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from strop.errors import ConfigError
from strop_hub import migration
from strop_hub.db import Database
from strop_hub.serve import serve
from strop_hub.settings import Settings
from tests.factories import an_upload
from tests.hub_server.checking import check_whole
from tests.hub_server.running_hub import STOP_S, RunningHub, run_hub
from tests.waiting import wait_until


def test_health_and_readiness_are_told(hub: RunningHub) -> None:
    healthy, ready = hub.get("/healthz").json(), hub.get("/readyz").json()

    assert healthy["status"] == ready["status"] == "ok"
    assert healthy["version"] == hub.get("/healthz").headers["strop-hub"]
    assert ready["checks"] == {"database": "ok", "storage": "ok", "users": "ok"}


def test_a_hub_without_users_tells_how_to_make_one(tmp_path: Path) -> None:
    from strop_hub.app import create_app

    settings = Settings.read({}, data=tmp_path / "hub")
    app = create_app(settings)
    migration.migrate(app.state.hub.database)
    transport = httpx.ASGITransport(app=app)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://hub.test") as client:
            return await client.get("/readyz")

    import asyncio

    response = asyncio.run(ask())
    app.state.hub.close()

    assert response.status_code == 200
    assert "strop hub init" in response.json()["checks"]["users"]


@pytest.mark.embedded
def test_what_is_amiss_makes_it_not_ready_and_still_alive(hub_data: Path) -> None:
    with run_hub(hub_data) as hub:
        shutil.rmtree(hub.settings.blobs)
        no_storage = hub.get("/readyz")
        hub.settings.blobs.mkdir()
        database = Database.open(hub.settings.database)
        migration.downgrade(database, "base")
        database.close()
        no_schema = hub.get("/readyz")
        alive = hub.get("/healthz")
        catalog = hub.get("/api/v1/environments")

    assert no_storage.status_code == 503
    assert "folder of blobs" in no_storage.json()["checks"]["storage"]
    assert no_schema.status_code == 503
    assert "restart the hub" in no_schema.json()["checks"]["database"]
    assert alive.status_code == 200
    assert catalog.status_code == 503
    assert catalog.json()["code"] == "storage_unavailable"


def test_an_upload_under_way_is_finished_before_the_hub_stops(
    hub_data: Path, tmp_path: Path
) -> None:
    upload = an_upload(tmp_path)
    with run_hub(hub_data) as hub:
        owner, token = hub.new_user()
        request = httpx.Request("POST", hub.url, **upload.form())
        body = request.read()

        def slowly() -> Iterator[bytes]:
            yield body[:200]
            # It is under way once the hub has taken its connection.
            wait_until(lambda: any(hub.settings.uploads.iterdir()))
            hub.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            yield body[200:]

        with hub.client(token) as client:
            response = client.post(
                f"/api/v1/owners/{owner}/versions",
                content=slowly(),
                headers={"content-type": request.headers["content-type"]},
            )
        hub.process.wait(STOP_S)

        assert response.status_code == 201, response.text
        assert check_whole(hub.settings) == 1


def test_a_port_that_is_taken_is_named(hub: RunningHub, tmp_path: Path) -> None:
    taken = httpx.URL(hub.url).port
    settings = Settings.read({}, data=tmp_path / "hub", port=taken)

    with pytest.raises(ConfigError, match="Choose another --port"):
        serve(settings)


def test_uploads_that_a_crash_left_are_removed_and_living_ones_are_not(tmp_path: Path) -> None:
    from strop_hub.publish.staging import staging_folder, sweep

    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "wheel").write_bytes(b"half")
    (tmp_path / "stray").write_bytes(b"")
    with staging_folder(tmp_path) as folder:
        (folder / "wheel").write_bytes(b"half")

        assert sweep(tmp_path) == 1
        assert folder.is_dir()
        assert not (tmp_path / "left").exists()
    assert not folder.exists()


def test_many_uploads_and_sweeps_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    from strop_hub.publish.staging import staging_folder, sweep

    is_over = threading.Event()

    def sweep_on() -> None:
        while not is_over.is_set():
            sweep(tmp_path)

    sweeper = threading.Thread(target=sweep_on)
    sweeper.start()
    try:
        for _ in range(300):
            with staging_folder(tmp_path) as folder:
                (folder / "wheel").write_bytes(b"half")
                assert (folder / "wheel").read_bytes() == b"half"
    finally:
        is_over.set()
        sweeper.join()
