"""Open a staged release, add files to it, publish or abandon it.

The semantics are those of PEP 694: nothing of a release is seen before it is published, and then
all of it; what refuses one file refuses all.
"""

import secrets
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from strop.hub.wire import FileKind, ReleaseDetail, ReleaseRequest, StagedFileLine
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller, recognise_again
from strop_hub.db import now
from strop_hub.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    ReleaseClosedError,
    UnauthenticatedError,
)
from strop_hub.hub import Hub
from strop_hub.models import Owner, ReleaseState, StagedFile, StagedRelease, Visibility
from strop_hub.publish.form import ReceivedFile
from strop_hub.publish.service import admit
from strop_hub.settings import MIB, Settings

LIFETIME_H = 24
MAX_OPEN = 20
MAX_FILES = 200


def open_release(hub: Hub, caller: Caller, wanted: ReleaseRequest, act: Act) -> ReleaseDetail:
    """A new, empty release of an owner.

    Raises:
        ForbiddenError: The caller may not publish as the owner.
        ConflictError: The owner has too many open ones.
    """
    name = admit(caller, wanted.owner)

    def change(session: Session) -> ReleaseDetail:
        admit(recognise_again(session, caller), name)
        _drop_expired(session)
        owner = session.scalars(select(Owner).where(Owner.name == name)).one()
        is_open = (StagedRelease.owner_id == owner.id, StagedRelease.state == ReleaseState.OPEN)
        count = session.scalar(select(func.count()).where(*is_open)) or 0
        if count >= MAX_OPEN:
            raise ConflictError(
                f"`{name}` has {count} releases under way. Publish or abandon one of them first."
            )
        visibility = None if wanted.visibility is None else Visibility(wanted.visibility)
        release = StagedRelease(
            key=secrets.token_urlsafe(24),
            owner_id=owner.id,
            visibility=visibility,
            opened_by=caller.name or "",
            expires_at=now() + timedelta(hours=LIFETIME_H),
        )
        session.add(release)
        note(session, caller, act)
        session.flush()
        return describe(session, release)

    return hub.database.write(change)


def show_release(hub: Hub, caller: Caller, key: str) -> ReleaseDetail:
    """What a release holds.

    Raises:
        NotFoundError: There is none, or it is not the caller's.
    """
    with hub.database.read() as session:
        return describe(session, find_release(session, caller, key))


def abandon_release(hub: Hub, caller: Caller, key: str, act: Act) -> None:
    """Forget a release and its files; without effect on one that was abandoned before.

    Raises:
        NotFoundError: There is none, or it is not the caller's.
        ReleaseClosedError: It was published.
    """

    def change(session: Session) -> None:
        release = find_release(session, caller, key)
        if release.state is ReleaseState.PUBLISHED:
            raise ReleaseClosedError("the release is published, and stays so. Yank its versions.")
        release.state = ReleaseState.ABANDONED
        session.execute(delete(StagedFile).where(StagedFile.release_id == release.id))
        note(session, caller, act)

    hub.database.write(change)


def add_rows(
    session: Session, release: StagedRelease, files: list[tuple[str, FileKind, ReceivedFile]]
) -> None:
    """Name files as part of a release; one of the same name takes the place of the former.

    Raises:
        InvalidRequestError: They are too many.
    """
    for filename, kind, file in files:
        row = session.get(StagedFile, (release.id, filename))
        if row is None:
            row = StagedFile(release_id=release.id, filename=filename)
            session.add(row)
        row.kind, row.sha256, row.size_bytes = kind, file.sha256, file.size_bytes
    session.flush()
    if len(staged_files(session, release)) > MAX_FILES:
        raise InvalidRequestError(f"a release has at most {MAX_FILES} files. Make several.")


def check_space(session: Session, release: StagedRelease, settings: Settings) -> None:
    """Refuse more staged bytes than the owner could publish.

    Raises:
        QuotaExceededError: They are.
    """
    owner = session.get_one(Owner, release.owner_id)
    quota_bytes = settings.owner_quota_bytes if owner.quota_bytes is None else owner.quota_bytes
    staged_bytes = session.scalar(
        select(func.coalesce(func.sum(StagedFile.size_bytes), 0))
        .join(StagedRelease, StagedRelease.id == StagedFile.release_id)
        .where(StagedRelease.owner_id == owner.id, StagedRelease.state == ReleaseState.OPEN)
    )
    wanted_bytes = owner.stored_bytes + int(staged_bytes or 0)
    if wanted_bytes > quota_bytes:
        raise QuotaExceededError(
            f"`{owner.name}` would keep {wanted_bytes / MIB:.1f} MiB of at most "
            f"{quota_bytes / MIB:.1f} MiB, staged files included. Abandon a release, or ask the "
            "hub's operator for a higher quota."
        )


def find_release(session: Session, caller: Caller, key: str) -> StagedRelease:
    """A release of an owner as whom the caller may publish.

    Raises:
        UnauthenticatedError: Nobody is calling.
        NotFoundError: There is none, or it is another's: that cannot be told apart.
    """
    if caller.user_id is None:
        raise UnauthenticatedError("a staged release needs a token of an owner who may publish")
    current = recognise_again(session, caller)
    row = session.execute(
        select(StagedRelease, Owner.name)
        .join(Owner, Owner.id == StagedRelease.owner_id)
        .where(StagedRelease.key == key[:64].replace("\0", " "))
    ).one_or_none()
    owners = {grant.owner for grant in current.grants}
    if row is None or row[1] not in owners:
        raise NotFoundError("there is no such release, or it is not yours")
    admit(current, row[1])
    release: StagedRelease = row[0]
    return release


def require_open(release: StagedRelease) -> None:
    """Pass while files can be added.

    Raises:
        ReleaseClosedError: It was published, abandoned, or is too old.
    """
    if release.state is not ReleaseState.OPEN:
        raise ReleaseClosedError(f"the release is {release.state}. Open another one.")
    if release.expires_at <= now():
        raise ReleaseClosedError(
            f"the release expired at {release.expires_at:%Y-%m-%d %H:%M} UTC. Open another one."
        )


def staged_files(session: Session, release: StagedRelease) -> list[StagedFile]:
    """The files of a release, by name."""
    statement = select(StagedFile).where(StagedFile.release_id == release.id)
    return list(session.scalars(statement.order_by(StagedFile.filename)))


def describe(session: Session, release: StagedRelease) -> ReleaseDetail:
    """A release as clients see it."""
    owner = session.get_one(Owner, release.owner_id)
    is_expired = release.state is ReleaseState.OPEN and release.expires_at <= now()
    return ReleaseDetail(
        key=release.key,
        owner=owner.name,
        state="expired" if is_expired else release.state.value,
        expires_at=release.expires_at,
        published=[f"{owner.name}/{name}" for name in release.published],
        files=[
            StagedFileLine(
                filename=file.filename,
                kind=file.kind,
                sha256=file.sha256,
                size_bytes=file.size_bytes,
            )
            for file in staged_files(session, release)
        ],
    )


def _drop_expired(session: Session) -> None:
    """Old releases go when new ones come; their blobs go with the next collection."""
    old = select(StagedRelease.id).where(StagedRelease.expires_at <= now())
    session.execute(delete(StagedFile).where(StagedFile.release_id.in_(old)))
    session.execute(delete(StagedRelease).where(StagedRelease.expires_at <= now()))
