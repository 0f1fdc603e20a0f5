"""Files far larger than a server's memory should be go up and down in constant memory."""

import base64
import hashlib
import random
import zipfile
from pathlib import Path

import httpx
import pytest

from strop.hub.client import HubClient
from strop.hub.push import plan_push, pull
from strop.hub.push import push as push_folder
from strop.hub.source import list_source, tree_digest
from strop.hub.wire import PushOutcome
from tests.factories import a_wheel
from tests.hub_server.checking import check_whole
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.sdk.hub.environments import write_environment

MIB = 1024 * 1024
MAX_GROWTH_BYTES = 30_000_000
PATIENCE_S = 600
_CHUNK = bytes(MIB)


def a_large_wheel(folder: Path, size_mib: int) -> Path:
    """A foreign wheel with a member of so many MiB, which is not packed."""
    small = a_wheel(folder / "small", version="2.0", is_foreign=True)
    digest = hashlib.sha256()
    for _ in range(size_mib):
        digest.update(_CHUNK)
    encoded = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    path = folder / small.name
    with zipfile.ZipFile(small) as source, zipfile.ZipFile(path, "w") as target:
        for member in source.infolist():
            content = source.read(member).decode()
            if member.filename.endswith("/RECORD"):
                content += f"weights.bin,sha256={encoded},{size_mib * MIB}\n"
            target.writestr(member, content)
        weights = zipfile.ZipInfo("weights.bin", (2020, 1, 1, 0, 0, 0))
        weights.file_size = size_mib * MIB
        with target.open(weights, "w") as stream:
            for _ in range(size_mib):
                stream.write(_CHUNK)
    return path


@pytest.mark.embedded
@pytest.mark.parametrize(
    "size_mib",
    [
        pytest.param(256, id="256-MiB"),
        pytest.param(2047, marks=[pytest.mark.slow, pytest.mark.timeout(1200)], id="2-GiB"),
    ],
)
def test_large_files_go_up_and_down_in_constant_memory(
    hub_data: Path, tmp_path: Path, size_mib: int
) -> None:
    wheel = a_large_wheel(tmp_path, size_mib)
    with run_hub(hub_data, max_file_bytes=str(3 * 1024 * MIB)) as hub:
        owner, token = hub.new_user()
        warm = a_wheel(tmp_path / "warm", version="1.0", is_foreign=True)
        assert push(hub, owner, token, warm).status_code == 201
        download(hub, owner, warm.name)
        before_bytes = peak_memory_bytes(hub)

        answer = push(hub, owner, token, wheel)
        grown_by_upload = peak_memory_bytes(hub) - before_bytes
        sha256 = download(hub, owner, wheel.name)
        grown_by_both = peak_memory_bytes(hub) - before_bytes

    assert answer.status_code == 201, answer.text
    assert answer.json()["version"]["digest"] == sha256
    assert check_whole(hub.settings) == 2
    assert grown_by_upload <= MAX_GROWTH_BYTES
    assert grown_by_both <= MAX_GROWTH_BYTES


@pytest.mark.embedded
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_tree_of_more_than_1_gib_is_pushed_and_pulled(hub_data: Path, tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze")
    chance = random.Random(1)
    with (folder / "weights.bin").open("wb") as weights:
        for _ in range(1030):
            weights.write(chance.randbytes(MIB))
    with run_hub(hub_data, max_file_bytes=str(3 * 1024 * MIB)) as hub:
        owner, token = hub.new_user()
        before_bytes = peak_memory_bytes(hub)
        with HubClient(hub.url, token, timeout_s=PATIENCE_S) as client:
            result = push_folder(client, owner, plan_push(folder, is_isolated=False))
            grown_bytes = peak_memory_bytes(hub) - before_bytes
            _, pulled = pull(client, f"{owner}/maze-env", tmp_path / "pulled")

    assert result.outcome is PushOutcome.PUBLISHED
    assert tree_digest(pulled, list_source(pulled)) == result.version.tree_digest
    assert grown_bytes <= MAX_GROWTH_BYTES


def push(hub: RunningHub, owner: str, token: str, wheel: Path) -> httpx.Response:
    with hub.client(token) as client, wheel.open("rb") as stream:
        client.timeout = httpx.Timeout(PATIENCE_S)
        files = {"wheel": (wheel.name, stream, "application/octet-stream")}
        return client.post(f"/api/v1/owners/{owner}/versions", files=files)


def download(hub: RunningHub, owner: str, filename: str) -> str:
    """The sha256 of what comes."""
    digest = hashlib.sha256()
    address = f"{hub.url}/owners/{owner}/files/maze/{filename}"
    with httpx.stream("GET", address, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200
        for chunk in answer.iter_bytes():
            digest.update(chunk)
    return digest.hexdigest()


def peak_memory_bytes(hub: RunningHub) -> int:
    """The most that the hub's process has had resident."""
    status = Path(f"/proc/{hub.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
