"""Give an interpreter that lacks `strop` the SDK of the hub, never that of a public index."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zipfile import ZipFile

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from strop.errors import InstallError
from strop.hub.client import HubClient
from strop.hub.installing.target import Target
from strop.hub.wire import ResolvedVersion

SDK_REFERENCE = "strop/strop"


def has_fitting_sdk(target: Target, wheels: Iterable[Path]) -> bool:
    """Whether the target's `strop` is one that all of `wheels` accept."""
    package = target.packages.get("strop")
    if package is None:
        return False
    requirements = (requirement for wheel in wheels for requirement in _requirements(wheel))
    return all(
        requirement.specifier.contains(package.version, prereleases=True)
        for requirement in requirements
        if canonicalize_name(requirement.name) == "strop"
    )


def resolve_sdk(client: HubClient, target: Target) -> ResolvedVersion:
    """The caller's own version where the hub has it, otherwise the newest.

    Raises:
        InstallError: the hub has no SDK for the target's Python.
    """
    references = [f"{SDK_REFERENCE}@{own}"] if (own := _own_version()) else []
    result = client.resolve([*references, SDK_REFERENCE], target.python_version)
    for item in result.items:
        if isinstance(item, ResolvedVersion):
            return item
    raise InstallError(
        f"{target.python} has no `strop` that fits, and {client.base_url} has none to offer. "
        "Ask its operator to run `strop hub init` again, or install `strop` there yourself."
    )


def _own_version() -> str | None:
    try:
        return version("strop")
    except PackageNotFoundError:
        return None


def _requirements(wheel: Path) -> list[Requirement]:
    with ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        raw, _ = parse_email(archive.read(name))
    found = []
    for text in raw.get("requires_dist", []):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or "extra" not in str(requirement.marker):
            found.append(requirement)
    return found
