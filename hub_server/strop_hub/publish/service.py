"""The push path: receive, validate, store, write, announce; each step in its own module."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from strop.errors import InvalidRefError
from strop.hub.refs import normalize_name
from strop.hub.wire import PushOutcome, PushResult, Scope
from strop_hub.audit.service import Act
from strop_hub.auth import Caller, require
from strop_hub.db import after_commit
from strop_hub.errors import InvalidRequestError
from strop_hub.hub import Hub, in_thread
from strop_hub.leases import write_named
from strop_hub.models import Visibility
from strop_hub.publish.failpoints import reach
from strop_hub.publish.form import Parts
from strop_hub.publish.receive import check_length, receive
from strop_hub.publish.record import Order, Receipt, find_published, record
from strop_hub.publish.staging import staging_folder
from strop_hub.publish.store import StoredParts, store, stored_keys
from strop_hub.publish.validate import FIELDS, FILES, examine
from strop_hub.registry.service import show_version
from strop_hub.registry.views import version_detail, version_summary
from strop_hub.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body before it is read."""

    chunks: AsyncIterator[bytes]
    content_type: str
    content_length: str | None


async def push(hub: Hub, caller: Caller, owner: str, body: Body, act: Act) -> PushResult:
    """Publish what a request carries; all of it, or nothing.

    Nothing of the database is held while the body comes, which may take hours.

    Raises:
        HubError: What is wrong with the caller, the upload or the hub; nothing was published.
    """
    owner = admit(caller, owner)
    parts = _parts(hub.settings)
    check_length(body.content_length, parts)
    with staging_folder(hub.settings.uploads) as folder:
        form = await receive(body.chunks, body.content_type, folder, parts, hub.workers.blob)
        visibility = read_visibility(form.fields.get("visibility"))
        candidate = await in_thread(hub.workers.archive, examine, form.files, form.fields)
        target = f"{owner}/{candidate.facts.name}@{candidate.facts.version}"
        order = Order(caller, owner, candidate, visibility, replace(act, target=target))
        receipt = await publish_order(hub, order)
    if receipt.rows is None:
        return await in_thread(hub.workers.database, _answer, hub, order, receipt)
    return _answer(hub, order, receipt)


def publish_files(hub: Hub, order: Order) -> PushResult:
    """Publish files of this machine by the same steps; blocks."""
    receipt = _find(hub, order)
    if receipt is None:
        receipt = _write(hub, order, store(hub.storage, order.candidate))
    return _answer(hub, order, receipt)


def admit(caller: Caller, owner: str) -> str:
    """The owner's normal name, when the caller may publish something as that owner.

    Whether it takes the scope `create` or `publish` is known once the package's name is: then it
    is asked again.

    Raises:
        UnauthenticatedError: Nobody is calling.
        ForbiddenError: The caller may not.
    """
    try:
        owner = normalize_name(owner)
    except InvalidRefError as error:
        raise InvalidRequestError(str(error)) from None
    name = (caller.limited_to or "").partition("/")[2] or None
    scope = Scope.CREATE if caller.has_scope(Scope.CREATE) else Scope.PUBLISH
    require(caller, scope, owner, name)
    return owner


def read_visibility(text: str | None) -> Visibility | None:
    """The form's field; None when it is absent.

    Raises:
        InvalidRequestError: It is something else.
    """
    try:
        return None if text is None else Visibility(text)
    except ValueError:
        raise InvalidRequestError(
            f"`visibility` is {str(text)[:40]!a}; write `public` or `private`"
        ) from None


async def publish_order(hub: Hub, order: Order) -> Receipt:
    """Store and write one candidate whose files lie in a staging folder."""
    # A repeated push ends here and leaves no blob of another build of the same tree.
    receipt = await in_thread(hub.workers.database, _find, hub, order)
    if receipt is not None:
        return receipt
    parts = await in_thread(hub.workers.blob, store, hub.storage, order.candidate)
    return await in_thread(hub.workers.database, _write, hub, order, parts)


def _find(hub: Hub, order: Order) -> Receipt | None:
    with hub.database.read() as session:
        return find_published(session, order)


def _write(hub: Hub, order: Order, parts: StoredParts) -> Receipt:
    def write(session: Session) -> Receipt:
        receipt = record(session, order, parts, hub.settings)
        if receipt.outcome is PushOutcome.PUBLISHED:
            after_commit(session, lambda: _announce(order))
        return receipt

    def put() -> None:
        store(hub.storage, order.candidate)

    reach("publish.write")
    keys = stored_keys(order.candidate, parts)
    return write_named(hub.database, hub.storage, keys, put, write)


def _announce(order: Order) -> None:
    reach("publish.announce")
    logger.info(
        "published %s@%s by %s", order.full_name, order.candidate.facts.version, order.caller.name
    )


def _answer(hub: Hub, order: Order, receipt: Receipt) -> PushResult:
    if receipt.rows is None:
        # Whoever may publish an environment may see what came of it, whatever the token may do.
        caller = replace(order.caller, scopes=order.caller.scopes | {Scope.READ})
        version = show_version(hub, caller, order.owner, order.name, receipt.version)
    else:
        row, files = receipt.rows
        summary = version_summary(row, order.owner, order.name)
        readme = order.candidate.readme
        version = version_detail(summary, row, files, url=hub.settings.url, readme=readme)
    return PushResult(outcome=receipt.outcome, version=version, warnings=receipt.warnings)


def _parts(settings: Settings) -> Parts:
    return Parts(FILES, FIELDS, settings.max_file_bytes, settings.max_field_bytes)
