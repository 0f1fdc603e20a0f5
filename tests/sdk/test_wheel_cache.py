"""Wheels are kept by digest: fetched once, checked each time, mended where they rotted."""

import hashlib
import threading
from pathlib import Path

import pytest

from strop.errors import DigestMismatchError, HubUnreachableError
from strop.hub.client import HubClient
from strop.hub.installing.cache import fetch_wheel
from strop.hub.wire import PublishedFile
from tests.sdk.loopback import Server, reply, serve
from tests.sdk.test_download import CONTENT, a_file


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a cache é"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def fetch(server: Server, file: PublishedFile | None = None) -> Path:
    with HubClient(server.url, timeout_s=60, attempt_count=1) as client:
        return fetch_wheel(client, file or a_file())


def test_a_wheel_is_fetched_once_and_filed_by_its_digest(cache: Path) -> None:
    with serve(lambda request: reply(200, CONTENT)) as server:
        first, second = fetch(server), fetch(server)

        assert len(server.requests) == 1
    assert first == second == cache / "strop" / "wheels" / a_file().sha256 / "maze.whl"
    assert first.read_bytes() == CONTENT


@pytest.mark.parametrize("rotten", [b"", CONTENT[:-1], CONTENT + b"x", b"\x00" * len(CONTENT)])
def test_a_copy_that_rotted_is_fetched_again(rotten: bytes) -> None:
    with serve(lambda request: reply(200, CONTENT)) as server:
        path = fetch(server)
        path.write_bytes(rotten)
        assert fetch(server) == path

        assert len(server.requests) == 2
    assert path.read_bytes() == CONTENT
    assert [each.name for each in path.parent.iterdir()] == ["maze.whl"]


def test_a_rotten_copy_is_not_used_where_the_hub_is_down() -> None:
    with serve(lambda request: reply(200, CONTENT)) as server:
        path = fetch(server)
    path.write_bytes(b"rotten")

    with pytest.raises(HubUnreachableError):
        fetch(server)
    assert not path.exists()


def test_other_bytes_than_promised_are_not_kept(cache: Path) -> None:
    with serve(lambda request: reply(200, CONTENT[::-1])) as server:
        for _ in range(2):
            with pytest.raises(DigestMismatchError):
                fetch(server)

    assert [path for path in cache.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "filename", ["../../evil.whl", "/tmp/evil.whl", "a/../../evil.whl", "sub/evil.whl"]
)
def test_a_name_that_leads_away_stays_in_its_folder(filename: str, cache: Path) -> None:
    file = a_file().model_copy(update={"filename": filename})

    with serve(lambda request: reply(200, CONTENT)) as server:
        path = fetch(server, file)

    assert path == cache / "strop" / "wheels" / file.sha256 / "evil.whl"
    assert [each for each in cache.rglob("*") if each.is_file()] == [path]


def test_many_who_fetch_at_once_get_each_a_whole_file() -> None:
    digests: list[str] = []

    with serve(lambda request: reply(200, CONTENT)) as server:

        def work(is_vandal: bool) -> None:
            for _ in range(3):
                path = fetch(server)
                if is_vandal:
                    path.with_name("other").write_bytes(b"x")
                digests.append(hashlib.sha256(path.read_bytes()).hexdigest())

        threads = [threading.Thread(target=work, args=(n == 0,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert digests == [a_file().sha256] * 18


def test_a_cache_behind_a_link_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))

    with serve(lambda request: reply(200, CONTENT)) as server:
        fetch(server)

    assert len(list((tmp_path / "real").rglob("maze.whl"))) == 1


@pytest.mark.parametrize("place", ["/proc/cache", "/dev/null"])
def test_a_cache_that_cannot_be_written_is_an_error_of_the_system(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)

    with serve(lambda request: reply(200, CONTENT)) as server, pytest.raises(OSError, match=place):
        fetch(server)
