"""Many clients at once: no error but the asked-for conflicts, no version and no event lost."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from strop_hub import admin
from strop_hub.upkeep.verify import verify
from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub, run_hub

slow = pytest.mark.slow


PATIENCE_S = 300
"""How long one request may take on a machine that does other things as well."""


class Follower:
    """Reads the change feed by serial, as a mirror does."""

    def __init__(self, hub: RunningHub) -> None:
        self.hub = hub
        self.seen: list[tuple[int, str]] = []
        self.is_over = threading.Event()

    def follow(self) -> None:
        """Follow until told to stop, then once more to the end."""
        with httpx.Client(base_url=self.hub.url, timeout=PATIENCE_S) as client:
            while not self.is_over.wait(0.05):
                self.read(client)
            self.read(client)

    def read(self, client: httpx.Client) -> None:
        """Read what is new."""
        while True:
            since = self.seen[-1][0] if self.seen else 0
            answer = client.get("/api/v1/changes", params={"since": since, "limit": 1000})
            assert answer.status_code == 200, answer.text
            page = answer.json()
            self.seen += [
                (item["serial"], f"{item['name']}@{item['version']}")
                for item in page["items"]
                if item["action"] == "publish"
            ]
            if not page["items"] or page["items"][-1]["serial"] == page["last_serial"]:
                return


def run_load(
    hub: RunningHub, process_count: int, client_count: int, seconds: int
) -> dict[str, int]:
    owner, token = hub.new_user()
    command = [sys.executable, "-m", "tests.hub_server.load_client", hub.url, token, owner]
    clients = [
        subprocess.Popen(
            [*command, str(index), str(client_count), str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(process_count)
    ]
    results = [json.loads(client.communicate()[0]) for client in clients]
    faults = [result["faults"] for result in results if result["faults"]]
    assert faults == [], hub.log.read_text()[-4000:]
    pushed = {name for result in results for name in result["pushed"]}
    with hub.client() as client:
        for start in range(0, len(pushed), 200):
            names = sorted(pushed)[start : start + 200]
            answer = client.post(
                "/api/v1/resolve", json={"references": [f"{owner}/{name}" for name in names]}
            )
            assert all("digest" in item for item in answer.json()["items"])
    with admin.open_hub(hub.settings) as opened:
        report = verify(opened)
    assert report.differences == []
    assert report.version_count == len(pushed)
    return {"pushed": len(pushed), "resolved": sum(result["resolved"] for result in results)}


@pytest.mark.parametrize(
    ("process_count", "client_count", "seconds", "workers"),
    [
        pytest.param(4, 8, 10, 1, id="daily"),
        pytest.param(8, 64, 60, 1, marks=[slow, pytest.mark.timeout(1200)], id="one-process"),
        pytest.param(8, 64, 60, 4, marks=[slow, pytest.mark.timeout(1200)], id="four-processes"),
    ],
)
def test_pushes_and_resolutions_of_many_lose_nothing(
    hub_data: Path, process_count: int, client_count: int, seconds: int, workers: int
) -> None:
    arguments = ("--workers", str(workers))
    with run_hub(hub_data, arguments=arguments, requests_per_minute="0") as hub:
        counts = run_load(hub, process_count, client_count, seconds)

    assert counts["pushed"] >= process_count * client_count
    assert counts["resolved"] >= process_count * client_count


@pytest.mark.parametrize(
    ("writer_count", "push_count"),
    [
        pytest.param(8, 4, id="daily"),
        pytest.param(64, 16, marks=[slow, pytest.mark.timeout(1200)], id="many"),
    ],
)
def test_a_follower_of_the_feed_misses_no_event(
    hub_data: Path, tmp_path: Path, writer_count: int, push_count: int
) -> None:
    uploads = {
        writer: [
            an_upload(tmp_path / f"{writer}-{number}", name=f"w{writer}", version=f"1.{number}")
            for number in range(push_count)
        ]
        for writer in range(writer_count)
    }
    with (
        run_hub(hub_data, arguments=("--workers", "2"), requests_per_minute="0") as hub,
        ThreadPoolExecutor(writer_count + 1) as threads,
    ):
        owner, token = hub.new_user()
        follower = Follower(hub)
        following = threads.submit(follower.follow)

        def write(writer: int) -> list[str]:
            headers = {"authorization": f"Bearer {token}"}
            address = f"{hub.url}/api/v1/owners/{owner}/versions"
            with httpx.Client(headers=headers, timeout=PATIENCE_S) as client:
                answers = [client.post(address, **one.form()) for one in uploads[writer]]
            assert {answer.status_code for answer in answers} == {201}, answers[-1].text
            return [f"w{writer}@1.{number}" for number in range(push_count)]

        try:
            wanted = {name for names in threads.map(write, uploads) for name in names}
        finally:
            follower.is_over.set()
        following.result(PATIENCE_S)

    assert len(wanted) == writer_count * push_count
    assert {name for _, name in follower.seen} == wanted
    serials = [serial for serial, _ in follower.seen]
    assert serials == list(range(1, len(serials) + 1))
