"""Push a folder to a hub, and get a pushed folder back (steps: push, pull)."""

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from strop.errors import ConfigError, DigestMismatchError, HubError, HubRefusedError
from strop.hub.client import HubClient, Upload, Visibility
from strop.hub.download import Progress
from strop.hub.manifest import UNBUILT_VERSION, Manifest, read_project
from strop.hub.package import pack
from strop.hub.refs import EnvRef
from strop.hub.secrets import find_secrets, refuse_secrets
from strop.hub.source import (
    SourceMember,
    extract_source_archive,
    list_source,
    read_source_archive,
    tree_digest,
)
from strop.hub.wire import PushOutcome, PushResult, ResolvedVersion, VersionDetail

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PushPlan:
    """What a push of a folder would ship."""

    folder: Path
    manifest: Manifest
    members: Sequence[SourceMember]
    tree_digest: str
    allowed_secrets: Collection[str]
    is_isolated: bool = True
    """Whether the build backend comes into an environment of its own."""

    @property
    def size_bytes(self) -> int:
        """Of all members together, unpacked."""
        return sum(member.size_bytes for member in self.members)


def plan_push(
    folder: Path, *, allowed_secrets: Collection[str] = (), is_isolated: bool = True
) -> PushPlan:
    """Read and check a folder; nothing is built, sent or changed.

    Args:
        folder: Where ``pyproject.toml`` is.
        allowed_secrets: Paths inside it that may hold what looks like a secret.
        is_isolated: Whether the build backend comes into an environment of its own.

    Raises:
        ManifestError: `[tool.strop]` is wrong.
        PackageError: a file cannot be shipped.
        SecretFoundError: a file looks like a secret.
    """
    manifest = read_project(folder)
    members = list_source(folder)
    allowed = {Path(path).as_posix() for path in allowed_secrets}
    refuse_secrets(find_secrets(folder, members, allowed), f"A push of {folder}")
    digest = tree_digest(folder, members)
    return PushPlan(folder, manifest, members, digest, allowed, is_isolated)


def choose_owner(client: HubClient, wanted: str | None = None) -> str:
    """As whom to push: as was asked, else as the token's limit says, else as its user.

    Raises:
        ConfigError: there is no token.
        HubRefusedError: the hub does not accept it.
    """
    if not client.has_token:
        raise ConfigError(
            f"A push to {client.base_url} needs a token. Run `strop login {client.base_url}`, "
            "or set STROP_TOKEN."
        )
    speaker = client.whoami()
    limit = (speaker.limited_to or "").partition("/")[0]
    return wanted or limit or speaker.user


def find_published(client: HubClient, owner: str, plan: PushPlan) -> VersionDetail | None:
    """The version that a push would publish, when this very tree is already there.

    Raises:
        HubRefusedError: code ``version_exists``: another tree has this version.
    """
    name, version = plan.manifest.name, plan.manifest.version
    if version == UNBUILT_VERSION:
        return None
    try:
        published = client.version(owner, name, version)
    except HubRefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    if published.tree_digest == plan.tree_digest:
        return published
    raise _taken(f"{owner}/{name}@{version}", published.digest)


def push(
    client: HubClient,
    owner: str,
    plan: PushPlan,
    *,
    visibility: Visibility | None = None,
    announce: Announce = lambda message: None,
    progress: Progress | None = None,
) -> PushResult:
    """Publish what was planned; the same tree again changes nothing and is not even built.

    Raises:
        BuildError: the wheel cannot be built.
        HubRefusedError: the hub refuses; code ``version_exists`` when another tree is there.
    """
    if (published := find_published(client, owner, plan)) is not None:
        return PushResult(outcome=PushOutcome.ALREADY_PUBLISHED, version=published)
    with tempfile.TemporaryDirectory(prefix="strop-push-") as out:
        announce(f"Building {plan.manifest.name}")
        package = pack(
            plan.folder,
            Path(out),
            isolated=plan.is_isolated,
            allowed_secrets=plan.allowed_secrets,
        )
        announce(f"Uploading to {client.base_url}")
        upload = Upload(package.wheel, package.source, package.tree_digest)
        result = client.push(owner, upload, visibility=visibility, progress=progress)
    if result.version.tree_digest != package.tree_digest:
        raise DigestMismatchError(
            f"The hub says that it published {package.wheel.name}, but with tree digest "
            f"{result.version.tree_digest} instead of {package.tree_digest}. Tell its operator."
        )
    return result


def pull(
    client: HubClient, reference: str, folder: Path | None = None, progress: Progress | None = None
) -> tuple[ResolvedVersion, Path]:
    """Give back the tree that its author pushed, exactly; the folder that it lies in.

    Args:
        client: The hub.
        reference: Such as ``ada/math-env@~=1.0``.
        folder: Absent or empty; None makes one with the environment's name.
        progress: Told how many bytes of how many have gone.

    Raises:
        HubRefusedError: the reference names nothing, or a version without its source.
        DigestMismatchError: the archive or the tree in it is not what was pushed.
        PackageError: the folder is in the way.
    """
    version = resolve_one(client, reference)
    where = f"{version.owner}/{version.name}@{version.version}"
    if version.source is None:
        raise HubError(
            f"{where} was uploaded without its source. Run `strop env install {where}` instead."
        )
    target = folder or Path(version.name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} exists and is not an empty folder. Name another one.")
    with tempfile.TemporaryDirectory(prefix="strop-pull-") as name:
        archive = Path(name) / "source.tar.gz"
        client.download(version.source, archive, progress)
        found = read_source_archive(archive).tree_digest
        promised = client.version(version.owner, version.name, version.version).tree_digest
        if promised is not None and found != promised:
            raise DigestMismatchError(
                f"The source of {where} has tree digest {found}, but {promised} was pushed. "
                "Nothing was written. Tell the hub's operator."
            )
        extract_source_archive(archive, target)
    return version, target


def resolve_one(client: HubClient, reference: str) -> ResolvedVersion:
    """What a single reference means now.

    Raises:
        HubRefusedError: it names nothing.
    """
    (item,) = client.resolve([str(EnvRef.parse(reference))]).items
    if not isinstance(item, ResolvedVersion):
        raise HubRefusedError(
            item.detail, status=HTTPStatus.NOT_FOUND, code=item.code, request_id=None
        )
    return item


def _taken(where: str, digest: str) -> HubRefusedError:
    return HubRefusedError(
        f"{where} is already published with another tree (sha256 {digest}), and a published "
        "version never changes. Raise `version` in pyproject.toml and push again.",
        status=HTTPStatus.CONFLICT,
        code="version_exists",
        request_id=None,
    )
