"""The hub answers as its OpenAPI document says: the schemathesis command, with all its checks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub_server import schemathesis_hooks
from tests.hub_server.author import API, Author
from tests.hub_server.running_hub import RunningHub

CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 429]

[[operations]]
# No schema can tell of archives, of cursors, or of what is a version.
include-name-regex = "POST (/owners/.*)?/legacy/|POST .*/(versions|files)|GET /api/v1/environments"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 413, 422]

[[operations]]
# A tag has no name that could be a version.
include-name-regex = "PUT .*/tags/.*"
checks.positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 422]
"""


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    """Somebody whose environments may be tormented."""
    author = Author.new(hub, tmp_path)
    author.publish("maze", "0.1.0", "0.2.0")
    return author


def run(author: Author, folder: Path, *arguments: str, **variables: str) -> str:
    """Run schemathesis against the hub; gives what it printed."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{author.hub.url}/openapi.json",
        "--header",
        f"Authorization: Bearer {author.token}",
        "--checks=all",
        "--seed=1",
        "--no-color",
        "--suppress-health-check=all",
        *arguments,
    ]
    result = subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2000:]
    return result.stdout


def test_every_operation_answers_as_the_document_says(author: Author, tmp_path: Path) -> None:
    printed = run(author, tmp_path, "--phases=coverage")

    assert "0 failed" not in printed
    assert "Failures" not in printed


def test_pushes_are_listed_and_yanked_along_the_links(author: Author, tmp_path: Path) -> None:
    given = {
        "SCHEMATHESIS_HOOKS": schemathesis_hooks.__name__,
        "PYTHONPATH": os.pathsep.join(sys.path),
        schemathesis_hooks.OWNER: author.owner,
    }

    printed = run(
        author,
        tmp_path,
        "--phases=stateful",
        "--max-examples=12",
        "--include-operation-id=push",
        "--include-operation-id=list_versions",
        "--include-operation-id=show_version",
        "--include-operation-id=yank",
        "--include-operation-id=unyank",
        **given,
    )

    assert "Failures" not in printed
    room = f"{API}/{author.owner}/{schemathesis_hooks.NAME}/versions"
    versions = author.hub.get(room).json()["items"]
    assert versions
    changes = author.hub.get("/api/v1/changes?limit=1000").json()["items"]
    own = {change["action"] for change in changes if change["owner"] == author.owner}
    assert own >= {"publish", "yank"}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_operation_answers_as_the_document_says_at_length(
    author: Author, tmp_path: Path
) -> None:
    # An abandoned release tells that it is, as PEP 694 has it; that is no use after its end.
    arguments = ("--max-examples=60", "--exclude-checks=use_after_free")

    assert "Failures" not in run(author, tmp_path, *arguments)
