"""Attestations: refused unless a trusted publisher's; what is kept is told and served."""

import base64
import hashlib
import json
import os
import shutil
import socket
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
import sigstore
from pypi_attestations import AttestationType, Distribution, Provenance
from sqlalchemy import update

from strop.errors import ConfigError
from strop_hub import admin
from strop_hub.db import Database
from strop_hub.errors import AttestationError
from strop_hub.legacy.attestation import publishers_of, verify
from strop_hub.models import File
from strop_hub.publish.sdk import received
from strop_hub.serve import serve
from strop_hub.settings import Settings
from strop_hub.storage import FileStorage
from tests.factories import a_wheel
from tests.hub_server.author import Author, ask
from tests.hub_server.index.test_index import document
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.hub_server.test_upload_clients import uv_publish

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


STORE = Path(sigstore.__file__).with_name("_store")
OWN_ROOTS = {
    name: str(STORE / f"https%3A%2F%2Ftuf-repo-cdn.{name}.dev" / "trusted_root.json")
    for name in ("sigstore", "sigstage")
}
"""The roots of two real Sigstores, as files: the one that signed what is here, and another."""


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


ATTESTED = Path(__file__).with_name("attested") / "pypi_attestations-0.0.19.tar.gz"
"""Published and signed by its real authors; the roots of trust come with the extra."""

SIGNED = ATTESTED.with_name(f"{ATTESTED.name}.publish.attestation")
TRUSTED = "ada=trailofbits/pypi-attestations/release.yml"
PAGE = "/owners/ada/simple/pypi-attestations/"


def upload_signed(
    hub: RunningHub, attestation: str, content: bytes | None = None
) -> httpx.Response:
    admin.user_add(hub.settings, "ada")
    with hub.client() as client:
        return client.post(
            "/legacy/",
            data={"attestations": f"[{attestation}]"},
            files={"content": (ATTESTED.name, ATTESTED.read_bytes())},
            auth=("__token__", hub.new_token("ada")),
        )


@pytest.mark.embedded
def test_uv_publishes_a_signed_file_whose_provenance_is_verified_kept_and_served(
    hub_data: Path, tmp_path: Path
) -> None:
    for path in (ATTESTED, SIGNED):
        shutil.copy(path, tmp_path / path.name)
    wheel = a_wheel(tmp_path, name="pypi-attestations", version="0.0.19", is_foreign=True)
    with run_hub(hub_data, attestation_publishers=TRUSTED) as hub:
        admin.user_add(hub.settings, "ada")
        author = Author(hub, tmp_path, "ada", hub.new_token("ada"))
        paths = [tmp_path / ATTESTED.name, tmp_path / SIGNED.name, wheel]
        status, printed = uv_publish(author, *paths)
        assert status == 0, printed
        files = document(hub, PAGE)["files"]
        html = ask(hub, "GET", PAGE, accept="text/html").text
        (signed,) = [file for file in files if "provenance" in file]
        served = ask(hub, "GET", signed["provenance"].removeprefix(hub.url))

    assert signed["filename"] == ATTESTED.name
    assert f'data-provenance="{signed["provenance"]}"' in html
    assert html.count("data-provenance") == 1
    provenance = Provenance.model_validate_json(served.content)
    (bundle,) = provenance.attestation_bundles
    (attestation,) = bundle.attestations
    # Whoever downloads it finds the same that the hub found.
    kind, _ = attestation.verify(bundle.publisher, Distribution.from_file(ATTESTED), offline=True)
    assert kind == AttestationType.PYPI_PUBLISH_V1


@pytest.mark.embedded
@pytest.mark.parametrize(("roots", "status"), [("sigstore", 200), ("sigstage", 400)])
def test_signatures_count_that_lead_to_the_operators_own_roots(
    hub_data: Path, roots: str, status: int
) -> None:
    variables = {"attestation_trusted_root": OWN_ROOTS[roots]}
    with run_hub(hub_data, attestation_publishers=TRUSTED, **variables) as hub:
        answer = upload_signed(hub, SIGNED.read_text())

    assert answer.status_code == status, answer.text
    if status != httpx.codes.OK:
        assert answer.json()["code"] == "attestation_refused"


@pytest.mark.parametrize("content", [None, b"{}", b"\xff", b"[" * 10_000])
def test_a_hub_whose_roots_are_none_does_not_start(tmp_path: Path, content: bytes | None) -> None:
    roots = tmp_path / "trusted_root.json"
    if content is not None:
        roots.write_bytes(content)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        # A hub that did start would be refused its address.
        port = taken.getsockname()[1]
        settings = Settings(data=tmp_path / "hub", port=port, attestation_trusted_root=str(roots))
        with pytest.raises(
            ConfigError, match=r"`attestation_trusted_root`: .*\.json is no trusted"
        ):
            serve(settings)
    assert not (tmp_path / "hub").exists()


def forged(**changed: Any) -> str:
    """The real attestation with parts of its envelope replaced."""
    genuine = json.loads(SIGNED.read_text())
    genuine["envelope"] |= changed
    return json.dumps(genuine)


def another_statement() -> str:
    text = base64.b64decode(json.loads(SIGNED.read_text())["envelope"]["statement"]).decode()
    digest = hashlib.sha256(ATTESTED.read_bytes()).hexdigest()
    return base64.b64encode(text.replace(digest, "0" * 64).encode()).decode()


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("attestation", "publishers"),
    [
        pytest.param(SIGNED.read_text(), TRUSTED.replace("trailofbits", "mallory"), id="elsewhere"),
        pytest.param(SIGNED.read_text(), TRUSTED.replace("release", "test"), id="other workflow"),
        pytest.param(forged(signature="bm90aGluZw=="), TRUSTED, id="signature"),
        pytest.param(forged(statement=another_statement()), TRUSTED, id="statement"),
    ],
)
def test_a_signature_that_proves_nothing_here_is_refused(
    tmp_path: Path, attestation: str, publishers: str
) -> None:
    file = received(Path(shutil.copy(ATTESTED, tmp_path)))

    with pytest.raises(AttestationError, match="is not valid"):
        verify(file, f"[{attestation}]", publishers_of("ada", [publishers]))


def test_a_genuine_signature_of_another_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / ATTESTED.name
    other.write_bytes(a_wheel(tmp_path).read_bytes())

    with pytest.raises(AttestationError, match="digest"):
        verify(received(other), f"[{SIGNED.read_text()}]", publishers_of("ada", [TRUSTED]))


@pytest.mark.embedded
def test_without_the_extra_attestations_are_refused_in_words_that_help(
    hub_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Read by every interpreter that starts: the library is as if it was not installed.
    hiding = "import sys\nsys.modules['pypi_attestations'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hiding)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with run_hub(hub_data, attestation_publishers=TRUSTED) as hub:
        response = upload_signed(hub, SIGNED.read_text())

    assert (response.status_code, response.json()["code"]) == (400, "attestation_refused")
    assert "strop[hub,attestations]" in response.json()["detail"]


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
