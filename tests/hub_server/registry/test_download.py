"""Downloading files through the API."""

from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.hub_server.author import Author, ask
from tests.hub_server.checking import lose_blob
from tests.hub_server.running_hub import RunningHub

LARGE = "x = '" + "".join(str(number) for number in range(400_000)) + "'\n"


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def wheel_of(author: Author, name: str = "maze", **wheel: object) -> tuple[str, bytes, str]:
    """Path, bytes and digest of the wheel of a fresh version."""
    (version,) = author.publish(name, **wheel)  # type: ignore[arg-type]
    path = urlsplit(version["files"][0]["url"]).path
    (file,) = (author.folder / name).rglob("*.whl")
    return path, file.read_bytes(), version["digest"]


def test_a_file_comes_whole_with_its_digest_as_etag(author: Author) -> None:
    path, content, digest = wheel_of(author)

    response = ask(author.hub, "GET", path)

    assert response.content == content
    assert response.headers["etag"] == f'"{digest}"'
    assert response.headers["content-length"] == str(len(content))
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["content-disposition"] == (
        'attachment; filename="maze-0.1.0-py3-none-any.whl"'
    )
    assert response.headers["strop-hub"]


def test_the_address_of_a_file_is_absolute_and_starts_with_the_public_url(author: Author) -> None:
    (version,) = author.publish("maze", "1.0+git.5")

    for file in version["files"]:
        assert file["url"].startswith(f"{author.hub.url}/api/v1/")
        assert "+" not in file["url"]
        assert httpx.get(file["url"]).status_code == 200


def test_head_tells_what_get_would_without_the_bytes(author: Author) -> None:
    path, content, digest = wheel_of(author)

    response = ask(author.hub, "HEAD", path)

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-length"] == str(len(content))
    assert response.headers["etag"] == f'"{digest}"'
    assert ask(author.hub, "HEAD", path, range="bytes=0-4").headers["content-length"] == "5"


def test_a_large_file_comes_in_pieces_and_whole(author: Author) -> None:
    path, content, _ = wheel_of(author, files={"maze.py": LARGE})
    assert len(content) > 800_000

    assert ask(author.hub, "GET", path).content == content
    half = len(content) // 2
    rest = ask(author.hub, "GET", path, range=f"bytes={half}-")
    assert rest.status_code == 206
    assert rest.content == content[half:]


def test_a_broken_download_resumes_only_on_the_same_bytes(author: Author) -> None:
    path, content, digest = wheel_of(author)

    same = ask(author.hub, "GET", path, range="bytes=10-", if_range=f'"{digest}"')
    other = ask(author.hub, "GET", path, range="bytes=10-", if_range='"other"')

    assert (same.status_code, same.content) == (206, content[10:])
    assert (other.status_code, other.content) == (200, content)


def test_a_range_beyond_the_end_is_416_with_the_size(author: Author) -> None:
    path, content, _ = wheel_of(author)

    response = ask(author.hub, "GET", path, range=f"bytes={len(content)}-")

    assert response.status_code == 416
    assert response.headers["content-range"] == f"bytes */{len(content)}"


def test_a_caller_with_the_bytes_gets_304(author: Author) -> None:
    path, _, digest = wheel_of(author)

    response = ask(author.hub, "GET", path, if_none_match=f'W/"{digest}"')

    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == f'"{digest}"'


def test_a_private_file_is_for_its_readers_and_not_for_shared_caches(author: Author) -> None:
    path, content, digest = wheel_of(author, visibility="private")

    assert ask(author.hub, "GET", path).status_code == 404
    assert ask(author.hub, "GET", path, if_none_match=f'"{digest}"').status_code == 404
    answer = ask(author.hub, "GET", path, author.reader())
    assert answer.content == content
    assert answer.headers["cache-control"].startswith("private,")


def test_a_file_name_that_the_version_does_not_have_names_those_it_has(author: Author) -> None:
    path, _, _ = wheel_of(author)

    refusal = ask(author.hub, "GET", path.replace(".whl", ".exe"))

    assert refusal.status_code == 404
    assert "maze-0.1.0-py3-none-any.whl" in refusal.json()["detail"]


def test_a_blob_that_is_gone_is_the_hubs_fault_and_says_so(author: Author) -> None:
    path, _, digest = wheel_of(author, files={"maze.py": "x = 'only here'\n"})
    lose_blob(author.hub.settings, digest)

    response = ask(author.hub, "GET", path)

    assert response.status_code == 503
    assert digest in response.json()["detail"]
