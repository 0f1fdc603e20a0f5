"""Publish here what was fetched from elsewhere, as an administrator of this hub."""

from functools import partial
from pathlib import Path

from sqlalchemy import select

from strop.hub.refs import EnvRef
from strop.hub.wire import PublishedFile
from strop_hub.accounts import service as accounts
from strop_hub.audit.service import Act
from strop_hub.auth import Caller, caller_of
from strop_hub.errors import NotFoundError
from strop_hub.hub import Hub
from strop_hub.leases import write_named
from strop_hub.legacy.attestation import attestations_of, keep_provenance
from strop_hub.legacy.form import CONTENT, examine_legacy
from strop_hub.models import Owner, User
from strop_hub.publish.provenance import ProvenanceOrder, add_provenance
from strop_hub.publish.record import Order
from strop_hub.publish.sdist import SdistCandidate, SdistOrder, record_sdist
from strop_hub.publish.sdk import received
from strop_hub.publish.service import publish_files
from strop_hub.publish.validate import Candidate


def examine_file(path: Path) -> Candidate | SdistCandidate:
    """A wheel or a source distribution that could be published here.

    Raises:
        InvalidPackageError: It breaks a rule.
    """
    return examine_legacy({CONTENT: received(path)}, {})


def take_file(hub: Hub, owner: str, candidate: Candidate | SdistCandidate, action: str) -> None:
    """Publish a file on its own, as packaging clients do; the same again changes nothing.

    Args:
        hub: This hub.
        owner: As whom; made when it is new.
        candidate: The file.
        action: What the audit trail calls it.

    Raises:
        HubError: This hub refuses it.
    """
    caller = mirroring_caller(hub, owner)
    act = Act(action, f"{owner}/{candidate.facts.name}@{candidate.facts.version}")
    if not isinstance(candidate, SdistCandidate):
        publish_files(hub, Order(caller, owner, candidate, None, act))
        return
    order, file = SdistOrder(caller, owner, candidate, act), candidate.file

    def put() -> None:
        hub.storage.put_file(file.sha256, file.path)

    put()
    write_named(
        hub.database,
        hub.storage,
        [file.sha256],
        put,
        lambda session: record_sdist(session, order, hub.settings),
    )


def take_provenance(hub: Hub, ref: EnvRef, file: PublishedFile, provenance: bytes) -> None:
    """Verify the attestations of a file that is here, and keep them.

    Args:
        hub: This hub.
        ref: The file's version here.
        file: As it is published elsewhere.
        provenance: What is told of it there, which proves nothing here.

    Raises:
        AttestationError: They are not valid here.
        HubError: This hub refuses them.
    """
    attestations = attestations_of(provenance)
    keep = partial(keep_provenance, hub.storage, hub.settings, ref.owner, file, attestations)
    kept = keep()
    assert kept is not None
    caller, act = mirroring_caller(hub, ref.owner), Act("add-file", str(ref))
    order = ProvenanceOrder(caller, ref.owner, ref.name, file.sha256, kept, act)
    add_provenance(hub, order, keep)


def mirroring_caller(hub: Hub, owner: str) -> Caller:
    """This hub's first administrator, who joins an owner that is new."""
    with hub.database.read() as session:
        admin = session.scalars(
            select(Owner.name).join(User, User.owner_id == Owner.id).where(User.is_admin)
        ).first()
        is_new = session.scalar(select(Owner.id).where(Owner.name == owner)) is None
    if admin is None:
        raise NotFoundError("this hub has no administrator. Run `strop hub init` first.")
    if is_new:
        hub.database.write(lambda session: accounts.add_organisation(session, owner, admin))
    with hub.database.read() as session:
        return caller_of(session, accounts.find_user(session, admin))
