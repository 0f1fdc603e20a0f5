"""Follow the change feed of another hub: its public environments, under owners of one's own.

What ``ada`` publishes there is published here as ``<prefix>-ada``, with the same bytes. How far the
feed was followed lies in the data folder, so that an interrupted mirror goes on where it was.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from sqlalchemy import select

from strop.errors import HubRefusedError, HubUnreachableError
from strop.hub.client import HubClient
from strop.hub.refs import EnvRef, normalize_name
from strop.hub.wire import API_PREFIX, Change, ChangePage, FileKind, VersionDetail
from strop_hub.accounts import service as accounts
from strop_hub.audit.service import Act
from strop_hub.auth import Caller, caller_of
from strop_hub.errors import HubError, NotFoundError
from strop_hub.hub import Hub
from strop_hub.models import Owner, User
from strop_hub.publish import sdk
from strop_hub.publish.record import Order
from strop_hub.publish.rules import SDK_NAME
from strop_hub.publish.service import publish_files
from strop_hub.publish.validate import SOURCE, WHEEL, examine
from strop_hub.publish.yank import unyank, yank
from strop_hub.releases import operator

OWN_FAULT = 500
"""Refusals from here on are no verdict on what came: a run ends with them."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Mirrored:
    """What a run did."""

    followed_count: int = 0
    """Events whose like was done here."""
    serial: int = 0
    """Up to which the feed was followed."""
    skipped: list[str] = field(default_factory=list)
    """Versions that this hub refuses, with the cause."""


def mirror(hub: Hub, url: str, prefix: str) -> Mirrored:
    """Take over what has happened on the hub at `url` since the last run; then return.

    Raises:
        HubUnreachableError: It does not answer; the next run goes on from there.
        HubError: This hub cannot take what came, for a cause of its own.
    """
    state = hub.settings.data / "mirrors" / f"{normalize_name(prefix)}.json"
    result = Mirrored(serial=_read_state(state, url))
    with HubClient(url) as client:
        for change in _changes(url, result.serial):
            _follow(hub, client, prefix, change, result)
            result.serial = change.serial
            _write_state(state, url, change.serial)
    return result


def _changes(url: str, since: int) -> Iterator[Change]:
    with httpx.Client(base_url=url, timeout=60) as client:
        while True:
            try:
                answer = client.get(f"{API_PREFIX}/changes", params={"since": since})
                answer.raise_for_status()
                page = ChangePage.model_validate_json(answer.content)
            except (httpx.HTTPError, ValueError) as error:
                raise HubUnreachableError(
                    f"the change feed of {url} cannot be read: {error}. "
                    "Run the same command again later; it goes on where it was."
                ) from error
            yield from page.items
            if not page.items or page.items[-1].serial >= page.last_serial:
                return
            since = page.items[-1].serial


def _follow(hub: Hub, client: HubClient, prefix: str, change: Change, result: Mirrored) -> None:
    if change.owner == SDK_NAME or change.version is None:
        return
    owner = normalize_name(f"{prefix}-{change.owner}")
    name = f"{change.owner}/{change.name}@{change.version}"
    act = _ACTS.get(change.action)
    if act is None:
        return
    try:
        act(hub, client, owner, change)
    except (HubRefusedError, NotFoundError):
        # It was deleted there since, or never came here; the feed tells so further on.
        logger.info("%s is not there", name)
    except HubError as error:
        if error.status >= OWN_FAULT:
            raise
        result.skipped.append(f"{name}: {error.detail}")
    else:
        result.followed_count += 1


def _publish(hub: Hub, client: HubClient, owner: str, change: Change) -> None:
    detail = _detail(client, change)
    with tempfile.TemporaryDirectory(dir=hub.settings.uploads) as folder:
        files = {
            part: sdk.received(_fetch(client, detail, kind, Path(folder)))
            for part, kind in ((WHEEL, FileKind.WHEEL), (SOURCE, FileKind.SOURCE))
            if any(file.kind is kind for file in detail.files)
        }
        act = Act("publish", f"{owner}/{change.name}@{change.version}")
        caller = mirroring_caller(hub, owner)
        publish_files(hub, Order(caller, owner, examine(files, {}), None, act))


def _yank(hub: Hub, client: HubClient, owner: str, change: Change) -> None:
    """Take over how the version stands now, whatever else the feed still tells."""
    detail = _detail(client, change)
    ref = (owner, change.name, detail.version)
    target = f"{owner}/{change.name}@{detail.version}"
    if detail.is_yanked:
        act = Act("yank", target)
        yank(hub, mirroring_caller(hub, owner), ref, act, reason=detail.yank_reason or "")
    else:
        unyank(hub, mirroring_caller(hub, owner), ref, Act("unyank", target))


def _erase(hub: Hub, _client: HubClient, owner: str, change: Change) -> None:
    ref = EnvRef.parse(f"{owner}/{change.name}@{change.version}")
    operator.purge(hub, ref, "erased on the hub that is mirrored")


_ACTS: dict[str, Callable[[Hub, HubClient, str, Change], None]] = {
    "publish": _publish,
    "yank": _yank,
    "unyank": _yank,
    "delete": _erase,
    "purge": _erase,
}


def _detail(client: HubClient, change: Change) -> VersionDetail:
    assert change.version is not None
    return client.version(change.owner, change.name, change.version)


def _fetch(client: HubClient, detail: VersionDetail, kind: FileKind, folder: Path) -> Path:
    (file,) = (file for file in detail.files if file.kind is kind)
    target = folder / file.filename
    # Compared with its digest on the way.
    client.download(file, target)
    return target


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


def _read_state(state: Path, url: str) -> int:
    if not state.is_file():
        return 0
    document = json.loads(state.read_text())
    return int(document["serial"]) if document["url"] == url else 0


def _write_state(state: Path, url: str, serial: int) -> None:
    state.parent.mkdir(parents=True, exist_ok=True)
    beside = state.with_suffix(".new")
    beside.write_text(json.dumps({"url": url, "serial": serial}))
    beside.replace(state)
