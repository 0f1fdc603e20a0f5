"""Clients follow the hub to the bucket for large files, and their tokens stay behind."""

import random
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strop.errors import DigestMismatchError
from strop.hub.client import HubClient
from strop.hub.wire import PublishedFile
from strop_hub.storage import open_storage
from strop_hub.storage.s3 import S3Storage
from tests.factories import a_wheel, sha256_of
from tests.hub_server import backends
from tests.hub_server.author import Author, ask
from tests.hub_server.index.test_installers import UV, run
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.servers.relay import Relay, run_relay

pytestmark = pytest.mark.slow
DOORS = {"public": "/owners/{owner}", "private": "/auth/owners/{owner}"}
NOISE = random.Random(0).randbytes(400_000).hex()
FILES = {"maze_module.py": "X = 1\n", "noise.txt": NOISE}
"""More than the hub sends itself where clients reach the bucket."""


@dataclass
class SigningHub:
    """A hub that sends clients on to its bucket, and the way that they take there."""

    hub: RunningHub
    way: Relay


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SigningHub]:
    data = tmp_path_factory.mktemp("signing") / "hub"
    with (
        backends.use("sqlite+s3"),
        run_relay(backends.seaweed().ports["s3"]) as way,
        run_hub(data, s3_public_url=way.url) as hub,
    ):
        yield SigningHub(hub, way)


@dataclass
class Published:
    """A package of somebody whose token may only read."""

    author: Author
    name: str
    wheel: PublishedFile
    token: str
    door: str

    @property
    def pin(self) -> str:
        """How requirements name it, with its digest."""
        return f"{self.name}==0.1.0 --hash=sha256:{self.wheel.sha256}\n"


@pytest.fixture(params=DOORS)
def published(request: pytest.FixtureRequest, signing: SigningHub, tmp_path: Path) -> Published:
    author = Author.new(signing.hub, tmp_path / "author")
    name = f"maze-{uuid.uuid4().hex[:12]}"
    (version,) = author.publish(name, visibility=request.param, files=FILES)
    signing.way.forget()
    door = DOORS[request.param].format(owner=author.owner)
    return Published(author, name, wheel_of(version), author.reader(), door)


def wheel_of(version: dict[str, Any]) -> PublishedFile:
    (wheel,) = [file for file in version["files"] if file["kind"] == "wheel"]
    return PublishedFile.model_validate(wheel)


def install(client: str, published: Published, target: Path) -> tuple[int, str]:
    """Install by name, version and digest; the token goes with the index's address."""
    requirements = target.with_suffix(".txt")
    requirements.write_text(published.pin)
    commands = {
        "pip": [sys.executable, "-m", "pip", "install", "--no-cache-dir"],
        "uv": [UV, "pip", "install", "--no-cache", "--no-config", "--python", sys.executable],
    }
    address = published.author.hub.url.replace("://", f"://__token__:{published.token}@")
    options = ["--index-url", f"{address}{published.door}/simple/", "--no-deps"]
    place = ["--require-hashes", "--target", str(target), "-r", str(requirements)]
    finished = run(*commands[client], *options, *place)
    return finished.returncode, finished.stdout + finished.stderr


def spoil(published: Published, folder: Path) -> Path:
    """Put another wheel of the same name under the blob of the bucket."""
    other = a_wheel(folder, name=published.name, files=FILES | {"maze_module.py": "X = 2\n"})
    storage = open_storage(published.author.hub.settings)
    assert isinstance(storage, S3Storage)
    bucket, _, key = storage.address(published.wheel.sha256).removeprefix("s3://").partition("/")
    client = backends.seaweed().client()
    client.put_object(Bucket=bucket, Key=key, Body=other.read_bytes())
    client.close()
    return other


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_installers_take_large_files_from_the_bucket_without_their_token(
    signing: SigningHub, published: Published, tmp_path: Path, client: str
) -> None:
    path = f"{published.door}/files/{published.name}/{published.wheel.filename}"

    sent_on = ask(signing.hub, "GET", path, published.token)
    code, printed = install(client, published, tmp_path / "site")

    assert (sent_on.status_code, sent_on.content) == (302, b"")
    assert sent_on.headers["location"].startswith(f"{signing.way.url}/")
    assert sent_on.headers["cache-control"] == "no-store"
    assert code == 0, printed
    assert (tmp_path / "site" / "maze_module.py").read_text() == "X = 1\n"
    assert (tmp_path / "site" / "noise.txt").read_text() == NOISE
    asked = bytes(signing.way.asked)
    assert len(signing.way.answered) > published.wheel.size_bytes
    assert b"X-Amz-Signature=" in asked
    assert b"authorization" not in asked.lower()
    assert published.token.encode() not in asked


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_installers_refuse_bytes_that_somebody_changed_in_the_bucket(
    signing: SigningHub, published: Published, tmp_path: Path, client: str
) -> None:
    other = spoil(published, tmp_path / "other")

    code, printed = install(client, published, tmp_path / "site")

    assert code != 0
    assert published.wheel.sha256 in printed, printed
    assert not (tmp_path / "site" / "maze_module.py").exists()
    assert other.read_bytes() in signing.way.answered


def test_our_client_takes_large_files_from_the_bucket_and_checks_them(
    signing: SigningHub, published: Published, tmp_path: Path
) -> None:
    with HubClient(signing.hub.url, published.token) as client:
        client.download(published.wheel, tmp_path / "maze.whl")
        asked = bytes(signing.way.asked)
        spoil(published, tmp_path / "other")
        with pytest.raises(DigestMismatchError):
            client.download(published.wheel, tmp_path / "spoilt.whl")

    assert sha256_of(tmp_path / "maze.whl") == published.wheel.sha256
    assert not (tmp_path / "spoilt.whl").exists()
    assert b"X-Amz-Signature=" in asked
    assert b"authorization" not in asked.lower()
    assert published.token.encode() not in asked


def test_small_files_come_from_the_hub_itself(signing: SigningHub, tmp_path: Path) -> None:
    author = Author.new(signing.hub, tmp_path / "author")
    (version,) = author.publish("maze", visibility="private")
    signing.way.forget()

    with HubClient(signing.hub.url, author.token) as client:
        client.download(wheel_of(version), tmp_path / "maze.whl")

    assert sha256_of(tmp_path / "maze.whl") == wheel_of(version).sha256
    assert not signing.way.asked
