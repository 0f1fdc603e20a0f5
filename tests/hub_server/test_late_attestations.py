"""Attestations that come after their file, from its author or to a mirror."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from strop.errors import HubRefusedError
from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.errors import AttestationError
from strop_hub.legacy.attestation import attestations_of
from strop_hub.models import Environment, File, Owner
from strop_hub.settings import Settings
from strop_hub.storage import open_storage
from strop_hub.upkeep.mirror import Mirrored, mirror
from strop_hub.upkeep.verify import verify
from tests.factories import a_wheel
from tests.hub_server import backends
from tests.hub_server.author import Author, ask
from tests.hub_server.checking import lose_blob
from tests.hub_server.index.test_index import document
from tests.hub_server.running_hub import RunningHub, run_hub
from tests.hub_server.test_attestation import ATTESTED, OWN_ROOTS, SIGNED

NAME = "pypi-attestations"
PUBLISHER = "trailofbits/pypi-attestations/release.yml"
PROVENANCE = f"files/{NAME}/{ATTESTED.name}.provenance"


def upload(author: Author, path: Path, **fields: str) -> httpx.Response:
    with author.hub.client() as client:
        # The first verification loads its library.
        client.timeout = httpx.Timeout(300)
        return client.post(
            f"/owners/{author.owner}/legacy/",
            data=fields,
            files={"content": (path.name, path.read_bytes())},
            auth=("__token__", author.token),
        )


def attest(author: Author) -> httpx.Response:
    """Upload the signed file with its attestation, in whatever state it is."""
    return upload(author, ATTESTED, attestations=f"[{SIGNED.read_text()}]")


def an_author(hub: RunningHub, folder: Path, name: str, *files: Path) -> Author:
    """Who has published a wheel of what others have signed, and files without attestations."""
    admin.user_add(hub.settings, name)
    author = Author(hub, folder, name, hub.new_token(name))
    wheel = a_wheel(folder / name, name=NAME, version="0.0.19", is_foreign=True)
    for path in (wheel, *files):
        answer = upload(author, path)
        assert answer.status_code == httpx.codes.OK, answer.text
    return author


def told(author: Author) -> list[str]:
    """The files of which the author's page tells provenance."""
    page = document(author.hub, f"/owners/{author.owner}/simple/{NAME}/")
    return [file["filename"] for file in page["files"] if "provenance" in file]


@pytest.mark.embedded
def test_attestations_are_added_to_a_published_file_until_its_version_closes(
    hub_data: Path, tmp_path: Path
) -> None:
    publishers = f"ada={PUBLISHER},grace={PUBLISHER}"
    with run_hub(hub_data, attestation_publishers=publishers) as hub:
        ada, grace = (an_author(hub, tmp_path, name, ATTESTED) for name in ("ada", "grace"))
        before = told(ada)
        added, again = attest(ada), attest(ada)
        owners_token = hub.new_token("grace", scopes=[Scope.ADMIN])
        close = f"/api/v1/environments/grace/{NAME}/versions/0.0.19/close"
        assert ask(hub, "POST", close, owners_token).is_success
        refused = attest(grace)

        assert (before, told(ada), told(grace)) == ([], [ATTESTED.name], [])
        served = ask(hub, "GET", f"/owners/ada/{PROVENANCE}")
        events = ask(hub, "GET", "/api/v1/changes").json()["items"]
    assert (added.text, again.text) == ("OK\n", "OK, it was there already\n")
    assert (refused.status_code, refused.json()["code"]) == (409, "version_closed")
    assert json.loads(attestations_of(served.content)) == [json.loads(SIGNED.read_text())]
    actions = [event["action"] for event in events if event["owner"] == "ada"]
    assert actions == ["publish", "add-file", "add-file"]
    with admin.open_hub(hub.settings) as parts:
        assert verify(parts).differences == []


@pytest.mark.embedded
def test_attestations_count_against_the_quota(hub_data: Path, tmp_path: Path) -> None:
    publishers = f"ada={PUBLISHER},grace={PUBLISHER}"
    file_bytes, half = ATTESTED.stat().st_size, SIGNED.stat().st_size // 2
    with run_hub(hub_data, attestation_publishers=publishers) as hub:
        together, late = (
            an_author(hub, tmp_path, "ada"),
            an_author(hub, tmp_path, "grace", ATTESTED),
        )
        for author, new_bytes in ((together, file_bytes), (late, 0)):
            before = kept_bytes(author)
            admin.quota_set(hub.settings, author.owner, before + new_bytes + half)
            refused = attest(author)
            still = kept_bytes(author)
            admin.quota_set(hub.settings, author.owner, None)
            taken = attest(author)
            told_bytes = len(ask(hub, "GET", f"/owners/{author.owner}/{PROVENANCE}").content)

            assert (refused.status_code, refused.json()["code"]) == (413, "quota_exceeded")
            assert (taken.status_code, still) == (200, before)
            assert kept_bytes(author) == before + new_bytes + told_bytes
        with admin.open_hub(hub.settings) as parts:
            assert verify(parts).differences == []
        owners_token = hub.new_token("ada", scopes=[Scope.ADMIN])
        gone = ask(hub, "DELETE", f"/api/v1/environments/ada/{NAME}", owners_token)
        assert (gone.status_code, kept_bytes(together)) == (204, 0)


def kept_bytes(author: Author) -> int:
    return admin.space_show(author.hub.settings, author.owner).stored_bytes


def follow(here: Settings, url: str, prefix: str, **given: Any) -> Mirrored:
    with admin.open_hub(backends.settings_of(here.data, **given)) as hub:
        result = mirror(hub, url, prefix)
        assert verify(hub).differences == []
    assert result.skipped == []
    return result


def kept(here: Settings) -> dict[str, bytes | None]:
    """The provenance of the signed file of each owner who has it."""
    statement = (
        select(Owner.name, File.provenance_sha256)
        .join(Environment, Environment.owner_id == Owner.id)
        .join(File, File.environment_id == Environment.id)
        .where(File.filename == ATTESTED.name)
    )
    with admin.open_hub(here) as hub, hub.database.read() as session:
        rows = session.execute(statement).all()
        return {owner: None if key is None else hub.storage.read(key) for owner, key in rows}


@pytest.mark.embedded
def test_a_mirror_carries_attestations_that_it_can_verify_and_names_the_others(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    trusted = {"attestation_publishers": (f"near-ada={PUBLISHER}", f"far-ada={PUBLISHER}")}
    foreign = trusted | {"attestation_trusted_root": OWN_ROOTS["sigstage"]}
    with run_hub(hub_data, attestation_publishers=f"ada={PUBLISHER}") as there:
        author = an_author(there, tmp_path, "ada", ATTESTED)
        follow(here, there.url, "near", **trusted)
        assert attest(author).is_success
        near = follow(here, there.url, "near", **trusted)
        far = follow(here, there.url, "far", **foreign)
        new = follow(here, there.url, "new", **trusted)
        printed = mirror_without_the_extra(here, there.url, "bare", tmp_path)
        signed = ask(there, "GET", f"/owners/ada/{PROVENANCE}").content

    version = f"ada/{NAME}@0.0.19: {ATTESTED.name}: "
    (untrusted,), (unknown,) = far.attestations_left_out, new.attestations_left_out
    assert (near.followed_count, near.attestations_left_out) == (1, [])
    assert untrusted.startswith(f"far-{version}an attestation of {ATTESTED.name} is not valid")
    assert unknown.startswith(f"new-{version}this hub trusts no publisher")
    assert f"left out the attestations of bare-{version}this hub does not verify" in printed
    assert "strop[hub,attestations]" in printed
    assert kept(here) == {"near-ada": signed, "far-ada": None, "new-ada": None, "bare-ada": None}


def mirror_without_the_extra(here: Settings, url: str, prefix: str, folder: Path) -> str:
    """What the command prints where the library is as if it was not installed."""
    hiding = "import sys\nsys.modules['pypi_attestations'] = None\n"
    (folder / "sitecustomize.py").write_text(hiding)
    command = [str(Path(sys.executable).with_name("strop")), "hub", "mirror", url]
    printed = subprocess.run(
        [*command, "--as", prefix, "--data", str(here.data)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    return " ".join((printed.stdout + printed.stderr).split())


@pytest.mark.parametrize("text", [b"", b"\xff", b"[]", b"{}", b'{"attestation_bundles": [1]}'])
def test_what_is_no_provenance_is_refused(text: bytes) -> None:
    with pytest.raises(AttestationError, match="provenance cannot be read"):
        attestations_of(text)


@pytest.mark.embedded
def test_a_mirror_waits_for_what_the_other_hub_cannot_give_now(
    hub_data: Path, tmp_path: Path, here: Settings
) -> None:
    with run_hub(hub_data) as there:
        author = Author.new(there, tmp_path / "packages")
        (version,) = author.publish("maze")
        storage = open_storage(there.settings)
        content = storage.read(version["digest"])
        lose_blob(there.settings, version["digest"])
        with pytest.raises(HubRefusedError, match="lacks the bytes"):
            follow(here, there.url, "far")
        storage.put_bytes(version["digest"], content)
        last = follow(here, there.url, "far")

    assert last.followed_count == 1
    with admin.open_hub(here) as hub:
        assert hub.storage.has(version["digest"])
        assert verify(hub).version_count == 1
