"""A hub follows any simple index: pypiserver, a static folder, another hub's pages."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from strop.errors import HubUnreachableError
from strop_hub import admin
from strop_hub.settings import Settings
from strop_hub.upkeep.index_mirror import IndexMirrored, mirror_index
from strop_hub.upkeep.verify import verify
from tests.factories import a_sdist, a_wheel
from tests.hub_server.author import Author
from tests.hub_server.running_hub import run_hub
from tests.servers.processes import free_ports, start

OWNER = "lab"


def follow(settings: Settings, url: str, *names: str) -> IndexMirrored:
    with admin.open_hub(settings) as hub:
        result = mirror_index(hub, url, OWNER, names)
        assert verify(hub).differences == []
    return result


def versions_here(settings: Settings, name: str) -> dict[str, dict[str, Any]]:
    """What the mirroring hub lists of a project."""
    with run_hub(settings.data, "ada") as hub:
        response = hub.get(f"/api/v1/environments/{OWNER}/{name}/versions")
    return {item["version"]: item for item in response.json().get("items", [])}


@contextmanager
def serving(folder: Path, *command: str) -> Iterator[str]:
    """A server of a folder on a free port; gives its address."""
    (port,) = free_ports(1)
    words = [word.format(port=port, folder=folder) for word in command]
    server = start([sys.executable, "-m", *words], folder.parent / "server.log", folder=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                httpx.get(url, timeout=30)
                break
            except httpx.TransportError:
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield url
    finally:
        server.kill()
        server.wait()


def static(folder: Path) -> Any:
    return serving(folder, "http.server", "{port}", "--bind", "127.0.0.1", "-d", "{folder}")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_page(folder: Path, name: str, *anchors: str) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "index.html").write_text(f"<!DOCTYPE html><html>{''.join(anchors)}</html>")


def test_pypiserver_is_mirrored_with_wheels_and_source_distributions(
    tmp_path: Path, here: Settings
) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    a_wheel(folder, name="maze", version="1.0")
    a_wheel(folder, name="maze", version="1.1", is_foreign=True)
    a_sdist(folder, name="maze", version="1.1")
    a_wheel(folder, name="other-thing", version="2.0", is_foreign=True)
    command = ("pypiserver", "run", "-p", "{port}", "-i", "127.0.0.1", "{folder}")
    with serving(folder, *command) as url:
        first = follow(here, f"{url}/simple/")
        again = follow(here, f"{url}/simple/")

    assert (first.published_count, first.skipped) == (4, [])
    assert (again.published_count, again.skipped) == (0, [])
    assert set(versions_here(here, "maze")) == {"1.0", "1.1"}
    assert set(versions_here(here, "other-thing")) == {"2.0"}


def test_pages_of_a_static_folder_are_asked_for_only_when_they_changed(
    tmp_path: Path, here: Settings
) -> None:
    folder = tmp_path / "static"
    wheel = a_wheel(folder / "files", name="maze", version="1.0")
    anchor = f'<a href="../files/{wheel.name}#sha256={digest_of(wheel)}">{wheel.name}</a>'
    write_page(folder, "maze", anchor, '<a href="../files/maze-1.0-py2.7.egg">an egg</a>')
    write_page(folder, ".", '<a href="maze/">maze</a>')
    with static(folder) as url:
        first, second = follow(here, url), follow(here, url)
        # Times of static files have whole seconds.
        yanked = anchor.replace("<a ", '<a data-yanked="leaky &amp; old" ')
        write_page(folder, "maze", yanked)
        later = time.time() + 5
        os.utime(folder / "maze" / "index.html", (later, later))
        third = follow(here, url)
        there = versions_here(here, "maze")["1.0"]
        write_page(folder, "maze", anchor)
        os.utime(folder / "maze" / "index.html", (later + 5, later + 5))
        fourth = follow(here, url)

    assert (first.published_count, second.unchanged_count) == (1, 1)
    assert (third.yanked_count, fourth.yanked_count) == (1, 1)
    assert (there["is_yanked"], there["yank_reason"]) == (True, "leaky & old")
    assert not versions_here(here, "maze")["1.0"]["is_yanked"]


def test_bytes_that_are_not_the_announced_ones_are_left_and_tried_again(
    tmp_path: Path, here: Settings
) -> None:
    folder = tmp_path / "static"
    wheel = a_wheel(folder / "files", name="maze", version="1.0")
    digest = digest_of(wheel)
    genuine = wheel.read_bytes()
    wheel.write_bytes(genuine + b"\0")
    (folder / "files" / "maze-2.0-py3-none-any.whl").write_bytes(genuine)
    missing = '<a href="../files/maze-3.0-py3-none-any.whl">gone</a>'
    lying = '<a href="../files/maze-2.0-py3-none-any.whl">other contents</a>'
    anchor = f'<a href="../files/{wheel.name}#sha256={digest}">{wheel.name}</a>'
    write_page(folder, "maze", anchor, lying, missing)
    with static(folder) as url:
        bad = follow(here, url, "maze", "not-there")
        wheel.write_bytes(genuine)
        good = follow(here, url, "maze")
        wheel.write_bytes(b"replaced")
        write_page(folder, "maze", anchor.replace(digest, digest_of(wheel)))
        changed = follow(here, url, "maze")

    assert bad.published_count == 0
    assert [line.split(": ")[1] for line in sorted(bad.skipped)] == [
        f"maze-{number}.0-py3-none-any.whl" for number in (1, 2, 3)
    ]
    assert "announces sha256" in bad.skipped[0]
    assert good.published_count == 1
    assert "never changes" in changed.skipped[0]
    assert versions_here(here, "maze")["1.0"]["digest"] == digest


def test_pages_in_json_are_followed_by_their_etags(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    with run_hub(hub_data) as there:
        author = Author.new(there, tmp_path / "packages")
        author.publish("maze", "1.0", "1.1")
        url = f"{there.url}/owners/{author.owner}/simple/"
        first, second = follow(here, url), follow(here, url)
        author.yank("maze", "1.0", "leaky grader")
        third = follow(here, url)

    assert (first.published_count, second.unchanged_count) == (2, 1)
    # A second fetch brings no source archive: pages list none, and so neither does the mirror.
    assert (third.published_count, third.yanked_count) == (0, 1)
    versions = versions_here(here, "maze")
    assert (versions["1.0"]["is_yanked"], versions["1.1"]["is_yanked"]) == (True, False)


def test_a_mirror_that_was_killed_goes_on_where_it_was(tmp_path: Path, here: Settings) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    for number in range(12):
        a_wheel(folder, name=f"maze-{number % 3}", version=f"1.{number}", is_foreign=True)
    strop = str(Path(sys.executable).with_name("strop"))
    command = [strop, "hub", "mirror", "--simple", "--as", OWNER, "--json"]
    with serving(folder, "pypiserver", "run", "-p", "{port}", "{folder}") as url:
        command += [f"{url}/simple/", "--data", str(here.data)]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not list(here.blobs.rglob("??/*")) and running.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        running.send_signal(signal.SIGKILL)
        running.wait()
        finished = subprocess.run(command, capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert result["skipped"] == []
    with admin.open_hub(here) as hub:
        report = verify(hub)
    assert (report.version_count, report.differences) == (12, [])


def test_what_is_no_index_is_named(tmp_path: Path, here: Settings) -> None:
    (port,) = free_ports(1)

    with pytest.raises(HubUnreachableError, match="goes on where it was"):
        follow(here, f"http://127.0.0.1:{port}/simple/")
