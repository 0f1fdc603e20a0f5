"""Follow any simple index: its wheels and source distributions, under an owner of one's own.

What an index says of itself when a page is read, its ETag, is kept in the data folder once all of
the page is here: so an interrupted mirror goes on where it was, and one that is repeated asks only
for what has changed. What goes from the index stays here.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version as Number
from sqlalchemy import select

from strop.errors import HubUnreachableError
from strop.hub.refs import normalize_name
from strop_hub.audit.service import Act
from strop_hub.errors import (
    DigestMismatchError,
    HubError,
    InvalidPackageError,
    NotFoundError,
    TooLargeError,
)
from strop_hub.hub import Hub
from strop_hub.models import Environment, File, Owner, Version, VersionStatus
from strop_hub.publish.staging import staging_folder
from strop_hub.publish.yank import unyank, yank
from strop_hub.upkeep.mirror import OWN_FAULT
from strop_hub.upkeep.simple_index import Link, Page, Seen, SimpleIndex
from strop_hub.upkeep.taking import examine_file, mirroring_caller, take_file

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class IndexMirrored:
    """What a run did."""

    published_count: int = 0
    """Files that are new here."""
    yanked_count: int = 0
    """Versions whose yank was taken over, or taken back."""
    unchanged_count: int = 0
    """Pages that are as they were."""
    skipped: list[str] = field(default_factory=list)
    """Files that this hub refuses, with the cause; they are tried again by the next run."""


@dataclass(frozen=True, slots=True)
class _Project:
    """One project of the index, and what of it is here."""

    owner: str
    name: str
    digests: dict[str, str]
    """Of the files that are here, by their name."""
    yanks: dict[Number, str | None]
    """Of the visible versions: why they are yanked; None for those that are not."""


def mirror_index(hub: Hub, url: str, owner: str, names: Sequence[str] = ()) -> IndexMirrored:
    """Take over what is new on the simple index at `url`; then return.

    Args:
        hub: Where to.
        url: Of the index, such as ``https://index.example/simple/``.
        owner: Whose the projects are here; made when it is new.
        names: Of projects; empty for all that the index lists.

    Raises:
        HubUnreachableError: The index does not answer; the next run goes on from there.
        HubError: This hub cannot take what came, for a cause of its own.
    """
    owner = normalize_name(owner)
    state = _State.read(hub.settings.data / "mirrors" / f"{owner}.pages.jsonl", url)
    result = IndexMirrored()
    with SimpleIndex(url) as index:
        for name in [normalize_name(name) for name in names] or _listed(index):
            page = index.read(name, state.pages.get(name, Seen()))
            if page is None:
                result.unchanged_count += 1
            elif _follow(hub, index, _project(hub, owner, name), page, result):
                state.add(name, page.seen)
    return result


def _listed(index: SimpleIndex) -> list[str]:
    page = index.read(None, Seen())
    return sorted(set(page.names)) if page is not None else []


def _follow(
    hub: Hub, index: SimpleIndex, project: _Project, page: Page, result: IndexMirrored
) -> bool:
    """Take over a page; whether all of it is here now."""
    is_whole = True
    for link in sorted(page.links, key=_rank):
        try:
            result.published_count += _take(hub, index, project, link)
        except HubError as error:
            if error.status >= OWN_FAULT:
                raise
            is_whole = False
            result.skipped.append(f"{project.name}: {link.filename}: {error.detail}")
    project = _project(hub, project.owner, project.name)
    result.yanked_count += _follow_yanks(hub, project, page.links)
    return is_whole


def _rank(link: Link) -> tuple[bool, bool, str]:
    # A version has one wheel: the one that suits every machine, where there is one.
    return not link.filename.endswith(".whl"), "-none-any." not in link.filename, link.filename


def _take(hub: Hub, index: SimpleIndex, project: _Project, link: Link) -> bool:
    """Publish a file here; whether it is new."""
    known = project.digests.get(link.filename)
    if known is not None:
        if link.algorithm == "sha256" and link.digest != known:
            raise DigestMismatchError(
                f"the index has other bytes now, sha256 {link.digest}; what was mirrored, "
                f"sha256 {known}, never changes"
            )
        return False
    with staging_folder(hub.settings.uploads) as folder:
        path = folder / link.filename
        _download(index.client, link, path, hub.settings.max_file_bytes)
        _publish(hub, project, path)
    return True


def _download(client: httpx.Client, link: Link, target: Path, max_bytes: int) -> None:
    digest = hashlib.new(link.algorithm or "sha256", usedforsecurity=False)
    size_bytes = 0
    try:
        with client.stream("GET", link.url) as response, target.open("wb") as file:
            if response.is_client_error:
                raise NotFoundError(f"the index answers {response.status_code} for {link.url}")
            response.raise_for_status()
            for piece in response.iter_raw():
                size_bytes += len(piece)
                if size_bytes > max_bytes:
                    raise TooLargeError(f"the file has more than {max_bytes} bytes")
                digest.update(piece)
                file.write(piece)
    except httpx.HTTPError as error:
        raise HubUnreachableError(
            f"{link.url} cannot be downloaded: {error}. "
            "Run the same command again later; it goes on where it was."
        ) from error
    if link.digest not in (None, digest.hexdigest()):
        raise DigestMismatchError(
            f"the index announces {link.algorithm} {link.digest}, what came has "
            f"{digest.hexdigest()}"
        )


def _publish(hub: Hub, project: _Project, path: Path) -> None:
    candidate = examine_file(path)
    if candidate.facts.name != project.name:
        raise InvalidPackageError(f"the file is of the project `{candidate.facts.name}`")
    take_file(hub, project.owner, candidate, "mirror")


def _follow_yanks(hub: Hub, project: _Project, links: Iterable[Link]) -> int:
    """Yank here what is yanked there, and take back what is not any more."""
    count = 0
    for link in links:
        number = _number(link.filename)
        if not link.filename.endswith(".whl") or number not in project.yanks:
            continue
        if link.filename not in project.digests or project.yanks[number] == link.yanked:
            continue
        ref = (project.owner, project.name, str(number))
        caller, target = mirroring_caller(hub, project.owner), "{}/{}@{}".format(*ref)
        if link.yanked is None:
            unyank(hub, caller, ref, Act("unyank", target))
        else:
            yank(hub, caller, ref, Act("yank", target), reason=link.yanked)
        count += 1
    return count


def _number(filename: str) -> Number | None:
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[1]
        return parse_sdist_filename(filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def _project(hub: Hub, owner: str, name: str) -> _Project:
    statement = (
        select(
            File.filename,
            File.sha256,
            Version.version,
            Version.status,
            Version.yanked_at,
            Version.yank_reason,
        )
        .join(Version, Version.id == File.version_id)
        .join(Environment, Environment.id == Version.environment_id)
        .join(Owner, Owner.id == Environment.owner_id)
        .where(Owner.name == owner, Environment.name == name)
    )
    digests, yanks = {}, {}
    with hub.database.read() as session:
        for filename, sha256, version, status, yanked_at, reason in session.execute(statement):
            digests[filename] = sha256
            if status is VersionStatus.VISIBLE:
                yanks[Number(version)] = None if yanked_at is None else (reason or "")
    return _Project(owner, name, digests, yanks)


@dataclass(slots=True)
class _State:
    """What the index said of its pages that are here, one line a page; the last one counts."""

    path: Path
    url: str
    pages: dict[str, Seen] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, url: str) -> "_State":
        """The state of earlier runs; empty for another index, or a line that was cut."""
        state = cls(path, url)
        lines = path.read_text().splitlines() if path.is_file() else []
        for line in filter(None, lines):
            try:
                document = json.loads(line)
                if document["url"] == url:
                    seen = Seen(document["etag"], document["modified"])
                    state.pages[document["name"]] = seen
            except (ValueError, KeyError, TypeError):
                logger.warning("%s has a line that cannot be read; its page is read again", path)
        return state

    def add(self, name: str, seen: Seen) -> None:
        """Note a page that is here whole."""
        if seen == self.pages.get(name) or not seen.headers():
            return
        self.pages[name] = seen
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"url": self.url, "name": name, **asdict(seen)})
        with self.path.open("a") as file:
            # In front: the line before may have been cut by whatever ended that run.
            file.write(f"\n{line}")
