"""twine and `uv publish`, as they are, upload to the hub."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories import a_sdist, a_wheel
from tests.hub_server.author import Author, ask
from tests.hub_server.running_hub import RunningHub

BIN = Path(sys.executable).parent


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def run(*command: str, **variables: str) -> tuple[int, str]:
    """The exit status of a client and all it printed."""
    own = {"UV_NO_CONFIG": "1", "NO_COLOR": "1", "TWINE_NON_INTERACTIVE": "1", "COLUMNS": "300"}
    finished = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        env=os.environ | own | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return finished.returncode, " ".join((finished.stdout + finished.stderr).split())


def twine(
    author: Author, *files: Path, address: str = "/legacy/", token: str = ""
) -> tuple[int, str]:
    return run(
        "twine",
        "upload",
        "--disable-progress-bar",
        "--verbose",
        "--repository-url",
        author.hub.url + address,
        *map(str, files),
        TWINE_USERNAME="__token__",
        TWINE_PASSWORD=token or author.token,
    )


def uv_publish(author: Author, *files: Path, check: str = "") -> tuple[int, str]:
    options = ["--publish-url", f"{author.hub.url}/owners/{author.owner}/legacy/"]
    if check:
        # The check takes its credentials from the address alone.
        address = author.hub.url.replace("://", f"://__token__:{author.token}@")
        options += ["--check-url", address + check]
    return run("uv", "publish", *options, *map(str, files), UV_PUBLISH_TOKEN=author.token)


def files_of(author: Author) -> set[str]:
    response = ask(author.hub, "GET", f"/api/v1/environments/{author.owner}/maze/versions/0.1.0")
    return {file["filename"] for file in response.json().get("files", [])}


def test_twine_uploads_wheel_and_source_distribution_and_may_repeat_it(
    author: Author, tmp_path: Path
) -> None:
    wheel, sdist = a_wheel(tmp_path, is_foreign=True), a_sdist(tmp_path)

    for _ in range(2):
        status, printed = twine(author, sdist, wheel)
        assert status == 0, printed

    assert files_of(author) == {wheel.name, sdist.name}


def test_twine_shows_why_an_upload_was_refused(author: Author, tmp_path: Path) -> None:
    wheel = a_wheel(tmp_path / "1", is_foreign=True)
    other = a_wheel(tmp_path / "2", is_foreign=True, files={"maze.py": "# other\n"})
    twine(author, wheel)

    status, printed = twine(author, other)
    _, unknown = twine(author, wheel, token="strop_nothing")

    assert status == 1
    assert "File already exists" in printed
    assert "401" in unknown


def test_uv_publishes_wheel_and_source_distribution_and_may_repeat_it(
    author: Author, tmp_path: Path
) -> None:
    wheel, sdist = a_wheel(tmp_path, is_foreign=True), a_sdist(tmp_path)

    for _ in range(2):
        status, printed = uv_publish(author, wheel, sdist)
        assert status == 0, printed

    assert files_of(author) == {wheel.name, sdist.name}


@pytest.mark.parametrize("door", ["/owners/{owner}/simple/", "/auth/owners/{owner}/simple/"])
def test_uv_asks_the_index_first_and_skips_what_is_there(
    author: Author, tmp_path: Path, door: str
) -> None:
    check = door.format(owner=author.owner)
    wheel = a_wheel(tmp_path / "1", is_foreign=True)
    other = a_wheel(tmp_path / "2", is_foreign=True, files={"maze.py": "# other\n"})

    first = uv_publish(author, wheel, check=check)
    again = uv_publish(author, wheel, check=check)
    changed = uv_publish(author, other, check=check)

    assert first[0] == 0, first[1]
    assert again[0] == 0, again[1]
    assert "already exists" in again[1]
    assert changed[0] == 2, changed[1]


def test_uv_shows_why_an_upload_was_refused(author: Author, tmp_path: Path) -> None:
    uv_publish(author, a_wheel(tmp_path / "1", is_foreign=True))
    other = a_wheel(tmp_path / "2", is_foreign=True, files={"maze.py": "# other\n"})

    status, printed = uv_publish(author, other)

    assert status == 2
    assert "File already exists" in printed
