"""A hub behind nginx, under a path, whose large files nginx sends itself."""

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.factories import an_upload
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.servers import nginx
from tests.servers.processes import free_ports

pytestmark = [
    pytest.mark.skipif(not nginx.is_installed(), reason="nginx is not installed"),
    pytest.mark.xdist_group("nginx"),
]


@dataclass
class Proxied:
    """A hub and its address from outside."""

    hub: RunningHub
    url: str
    owner: str
    token: str
    published: dict[str, Any]

    @property
    def wheel(self) -> dict[str, Any]:
        """The large file."""
        files: list[dict[str, Any]] = self.published["files"]
        return next(file for file in files if file["kind"] == "wheel")


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp("nginx")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/hub"
    settings = {
        "public_url": url,
        "trusted_proxies": "127.0.0.1",
        "accel_prefix": "/blobs/",
    }
    with run_hub(folder / "data", **settings) as hub:
        own_url, hub.url = f"http://127.0.0.1:{_port_of(hub)}", url
        with nginx.run_nginx(folder / "nginx", port, own_url, hub.settings.blobs):
            owner, token = hub.new_user()
            noise = random.Random(0).randbytes(10**6).hex()
            upload = an_upload(folder, files={"maze.py": "X = 1\n", "noise.txt": noise})
            with hub.client(token) as client:
                address = f"{url}/api/v1/owners/{owner}/versions"
                response = client.post(address, **upload.form())
            assert response.status_code == 201, response.text
            yield Proxied(hub, url, owner, token, response.json()["version"])


def _port_of(hub: RunningHub) -> int:
    """Where the hub itself listens: it tells its public address only."""
    words = Path(f"/proc/{hub.process.pid}/net/tcp").read_text().split("\n")[1:]
    inodes = {
        os.readlink(link).removeprefix("socket:[").rstrip("]")
        for link in Path(f"/proc/{hub.process.pid}/fd").iterdir()
        if os.readlink(link).startswith("socket:")
    }
    listening = [line.split() for line in words if line]
    (port,) = {
        int(columns[1].rpartition(":")[2], 16)
        for columns in listening
        if columns[3] == "0A" and columns[9] in inodes
    }
    return port


def test_nginx_sends_a_large_file_with_the_hubs_headers(proxied: Proxied) -> None:
    wheel = proxied.wheel
    assert wheel["url"].startswith(f"{proxied.url}/api/v1/")

    whole = httpx.get(wheel["url"])
    tag = whole.headers["etag"]
    part = httpx.get(wheel["url"], headers={"range": "bytes=100-199", "if-range": tag})
    same = httpx.get(wheel["url"], headers={"if-none-match": tag})
    other = httpx.get(wheel["url"], headers={"range": "bytes=100-199", "if-range": '"other"'})

    assert (other.status_code, other.content) == (200, whole.content)
    assert hashlib.sha256(whole.content).hexdigest() == wheel["sha256"]
    assert tag == f'"{wheel["sha256"]}"'
    assert whole.headers["cache-control"].startswith("public")
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["access-control-allow-origin"] == "*"
    assert whole.headers["strop-hub"]
    assert "x-accel-redirect" not in whole.headers
    assert whole.headers["server"].startswith("nginx")
    assert (part.status_code, part.content) == (206, whole.content[100:200])
    assert (same.status_code, same.content) == (304, b"")


def test_nobody_reaches_the_blobs_without_the_hub(proxied: Proxied) -> None:
    sha256 = proxied.wheel["sha256"]
    root = proxied.url.removesuffix("/hub")

    for place in (f"/blobs/{sha256[:2]}/{sha256[2:]}", "/blobs/", "/hub/../blobs/"):
        assert httpx.get(root + place).status_code == 404


@pytest.mark.parametrize("index", ["/simple/", "/owners/{owner}/simple/"])
def test_pip_installs_under_the_path(proxied: Proxied, tmp_path: Path, index: str) -> None:
    url = proxied.url + index.format(owner=proxied.owner)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-cache-dir"]
    command += ["--index-url", url, "--target", str(tmp_path / "site"), "maze"]

    finished = subprocess.run(
        command,
        env=os.environ | {"PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": ""},
        capture_output=True,
        text=True,
    )

    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "site" / "maze.py").read_text() == "X = 1\n"


def test_every_address_that_the_hub_tells_keeps_the_path(proxied: Proxied) -> None:
    normal = httpx.get(f"{proxied.url}/simple/MAZE/", follow_redirects=True)
    catalog = httpx.get(f"{proxied.url}/")
    page = httpx.get(f"{proxied.url}/{proxied.owner}/maze")

    assert str(normal.url) == f"{proxied.url}/simple/maze/"
    assert normal.status_code == 200
    for html in (catalog.text, page.text):
        addresses = [part.partition('"')[0] for part in html.split('href="')[1:]]
        own = [address for address in addresses if address.startswith("/")]
        assert own
        assert all(address.startswith("/hub") for address in own), own
