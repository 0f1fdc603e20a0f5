"""Tags of one's own: pointers to versions, with a history; `latest` is computed."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from strop.errors import InvalidRefError
from strop.hub.refs import LATEST, EnvRef
from strop.hub.wire import Scope, Tag, TagList
from strop_hub.auth import Caller
from strop_hub.errors import InvalidRequestError, NotFoundError, ReservedNameError
from strop_hub.hub import Hub
from strop_hub.models import TagMove, Version, VersionTag
from strop_hub.registry.service import require_environment
from strop_hub.releases.subject import Request, Subject, find_subject

MAX_TAGS = 100
_MAX_HISTORY = 500


def list_tags(hub: Hub, caller: Caller, owner: str, name: str) -> TagList:
    """The tags of an environment, by name.

    Raises:
        NotFoundError: The environment is not there, or not for `caller`.
    """
    with hub.database.read() as session:
        environment = require_environment(session, caller, owner, name)
        moves = _moves(session, environment.id)
        current = set(
            session.scalars(
                select(VersionTag.tag).where(VersionTag.environment_id == environment.id)
            )
        )
    newest: dict[str, Tag] = {}
    for move in moves:
        newest.setdefault(move.tag, move)
    return TagList(items=[newest[tag] for tag in sorted(current) if tag in newest])


def show_history(hub: Hub, caller: Caller, owner: str, name: str, tag: str) -> TagList:
    """Where a tag has pointed, the newest step first.

    Raises:
        NotFoundError: The environment is not there, or never had the tag.
    """
    with hub.database.read() as session:
        environment = require_environment(session, caller, owner, name)
        moves = _moves(session, environment.id, tag)
    if not moves:
        raise NotFoundError(f"`{owner}/{name}` never had a tag {tag[:64]!a}")
    return TagList(items=moves)


def set_tag(hub: Hub, request: Request, tag: str, number: str) -> TagList:
    """Point a tag to a version; the same again changes nothing.

    Raises:
        NotFoundError: The version is not there, or not for the caller.
        ForbiddenError: The caller may not.
        InvalidRequestError: It is no name for a tag, or there are too many.
    """
    _check_name(tag)

    def change(session: Session) -> None:
        subject = find_subject(session, request, Scope.PUBLISH)
        version = subject.version(session, number)
        row = session.get(VersionTag, (subject.environment.id, tag))
        if row is not None and row.version_id == version.id:
            return
        if row is None:
            _check_count(session, subject)
            key = subject.environment.id
            session.add(VersionTag(environment_id=key, tag=tag, version_id=version.id))
        else:
            row.version_id = version.id
        _note(session, request, subject, tag, version)

    hub.database.write(change)
    caller = request.reading(Scope.PUBLISH).caller
    return list_tags(hub, caller, request.owner, request.name)


def remove_tag(hub: Hub, request: Request, tag: str) -> TagList:
    """Take a tag away; its history stays.

    Raises:
        NotFoundError: There is no such tag, or it is not for the caller.
        ForbiddenError: The caller may not.
    """

    def change(session: Session) -> None:
        subject = find_subject(session, request, Scope.PUBLISH)
        row = session.get(VersionTag, (subject.environment.id, tag))
        if row is None:
            raise NotFoundError(f"`{subject.full_name}` has no tag {tag[:64]!a}")
        session.delete(row)
        _note(session, request, subject, tag, None)

    hub.database.write(change)
    caller = request.reading(Scope.PUBLISH).caller
    return list_tags(hub, caller, request.owner, request.name)


def _check_name(tag: str) -> None:
    if tag == LATEST:
        raise ReservedNameError(f"`{LATEST}` is computed from the versions. Choose another name.")
    try:
        is_tag = EnvRef.parse(f"owner/name@{tag}").tag == tag
    except InvalidRefError:
        is_tag = False
    if not is_tag:
        raise InvalidRequestError(
            f"{tag[:64]!a} is no name for a tag. Use lower-case letters, digits, `.`, `-` and `_`, "
            "beginning with a letter, and nothing that is a version, as `v1` is."
        )


def _check_count(session: Session, subject: Subject) -> None:
    tags = select(VersionTag.tag).where(VersionTag.environment_id == subject.environment.id)
    if len(session.scalars(tags).all()) >= MAX_TAGS:
        raise InvalidRequestError(
            f"`{subject.full_name}` has {MAX_TAGS} tags already. Take one away first."
        )


def _note(
    session: Session, request: Request, subject: Subject, tag: str, version: Version | None
) -> None:
    number = None if version is None else version.version
    session.add(
        TagMove(
            environment_id=subject.environment.id,
            tag=tag,
            version=number,
            moved_by=subject.caller.name or "",
        )
    )
    subject.note(session, request.act, number, reason=tag)


def _moves(session: Session, environment_id: int, tag: str | None = None) -> list[Tag]:
    statement = select(TagMove).where(TagMove.environment_id == environment_id)
    if tag is not None:
        statement = statement.where(TagMove.tag == tag)
    rows = session.scalars(statement.order_by(TagMove.id.desc()).limit(_MAX_HISTORY))
    return [
        Tag(tag=row.tag, version=row.version, moved_at=row.moved_at, moved_by=row.moved_by)
        for row in rows
    ]
