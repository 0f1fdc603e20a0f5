"""A mirror that is killed at any moment loses nothing and does nothing twice."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from strop_hub import admin
from strop_hub.models import Environment, Event, Version
from strop_hub.publish.staging import sweep
from strop_hub.settings import Settings
from strop_hub.upkeep.mirror import mirror
from strop_hub.upkeep.verify import verify
from tests.hub_server.author import API, Author
from tests.hub_server.checking import check_whole, uploads_under_way
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.servers.processes import ending_with_us
from tests.waiting import wait_until

PREFIX = "far"
KILLED = -signal.SIGKILL
KILL_COUNT = 24
MOST_EVENTS = 5
MOST_DELAY_S = 0.05
"""Of the random time that a kill comes after the events that it waits for."""


@pytest.mark.embedded
@pytest.mark.parametrize(
    "point", ["publish.announce", pytest.param("publish.commit", marks=pytest.mark.slow)]
)
def test_a_mirror_killed_right_before_or_after_a_commit_ends_with_the_same_feed(
    hub_data: Path, tmp_path: Path, here: Settings, point: str
) -> None:
    with run_hub(hub_data) as there:
        author = Author.new(there, tmp_path / "packages")
        make_history(author, "maze", version_count=2)
        assert start_mirror(here, there.url, point).wait() == KILLED
        finish_mirror(here, there)

    assert_same_feed(here, there.settings)


@pytest.mark.embedded
@pytest.mark.slow
def test_a_mirror_killed_at_random_moments_ends_with_the_same_feed(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    chance, kill_count = random.Random(11), 0
    with run_hub(hub_data) as there:
        author = Author.new(there, tmp_path / "packages")
        for number in range(12):
            make_history(author, f"maze-{number}", version_count=8)
        while kill_count < KILL_COUNT and kill_mirror(here, there.url, chance):
            kill_count += 1
            check_whole(here)
        finish_mirror(here, there)

    assert_same_feed(here, there.settings)
    assert kill_count >= KILL_COUNT / 3
    with run_hub(here.data, "ada") as mirrored:
        # It answers once it has started, which ends with what the killed ones have left.
        assert mirrored.get("/healthz").is_success
        assert uploads_under_way(here) == []


@pytest.mark.embedded
def test_a_mirror_keeps_what_it_fetches_from_a_hub_that_starts_beside_it(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    is_over = threading.Event()

    def sweep_again_and_again() -> None:
        while not is_over.is_set():
            sweep(here.uploads)

    with run_hub(hub_data) as there:
        author = Author.new(there, tmp_path / "packages")
        make_history(author, "maze", version_count=3)
        sweeper = threading.Thread(target=sweep_again_and_again)
        sweeper.start()
        try:
            finish_mirror(here, there)
        finally:
            is_over.set()
            sweeper.join()

    assert_same_feed(here, there.settings)


def make_history(author: Author, name: str, version_count: int) -> None:
    """Publish versions; then tag, deprecate and yank, each once."""
    author.publish(name, *(f"1.{number}" for number in range(version_count)))
    path = f"{API}/{author.owner}/{name}"
    with author.hub.client(author.token) as client:
        assert client.put(f"{path}/tags/stable", json={"version": "1.1"}).is_success
        status = {"status": "deprecated", "reason": "use labyrinth"}
        assert client.put(f"{path}/status", json=status).is_success
    author.yank(name, "1.0", "leaky grader")


def start_mirror(here: Settings, url: str, failpoint: str = "") -> subprocess.Popen[bytes]:
    strop = str(Path(sys.executable).with_name("strop"))
    command = [strop, "hub", "mirror", url, "--as", PREFIX, "--data", str(here.data), "--json"]
    return subprocess.Popen(
        [*ending_with_us(signal.SIGKILL), *command],
        env=os.environ | {"STROP_HUB_FAILPOINT": failpoint},
        stdout=subprocess.DEVNULL,
    )


def kill_mirror(here: Settings, url: str, chance: random.Random) -> bool:
    """Kill a mirror once it got on; False when it had come to the end."""
    wanted = serial_of(here) + chance.randint(1, MOST_EVENTS)
    process = start_mirror(here, url)
    wait_until(lambda: serial_of(here) >= wanted or process.poll() is not None)
    time.sleep(chance.uniform(0, MOST_DELAY_S))
    process.kill()
    status = process.wait()
    assert status in (0, KILLED)
    return status == KILLED


def finish_mirror(here: Settings, there: RunningHub) -> None:
    """Let a mirror go on to the end of the feed."""
    with admin.open_hub(here) as hub:
        result = mirror(hub, there.url, PREFIX)
    last_serial = there.get("/api/v1/changes?since=0").json()["last_serial"]
    assert result.skipped == []
    assert result.serial == serial_of(here) == last_serial


def serial_of(here: Settings) -> int:
    """How far the feed was followed, by what the next run will read."""
    state = here.data / "mirrors" / f"{PREFIX}.json"
    return int(json.loads(state.read_text())["serial"]) if state.is_file() else 0


def assert_same_feed(here: Settings, there: Settings) -> None:
    """Each event of the other hub was done once, in its order, with the same bytes."""
    assert feed_of(here) == feed_of(there)
    assert versions_of(here) == versions_of(there)
    assert check_whole(here) == len(versions_of(there))
    with admin.open_hub(here) as hub:
        assert verify(hub).differences == []


def feed_of(settings: Settings) -> list[tuple[Any, ...]]:
    statement = (
        select(Event.action, Environment.name, Event.version)
        .join(Environment, Environment.id == Event.environment_id)
        .order_by(Event.serial)
    )
    with admin.open_hub(settings) as hub, hub.database.read() as session:
        return [tuple(row) for row in session.execute(statement)]


def versions_of(settings: Settings) -> list[tuple[Any, ...]]:
    statement = (
        select(Environment.name, Version.version, Version.digest, Version.yank_reason)
        .join(Environment, Environment.id == Version.environment_id)
        .order_by(Environment.name, Version.sort_key)
    )
    with admin.open_hub(settings) as hub, hub.database.read() as session:
        return [tuple(row) for row in session.execute(statement)]
