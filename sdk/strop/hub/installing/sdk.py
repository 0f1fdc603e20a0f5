"""Give an interpreter that lacks `strop` the SDK of the hub, never that of a public index."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zipfile import ZipFile

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from strop.errors import InstallError
from strop.hub.client import HubClient
from strop.hub.installing.target import Target
from strop.hub.wire import ResolvedVersion

SDK_REFERENCE = "strop/strop"


def required_sdk(wheels: Iterable[Path]) -> SpecifierSet:
    """The versions of `strop` that all of `wheels` accept."""
    accepted = SpecifierSet()
    for requirement in (requirement for wheel in wheels for requirement in _requirements(wheel)):
        if canonicalize_name(requirement.name) == "strop":
            accepted &= requirement.specifier
    return accepted


def has_fitting_sdk(target: Target, accepted: SpecifierSet) -> bool:
    """Whether the target has a `strop` of an accepted version."""
    package = target.packages.get("strop")
    return package is not None and accepted.contains(package.version, prereleases=True)


def resolve_sdk(client: HubClient, target: Target, accepted: SpecifierSet) -> ResolvedVersion:
    """The caller's own version where it is accepted and the hub has it, otherwise the newest.

    Raises:
        InstallError: the hub has no accepted SDK for the target's Python.
    """
    newest = f"{SDK_REFERENCE}@{accepted}" if accepted else SDK_REFERENCE
    own = _own_version()
    is_accepted = own is not None and accepted.contains(own, prereleases=True)
    references = [f"{SDK_REFERENCE}@{own}", newest] if is_accepted else [newest]
    result = client.resolve(references, target.python_version)
    for item in result.items:
        if isinstance(item, ResolvedVersion):
            return item
    raise InstallError(
        f"{target.python} has no `strop` that fits, and {client.base_url} offers no "
        f"{newest} either. Ask its operator to run `strop hub init` again, or install `strop` "
        "there yourself."
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
