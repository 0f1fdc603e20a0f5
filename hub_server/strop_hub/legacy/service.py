"""The upload path of packaging clients: a wheel or a source distribution a request."""

from dataclasses import replace
from functools import partial

from sqlalchemy.orm import Session

from strop.hub.wire import PushOutcome
from strop_hub.audit.service import Act
from strop_hub.auth import Caller, may_publish
from strop_hub.errors import (
    FileExistsOnHubError,
    ForbiddenError,
    SeveralOwnersError,
    UnauthenticatedError,
    VersionExistsError,
)
from strop_hub.hub import Hub, in_thread
from strop_hub.leases import write_named
from strop_hub.legacy.attestation import keep_provenance
from strop_hub.legacy.form import ATTESTATIONS, examine_legacy, legacy_parts
from strop_hub.publish.provenance import ProvenanceOrder, add_provenance
from strop_hub.publish.receive import check_length, receive
from strop_hub.publish.record import Order
from strop_hub.publish.sdist import SdistCandidate, SdistOrder, record_sdist
from strop_hub.publish.service import Body, admit, publish_order
from strop_hub.publish.staging import staging_folder


async def upload(hub: Hub, caller: Caller, owner: str | None, body: Body, act: Act) -> PushOutcome:
    """Publish the one file of a request; the same file again succeeds without effect.

    Only attestations are kept that come with it later, while its version is open.

    Args:
        hub: The hub's parts.
        caller: Whose token came.
        owner: As whom; None for the one owner that the token can mean.
        body: The form.
        act: What the audit trail says.

    Raises:
        SeveralOwnersError: The token could mean several.
        FileExistsOnHubError: The version has other bytes already.
        HubError: Whatever else is wrong; nothing was published.
    """
    owner = admit(caller, only_owner(caller) if owner is None else owner)
    parts = legacy_parts(hub.settings)
    check_length(body.content_length, parts)
    with staging_folder(hub.settings.uploads) as folder:
        form = await receive(body.chunks, body.content_type, folder, parts, hub.workers.blob)
        candidate = await in_thread(hub.workers.archive, examine_legacy, form.files, form.fields)
        (file,) = form.files.values()
        attestations = form.fields.get(ATTESTATIONS)
        keep = partial(keep_provenance, hub.storage, hub.settings, owner, file, attestations)
        provenance = await in_thread(hub.workers.archive, keep)
        target = f"{owner}/{candidate.facts.name}@{candidate.facts.version}"
        act = replace(act, target=target)
        if isinstance(candidate, SdistCandidate):
            order = SdistOrder(caller, owner, candidate, act, provenance)
            outcome = await _publish_sdist(hub, order)
        else:
            wheel = Order(caller, owner, candidate, None, act, provenance)
            outcome = await _publish_wheel(hub, wheel)
        if provenance is None or outcome is PushOutcome.PUBLISHED:
            return outcome
        late = ProvenanceOrder(caller, owner, candidate.facts.name, file.sha256, provenance, act)
        is_new = await in_thread(hub.workers.database, add_provenance, hub, late, keep)
        return PushOutcome.PUBLISHED if is_new else outcome


def only_owner(caller: Caller) -> str:
    """The one owner that a token can publish as.

    Raises:
        UnauthenticatedError: Nobody is calling.
        ForbiddenError: There is none.
        SeveralOwnersError: There are several; the message names the address of each.
    """
    if caller.user_id is None:
        raise UnauthenticatedError(
            "an upload needs a token: the user name `__token__` with the token as password"
        )
    limit = (caller.limited_to or "").partition("/")[0]
    owners = [
        grant.owner for grant in caller.grants if may_publish(grant) and limit in ("", grant.owner)
    ]
    if not owners:
        raise ForbiddenError(f"`{caller.name}` may not publish as anybody with this token")
    if len(owners) > 1:
        addresses = ", ".join(f"/owners/{owner}/legacy/" for owner in owners)
        raise SeveralOwnersError(
            f"the token of `{caller.name}` can publish as several owners, and /legacy/ names none. "
            f"Upload to one of {addresses}, or use a token that is limited to one owner."
        )
    return owners[0]


async def _publish_wheel(hub: Hub, order: Order) -> PushOutcome:
    try:
        receipt = await publish_order(hub, order)
    except VersionExistsError as error:
        # The words by which clients know that raising the version is what helps.
        raise FileExistsOnHubError(
            f"File already exists ({order.candidate.facts.filename!a}): {error.detail}"
        ) from None
    return receipt.outcome


async def _publish_sdist(hub: Hub, order: SdistOrder) -> PushOutcome:
    # Blobs before rows: one that no row names is harmless.
    file = order.candidate.file

    def put() -> None:
        hub.storage.put_file(file.sha256, file.path)

    await in_thread(hub.workers.blob, put)

    def write(session: Session) -> PushOutcome:
        return record_sdist(session, order, hub.settings)

    limiter, keys = hub.workers.database, [file.sha256]
    return await in_thread(limiter, write_named, hub.database, hub.storage, keys, put, write)
