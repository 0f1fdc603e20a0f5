"""What an event of another hub's change feed does here.

An event only tells that something changed: what is done is read from how it stands there now, so
that a feed that is followed late leads to the same.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from strop.hub.client import HubClient
from strop.hub.refs import EnvRef, normalize_name
from strop.hub.wire import (
    Change,
    CheckReport,
    EnvironmentStatus,
    FileKind,
    PublishedFile,
    VersionDetail,
    VersionSummary,
)
from strop_hub.audit.service import Act
from strop_hub.checks.service import report_check
from strop_hub.errors import AttestationError, NotFoundError
from strop_hub.hub import Hub
from strop_hub.models import SHOWN, Environment, Owner, Version
from strop_hub.publish import sdk
from strop_hub.publish.record import Order
from strop_hub.publish.service import publish_files
from strop_hub.publish.staging import staging_folder
from strop_hub.publish.validate import SOURCE, WHEEL, examine
from strop_hub.publish.yank import unyank, yank
from strop_hub.releases import moves, operator, standing, tags
from strop_hub.releases.subject import Request
from strop_hub.upkeep.taking import (
    examine_file,
    mirroring_caller,
    take_file,
    take_provenance,
)


@dataclass(frozen=True, slots=True)
class Followed:
    """An event there, and where its like is done here."""

    hub: Hub
    client: HubClient
    prefix: str
    change: Change
    left_out: list[str]
    """Attestations that are not valid here, with the cause; more are added."""

    @property
    def owner(self) -> str:
        """Of the environment here."""
        return normalize_name(f"{self.prefix}-{self.change.owner}")

    def detail(self, number: str | None = None) -> VersionDetail:
        """The event's version, or another one, as it stands there now."""
        number = number or self.change.version
        assert number is not None
        return self.client.version(self.change.owner, self.change.name, number)

    def request(self, action: str, owner: str | None = None) -> Request:
        """What is asked of this hub."""
        owner = owner or self.owner
        act = Act(action, f"{owner}/{self.change.name}")
        return Request(mirroring_caller(self.hub, self.owner), owner, self.change.name, act)


def follow(followed: Followed) -> bool:
    """Do here what an event tells; whether it tells anything that is done here.

    Raises:
        HubRefusedError: What it is about is not there any more.
        HubError: This hub refuses it.
    """
    act = _ACTS.get(followed.change.action)
    is_whole = followed.change.action in _OF_ENVIRONMENTS
    if act is None or (followed.change.version is None and not is_whole):
        return False
    act(followed)
    return True


def _publish(followed: Followed) -> None:
    _take(followed, followed.detail())


def _add_file(followed: Followed) -> None:
    detail = followed.detail()
    _take_sdist(followed, detail)
    _take_provenance(followed, detail)


def _take(followed: Followed, detail: VersionDetail) -> None:
    """Publish a version with all its files; the same again changes nothing."""
    hub, owner = followed.hub, followed.owner
    with staging_folder(hub.settings.uploads) as folder:
        files = {
            part: sdk.received(_fetch(followed, file, folder))
            for part, kind in ((WHEEL, FileKind.WHEEL), (SOURCE, FileKind.SOURCE))
            for file in detail.files
            if file.kind is kind
        }
        act = Act("publish", f"{owner}/{detail.name}@{detail.version}")
        caller = mirroring_caller(hub, owner)
        publish_files(hub, Order(caller, owner, examine(files, {}), None, act))
    _take_sdist(followed, detail)
    _take_provenance(followed, detail)


def _take_sdist(followed: Followed, detail: VersionDetail) -> None:
    with staging_folder(followed.hub.settings.uploads) as folder:
        for file in detail.files:
            if file.kind is FileKind.SDIST:
                candidate = examine_file(_fetch(followed, file, folder))
                take_file(followed.hub, followed.owner, candidate, "publish")


def _take_provenance(followed: Followed, detail: VersionDetail) -> None:
    """Keep the attestations of a version's files that are valid here too, and name the others."""
    ref = EnvRef.parse(f"{followed.owner}/{detail.name}@{detail.version}")
    for file in detail.files:
        if file.kind is FileKind.SOURCE:
            continue
        found = followed.client.provenance(followed.change.owner, detail.name, file.filename)
        if found is None:
            continue
        try:
            take_provenance(followed.hub, ref, file, found)
        except AttestationError as error:
            line = f"{ref}: {file.filename}: {error.detail}"
            if line not in followed.left_out:
                followed.left_out.append(line)


def _fetch(followed: Followed, file: PublishedFile, folder: Path) -> Path:
    target = folder / file.filename
    # Compared with its digest on the way.
    followed.client.download(file, target)
    return target


def _yank(followed: Followed) -> None:
    detail = followed.detail()
    hub, owner = followed.hub, followed.owner
    ref = (owner, detail.name, detail.version)
    caller, target = mirroring_caller(hub, owner), f"{owner}/{detail.name}@{detail.version}"
    if detail.is_yanked:
        yank(hub, caller, ref, Act("yank", target), reason=detail.yank_reason or "")
    else:
        unyank(hub, caller, ref, Act("unyank", target))


def _erase(followed: Followed) -> None:
    ref = EnvRef.parse(f"{followed.owner}/{followed.change.name}@{followed.change.version}")
    operator.purge(followed.hub, ref, "erased on the hub that is mirrored")


def _stand(followed: Followed) -> None:
    """Quarantine, release or close an environment or a version as there."""
    if followed.change.version is None:
        _stand_whole(followed)
        return
    detail = followed.detail()
    _quarantine(followed, detail)
    if not detail.is_quarantined and detail.version not in _numbers(followed):
        # Nobody could fetch it before.
        _take(followed, detail)
    if detail.is_closed:
        standing.close(followed.hub, followed.request("close"), detail.version)


def _quarantine(followed: Followed, summary: VersionSummary) -> None:
    reason = (summary.quarantine_reason or "") if summary.is_quarantined else None
    request = followed.request("release" if reason is None else "quarantine")
    with suppress(NotFoundError):
        standing.set_quarantine(followed.hub, request, summary.version, reason)


def _stand_whole(followed: Followed) -> None:
    change, hub = followed.change, followed.hub
    shown = followed.client.environment(change.owner, change.name)
    request = followed.request(standing.ACTIONS[shown.status])
    with suppress(NotFoundError):
        standing.set_status(hub, request, shown.status, shown.status_reason or "")
    if shown.status in (EnvironmentStatus.ACTIVE, EnvironmentStatus.DEPRECATED):
        # What was published while it stood otherwise could not be fetched, or not be taken.
        here = _numbers(followed)
        for summary in followed.client.versions(change.owner, change.name):
            if summary.version not in here and not summary.is_quarantined:
                _take(followed, followed.detail(summary.version))


def _numbers(followed: Followed) -> set[str]:
    """Of the versions that are here."""
    statement = (
        select(Version.version)
        .join(Environment, Environment.id == Version.environment_id)
        .join(Owner, Owner.id == Environment.owner_id)
        .where(Owner.name == followed.owner, Environment.name == followed.change.name)
        .where(Version.status.in_(SHOWN))
    )
    with followed.hub.database.read() as session:
        return set(session.scalars(statement))


def _tag(followed: Followed) -> None:
    tag, number = followed.change.details["reason"], followed.change.version
    if number is None:
        tags.remove_tag(followed.hub, followed.request("untag"), tag)
    else:
        tags.set_tag(followed.hub, followed.request("tag"), tag, number)


def _move(followed: Followed) -> None:
    """Let an environment follow its owner's new name, or its new owner."""
    former = followed.change.details["was"].partition("/")[0]
    request = followed.request("transfer", normalize_name(f"{followed.prefix}-{former}"))
    moves.transfer(followed.hub, request, followed.owner)


def _check(followed: Followed) -> None:
    """Take over the newest report about a version, with the name of whoever mirrors."""
    detail = followed.detail()
    if detail.check is not None:
        report = CheckReport.model_validate(detail.check.model_dump())
        report_check(followed.hub, followed.request("check"), detail.version, report)


_ACTS: dict[str, Callable[[Followed], None]] = {
    "publish": _publish,
    "add-file": _add_file,
    "yank": _yank,
    "unyank": _yank,
    "delete": _erase,
    "purge": _erase,
    "check": _check,
    "quarantine": _stand,
    "release": _stand,
    "close": _stand,
    "activate": _stand,
    "deprecate": _stand,
    "archive": _stand,
    "tag": _tag,
    "untag": _tag,
    "rename": _move,
    "transfer": _move,
}
_OF_ENVIRONMENTS = {*standing.ACTIONS.values(), "release", "untag", "rename", "transfer"}
"""Events that need no version."""
