"""Receive the files of a staged release, and publish all of them in one transaction."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import delete
from sqlalchemy.orm import Session

from strop.errors import PackageError
from strop.hub.sdist import check_sdist
from strop.hub.wire import FileKind, ReleaseDetail
from strop_hub.audit.service import Act, note
from strop_hub.auth import Caller
from strop_hub.disk import named_faults
from strop_hub.errors import (
    ConflictError,
    EmptyReleaseError,
    InvalidPackageError,
    MalformedBodyError,
    StorageUnavailableError,
)
from strop_hub.hub import Hub, in_thread
from strop_hub.leases import write_named
from strop_hub.models import Owner, ReleaseState, StagedFile, StagedRelease, Visibility
from strop_hub.publish.form import Parts, ReceivedFile
from strop_hub.publish.receive import check_length, receive
from strop_hub.publish.record import Order, find_published, record
from strop_hub.publish.sdist import SdistCandidate, SdistOrder, record_sdist
from strop_hub.publish.service import Body
from strop_hub.publish.staging import staging_folder
from strop_hub.publish.store import StoredParts, store
from strop_hub.publish.validate import (
    FIELDS,
    FILES,
    SOURCE,
    SOURCE_SUFFIX,
    WHEEL,
    Candidate,
    examine,
)
from strop_hub.staging.service import (
    add_rows,
    check_space,
    describe,
    find_release,
    require_open,
    staged_files,
)

SDIST = "sdist"
_Named = list[tuple[str, FileKind, ReceivedFile]]


@dataclass(frozen=True, slots=True)
class _Package:
    """What is published of one version."""

    candidate: Candidate | None
    parts: StoredParts | None
    sdist: SdistCandidate | None

    @property
    def target(self) -> str:
        """``name@version``."""
        facts = (self.candidate or self.sdist).facts  # type: ignore[union-attr]
        return f"{facts.name}@{facts.version}"


@dataclass(frozen=True, slots=True)
class _Plan:
    """Who publishes, as whom, and how."""

    caller: Caller
    owner: str
    visibility: Visibility | None
    act: Act


async def add_files(hub: Hub, caller: Caller, key: str, body: Body) -> ReleaseDetail:
    """Check the files of a request as those of a push are, and stage them.

    Raises:
        HubError: What is wrong with the caller, the files or the hub; none of them was staged.
    """

    def check(session: Session) -> None:
        require_open(find_release(session, caller, key))

    await in_thread(hub.workers.database, hub.database.write, check)
    settings = hub.settings
    parts = Parts((*FILES, SDIST), FIELDS[:3], settings.max_file_bytes, settings.max_field_bytes)
    check_length(body.content_length, parts)
    with staging_folder(settings.uploads) as folder:
        form = await receive(body.chunks, body.content_type, folder, parts, hub.workers.blob)
        named = await in_thread(hub.workers.archive, _examine, form.files, form.fields)

        def put() -> None:
            for _, _, file in named:
                hub.storage.put_file(file.sha256, file.path)

        await in_thread(hub.workers.blob, put)

        def stage(session: Session) -> ReleaseDetail:
            release = find_release(session, caller, key)
            require_open(release)
            add_rows(session, release, named)
            check_space(session, release, settings)
            return describe(session, release)

        limiter, keys = hub.workers.database, {file.sha256 for _, _, file in named}
        return await in_thread(limiter, write_named, hub.database, hub.storage, keys, put, stage)


def publish_release(hub: Hub, caller: Caller, key: str, act: Act) -> ReleaseDetail:
    """Let everybody see all of a release, in one step; the same again changes nothing.

    Raises:
        NotFoundError: There is none, or it is not the caller's.
        ReleaseClosedError: It was abandoned, or is too old.
        HubError: What refuses one of its files refuses all of them.
    """
    with hub.database.read() as session:
        release = find_release(session, caller, key)
        if release.state is ReleaseState.PUBLISHED:
            return describe(session, release)
        require_open(release)
        owner = session.get_one(Owner, release.owner_id).name
        files = staged_files(session, release)
        plan = _Plan(caller, owner, release.visibility, act)
    if not files:
        raise EmptyReleaseError("the release has no files. Add some, or abandon it.")
    with staging_folder(hub.settings.uploads) as folder:
        packages = [_prepare(hub, folder, group) for group in _groups(files)]
        seen = {file.sha256 for file in files}

        def write(session: Session) -> ReleaseDetail:
            release = find_release(session, caller, key)
            if release.state is ReleaseState.PUBLISHED:
                return describe(session, release)
            require_open(release)
            if {file.sha256 for file in staged_files(session, release)} != seen:
                raise ConflictError("the release changed meanwhile. Publish it again.")
            for package in packages:
                _record(session, hub, package, plan)
            _end(session, release, packages)
            note(session, caller, replace(act, target=owner))
            return describe(session, release)

        return hub.database.write(write)


def _examine(files: Mapping[str, ReceivedFile], fields: Mapping[str, str]) -> _Named:
    named: _Named = []
    sdist = files.get(SDIST)
    if sdist is not None:
        named.append((_check_sdist(sdist).facts.filename, FileKind.SDIST, sdist))
    if WHEEL in files:
        candidate = examine({name: files[name] for name in FILES if name in files}, fields)
        named.append((candidate.facts.filename, FileKind.WHEEL, candidate.wheel))
        if candidate.source is not None:
            named.append((candidate.source_filename, FileKind.SOURCE, candidate.source))
    if not named:
        raise MalformedBodyError(f"the form has neither a file `{WHEEL}` nor a file `{SDIST}`")
    return named


def _check_sdist(file: ReceivedFile) -> SdistCandidate:
    try:
        return SdistCandidate(file, check_sdist(file.path, filename=file.filename))
    except PackageError as error:
        raise InvalidPackageError(str(error)) from None


def _groups(files: list[StagedFile]) -> list[list[StagedFile]]:
    """Files by the version that they belong to, as the beginnings of their names tell."""
    groups: dict[str, list[StagedFile]] = {}
    for file in files:
        stem = file.filename.removesuffix(SOURCE_SUFFIX).removesuffix(".tar.gz")
        groups.setdefault("-".join(stem.split("-")[:2]), []).append(file)
    return list(groups.values())


def _prepare(hub: Hub, folder: Path, group: list[StagedFile]) -> _Package:
    """Check staged files once more, from the blobs themselves."""
    received = {file.kind: _fetch(hub, folder, file) for file in group}
    candidate = parts = None
    if FileKind.WHEEL in received:
        kinds = {WHEEL: FileKind.WHEEL, SOURCE: FileKind.SOURCE}
        files = {name: received[kind] for name, kind in kinds.items() if kind in received}
        candidate = examine(files, {})
        parts = store(hub.storage, candidate)
    sdist = received.get(FileKind.SDIST)
    return _Package(candidate, parts, None if sdist is None else _check_sdist(sdist))


def _fetch(hub: Hub, folder: Path, file: StagedFile) -> ReceivedFile:
    path = folder / file.filename
    try:
        with (
            hub.storage.open(file.sha256) as source,
            named_faults(file.filename),
            path.open("wb") as target,
        ):
            shutil.copyfileobj(source, target, 1024 * 1024)
    except KeyError:
        raise StorageUnavailableError(
            f"the hub's storage lacks {file.filename}, which was staged. Add it again."
        ) from None
    return ReceivedFile(path, file.filename, file.sha256, file.size_bytes)


def _record(session: Session, hub: Hub, package: _Package, plan: _Plan) -> None:
    act = replace(plan.act, target=f"{plan.owner}/{package.target}")
    if package.candidate is not None and package.parts is not None:
        order = Order(plan.caller, plan.owner, package.candidate, plan.visibility, act)
        if find_published(session, order) is None:
            record(session, order, package.parts, hub.settings)
    if package.sdist is not None:
        record_sdist(session, SdistOrder(plan.caller, plan.owner, package.sdist, act), hub.settings)


def _end(session: Session, release: StagedRelease, packages: list[_Package]) -> None:
    release.state = ReleaseState.PUBLISHED
    release.published = [package.target for package in packages]
    session.execute(delete(StagedFile).where(StagedFile.release_id == release.id))
    session.flush()
