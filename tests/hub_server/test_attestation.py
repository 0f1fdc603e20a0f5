"""Attestations: refused unless a trusted publisher's; what is kept is told and served."""

import base64
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from strop_hub.db import Database
from strop_hub.errors import AttestationError
from strop_hub.legacy.attestation import publishers_of, verify
from strop_hub.models import File
from strop_hub.publish.sdk import received
from strop_hub.storage import FileStorage
from tests.factories import a_wheel
from tests.hub_server.author import Author, ask
from tests.hub_server.index.test_index import document
from tests.hub_server.running_hub import RunningHub, run_hub

PUBLISHERS = [("ada-lab/maze", "release.yml")]


def an_attestation(**material: Any) -> dict[str, Any]:
    """An attestation of the right form that nobody signed."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "maze-0.1.0-py3-none-any.whl", "digest": {"sha256": "0" * 64}}],
    }
    text = base64.b64encode(json.dumps(statement).encode()).decode()
    nothing = base64.b64encode(b"nothing").decode()
    return {
        "version": 1,
        "verification_material": {"certificate": nothing, "transparency_entries": [{}]} | material,
        "envelope": {"statement": text, "signature": nothing},
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", "cannot be read"),
        ("{}", "no list"),
        ("[]", "no list"),
        ("[1]", "cannot be read"),
        ("[[[[", "cannot be read"),
        (json.dumps([an_attestation()] * 3), "no list"),
        (json.dumps([an_attestation()]), "is not valid"),
        (json.dumps([an_attestation(certificate="?")]), "is not valid"),
    ],
)
def test_what_nobody_signed_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(AttestationError, match=words):
        verify(received(a_wheel(tmp_path)), text, PUBLISHERS)


def test_an_owner_without_a_trusted_publisher_has_no_attestations(tmp_path: Path) -> None:
    with pytest.raises(AttestationError, match="trusts no publisher"):
        verify(received(a_wheel(tmp_path)), "[]", [])


def test_publishers_are_trusted_for_their_owner_alone() -> None:
    trusted = ("ada=ada-lab/maze/release.yml", "grace=g/x/ci.yml", "ada=broken")

    assert publishers_of("ada", trusted) == PUBLISHERS
    assert publishers_of("nobody", trusted) == []


@pytest.mark.embedded
def test_an_upload_with_a_false_attestation_leaves_nothing(hub_data: Path, tmp_path: Path) -> None:
    wheel = a_wheel(tmp_path, is_foreign=True)
    with run_hub(hub_data, attestation_publishers="ada=ada-lab/maze/release.yml") as hub:
        author = Author.new(hub, tmp_path)
        with hub.client() as client:
            response = client.post(
                "/legacy/",
                data={"attestations": json.dumps([an_attestation()])},
                files={"content": (wheel.name, wheel.read_bytes())},
                auth=("__token__", author.token),
            )

        assert (response.status_code, response.json()["code"]) == (400, "attestation_refused")
        assert ask(hub, "GET", f"/owners/{author.owner}/simple/").status_code == 404


@pytest.mark.embedded
def test_provenance_that_is_kept_is_told_and_served(hub: RunningHub, tmp_path: Path) -> None:
    author, name = Author.new(hub, tmp_path), f"maze-{uuid.uuid4().hex[:8]}"
    (version,) = author.publish(name)
    content = json.dumps({"version": 1, "attestation_bundles": [], "for": name}).encode()
    digest = hashlib.sha256(content).hexdigest()
    FileStorage(hub.settings.blobs).put_bytes(digest, content)
    database = Database.open(hub.settings.database)
    row = update(File).where(File.sha256 == version["digest"])
    database.write(lambda session: session.execute(row.values(provenance_sha256=digest)))
    database.close()

    (file,) = document(hub, f"/owners/{author.owner}/simple/{name}/")["files"]
    served = ask(hub, "GET", file["provenance"].removeprefix(hub.url))

    assert served.content == content
    assert served.headers["content-type"] == "application/vnd.pypi.integrity.v1+json"
