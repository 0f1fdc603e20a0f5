"""The database, the store and the hub itself may go away at any moment; nothing is half-done."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from strop_hub import admin
from strop_hub.settings import Settings
from strop_hub.upkeep.verify import verify
from tests.factories import AnUpload, an_upload
from tests.hub_server import backends
from tests.hub_server.checking import check_whole
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.servers.postgres import Postgres, run_postgres
from tests.servers.seaweed import Seaweed, run_seaweed

DAILY_PUSHES = 40
SLOW_PUSHES = 500
KILL_SHARE = 0.25
RECOVERY_S = 120


@contextmanager
def servers_of_its_own() -> Iterator[tuple[Postgres, Seaweed]]:
    with run_postgres() as database, run_seaweed() as store:
        yield database, store


def variables(database: Postgres | None, store: Seaweed | None) -> dict[str, str]:
    given = {}
    if database is not None:
        given["database_url"] = database.new_database()
    if store is not None:
        given["storage_url"] = f"s3://{store.new_bucket()}"
        given["s3_endpoint_url"] = store.url
    return given


@pytest.mark.embedded
def test_without_the_store_reads_go_on_and_pushes_wait_for_it(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_seaweed() as store:
        backends.give(hub_data, variables(None, store))
        with run_hub(hub_data) as hub:
            owner, token = hub.new_user()
            first, second = (
                an_upload(tmp_path / v, name="maze", version=v) for v in ("1.0", "1.1")
            )
            assert hub.push(token, owner, first).status_code == 201
            file = f"/owners/{owner}/files/maze/{first.wheel.name}"
            known = hub.get(f"{file}.metadata").content
            assert hub.get(file).content == first.wheel.read_bytes()
            store.kill()

            refused = hub.push(token, owner, second)
            answers = [hub.get(f"/owners/{owner}/simple/maze/"), hub.get("/api/v1/environments")]
            still = hub.get(f"{file}.metadata")
            ready = hub.get("/readyz")
            store.start()
            accepted = push_until_it_works(hub, token, owner, second)

        assert (refused.status_code, refused.json()["code"]) == (503, "storage_unavailable")
        assert "bucket" in refused.json()["detail"]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert (still.status_code, still.content) == (200, known)
        assert ready.status_code == 503
        assert accepted.status_code == 201
        assert check_whole(hub.settings) == 2


@pytest.mark.embedded
def test_without_the_database_known_pages_go_on_and_it_recovers_by_itself(
    hub_data: Path, tmp_path: Path
) -> None:
    with run_postgres() as database:
        backends.give(hub_data, variables(database, None))
        with run_hub(hub_data) as hub:
            owner, token = hub.new_user()
            first, second = (
                an_upload(tmp_path / v, name="maze", version=v) for v in ("1.0", "1.1")
            )
            assert hub.push(token, owner, first).status_code == 201
            page = hub.get(f"/owners/{owner}/simple/maze/").text
            database.kill()

            refused = hub.push(token, owner, second)
            known = hub.get(f"/owners/{owner}/simple/maze/")
            unknown = hub.get("/simple/never-asked-for/")
            healthy = hub.get("/healthz")
            database.start()
            accepted = push_until_it_works(hub, token, owner, second)

        assert (refused.status_code, refused.json()["code"]) == (503, "storage_unavailable")
        assert "the hub's database" in refused.json()["detail"]
        assert str(database.port) not in refused.text
        assert (known.status_code, known.text) == (200, page)
        assert unknown.status_code == 503
        assert healthy.status_code == 200
        assert accepted.status_code == 201
        assert check_whole(hub.settings) == 2


def push_until_it_works(
    hub: RunningHub, token: str, owner: str, upload: AnUpload
) -> httpx.Response:
    until = time.monotonic() + RECOVERY_S
    while True:
        answer = hub.push(token, owner, upload)
        if answer.status_code in (200, 201) or time.monotonic() > until:
            return answer
        time.sleep(0.2)


@dataclass
class Chaos:
    """A hub on servers of its own, each of which can be killed and comes back."""

    data: Path
    database: Postgres
    store: Seaweed
    owner: str = "ada"
    token: str = ""
    hub: RunningHub | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    kill_count: int = 0

    def start_hub(self) -> None:
        self.hub = self.stack.enter_context(run_hub(self.data, self.owner))
        self.token = self.hub.admin_token

    def push(self, upload: AnUpload) -> int:
        """The status of one push; 0 when nobody answered."""
        assert self.hub is not None
        try:
            return self.hub.push(self.token, self.owner, upload).status_code
        except httpx.TransportError:
            return 0

    def push_while_something_dies(self, upload: AnUpload) -> int:
        """Push, and kill one of the three meanwhile; it is started again afterwards."""
        victim = self.chance.choice(("hub", "database", "store"))
        delay_s = self.chance.uniform(0, 0.15)
        statuses: list[int] = []
        pusher = threading.Thread(target=lambda: statuses.append(self.push(upload)))
        pusher.start()
        time.sleep(delay_s)
        self.kill(victim)
        pusher.join()
        self.revive(victim)
        self.kill_count += 1
        return statuses[0]

    def kill(self, victim: str) -> None:
        assert self.hub is not None
        if victim == "hub":
            with suppress(ProcessLookupError):
                os.kill(self.hub.process.pid, signal.SIGKILL)
            self.hub.process.wait()
        else:
            getattr(self, victim).kill()

    def revive(self, victim: str) -> None:
        if victim == "hub":
            self.stack.close()
            self.start_hub()
        else:
            getattr(self, victim).start()


@pytest.mark.parametrize(
    "push_count",
    [DAILY_PUSHES, pytest.param(SLOW_PUSHES, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_pushes_while_hub_database_and_store_are_killed_are_whole_or_absent(
    tmp_path: Path, push_count: int
) -> None:
    data = tmp_path / "hub"
    uploads = [
        an_upload(tmp_path / str(number), name=f"env-{number % 5}", version=f"1.{number}")
        for number in range(push_count)
    ]
    with backends.use(backends.SERVERS), servers_of_its_own() as (database, store):
        backends.give(data, variables(database, store))
        chaos = Chaos(data, database, store)
        chaos.start_hub()
        try:
            for upload in uploads:
                is_hit = chaos.chance.random() < KILL_SHARE
                status = chaos.push_while_something_dies(upload) if is_hit else chaos.push(upload)
                assert status in (0, 201, 503), status
            assert chaos.hub is not None
            check_whole(chaos.hub.settings)
            again = [
                push_until_it_works(chaos.hub, chaos.token, chaos.owner, upload).status_code
                for upload in uploads
            ]
            assert set(again) <= {200, 201}
            assert check_whole(chaos.hub.settings) == push_count
            assert_clean(chaos.hub.settings)
        finally:
            chaos.stack.close()
    assert chaos.kill_count >= push_count * KILL_SHARE / 3


def assert_clean(settings: Settings) -> None:
    with admin.open_hub(settings) as hub:
        assert verify(hub).differences == []
