"""Install environments so that what was asked for is what runs (step: install)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from strop.errors import DigestMismatchError, HubRefusedError, InstallError
from strop.hub.client import HubClient
from strop.hub.download import Progress
from strop.hub.installing.cache import fetch_wheel
from strop.hub.installing.installer import InstallerName, WheelFile, choose_installer
from strop.hub.installing.record import (
    InstallRecord,
    inspect_installation,
    is_same_content,
    write_install_record,
)
from strop.hub.installing.sdk import has_fitting_sdk, required_sdk, resolve_sdk
from strop.hub.installing.target import Target, installation, read_target
from strop.hub.refs import EnvRef
from strop.hub.wire import ResolvedVersion

Announce = Callable[[str], None]


class Outcome(StrEnum):
    """What became of one environment."""

    INSTALLED = "installed"
    REINSTALLED = "reinstalled"
    """Another version, owner's hub or digest was there, or its files had been altered."""
    ADOPTED = "adopted"
    """The very same files were there without a record; now they have one."""
    ALREADY_INSTALLED = "already_installed"


@dataclass(frozen=True, slots=True)
class InstalledEnvironment:
    """One environment as it now lies in the target."""

    owner: str
    name: str
    version: str
    digest: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class InstallReport:
    """What an installation did."""

    python: str
    installer: str | None
    """None when nothing had to be installed."""
    environments: list[InstalledEnvironment]
    sdk: str | None
    """The version of `strop` that came from the hub; None when the target had one."""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """How to install; the defaults suit the running interpreter."""

    python: Path | None = None
    """An interpreter or a virtual environment's folder; None is the running interpreter."""
    installer: InstallerName | None = None
    replace: bool = False
    """Replace a package of this name whose owner is unknown, or an editable one."""
    upgrade: bool = False
    """Let other installed packages change their version."""


@dataclass(slots=True)
class _Step:
    """One version on its way into the target."""

    resolved: ResolvedVersion
    wheel: Path
    outcome: Outcome

    @property
    def reference(self) -> str:
        return f"{self.resolved.owner}/{self.resolved.name}@{self.resolved.version}"


def install(
    client: HubClient,
    references: Sequence[str],
    options: InstallOptions | None = None,
    *,
    announce: Announce = lambda message: None,
    progress: Progress | None = None,
) -> InstallReport:
    """Install what `references` name, with what they require of the hub.

    Everything of the hub is installed from files whose digest was checked; other dependencies
    come from the index that pip or uv is configured for, and installed packages keep their
    version unless `options` say otherwise.

    Raises:
        HubRefusedError: a reference names nothing that can be installed.
        InstallError: another owner's package is in the way, or the installer failed.
    """
    options = options or InstallOptions()
    target = read_target(options.python)
    resolved = _resolve(client, references, target)
    warnings = [warning for version in resolved for warning in version.warnings]
    steps = _plan(client, resolved, target, options, progress)
    if all(step.outcome is Outcome.ALREADY_INSTALLED for step in steps):
        return InstallReport(str(target.python), None, _environments(steps), None, warnings)
    sdk = None
    asked_for_sdk = any(step.resolved.name == "strop" for step in steps)
    accepted = required_sdk(step.wheel for step in steps)
    if not asked_for_sdk and not has_fitting_sdk(target, accepted):
        found = resolve_sdk(client, target, accepted)
        sdk = _plan(client, [found], target, options, progress)[0]
    used = _carry_out(client, [*steps, *([sdk] if sdk else [])], target, options, announce)
    sdk_version = sdk.resolved.version if sdk else None
    return InstallReport(str(target.python), used, _environments(steps), sdk_version, warnings)


def uninstall(name: str, options: InstallOptions | None = None) -> InstallRecord | None:
    """Remove an environment; gives the record that it had, if any.

    Args:
        name: A name, or ``owner/name`` when only that owner's is to be removed.
        options: Which interpreter and installer.

    Raises:
        InstallError: it is not installed, or it is another owner's.
    """
    options = options or InstallOptions()
    owner, _, bare = name.rpartition("/")
    key = str(canonicalize_name(bare.partition("@")[0]))
    target = read_target(options.python)
    package = target.packages.get(key)
    if package is None or not _is_environment(package.dist_info):
        raise InstallError(f"{key} is no environment that is installed for {target.python}.")
    record = inspect_installation(package.dist_info).record
    if owner and record is not None and record.owner != str(canonicalize_name(owner)):
        raise InstallError(
            f"{key} is installed, but it is {record.reference}. Run `strop env uninstall {key}`."
        )
    choose_installer(target, options.installer).uninstall([package.name])
    return record


def _is_environment(dist_info: Path) -> bool:
    if inspect_installation(dist_info).record is not None:
        return True
    try:
        return "strop.environments" in (dist_info / "entry_points.txt").read_text(encoding="utf-8")
    except OSError:
        return False


def _resolve(client: HubClient, references: Sequence[str], target: Target) -> list[ResolvedVersion]:
    asked = [EnvRef.parse(reference) for reference in references]
    result = client.resolve([str(ref) for ref in asked], target.python_version)
    found: dict[str, ResolvedVersion] = {}
    for ref, item in zip(asked, result.items, strict=True):
        if not isinstance(item, ResolvedVersion):
            raise HubRefusedError(item.detail, status=404, code=item.code, request_id=None)
        _check_answer(ref, item)
        for version in [item, *item.requires]:
            _check_file(version)
            earlier = found.setdefault(version.name, version)
            if (earlier.owner, earlier.digest) != (version.owner, version.digest):
                raise InstallError(
                    f"{_named(earlier)} and {_named(version)} cannot both be installed in one "
                    "interpreter. Install one of them elsewhere, with --python."
                )
    return list(found.values())


def _check_answer(ref: EnvRef, item: ResolvedVersion) -> None:
    is_right = (
        (ref.version is None or ref.version == Version(item.version))
        and (ref.specifier is None or ref.specifier.contains(item.version, prereleases=True))
        and (ref.digest is None or item.digest.startswith(ref.digest))
    )
    if not is_right:
        raise DigestMismatchError(
            f"For {ref} the hub offers {_named(item)} with sha256 {item.digest}, "
            "which is something else. Tell the hub's operator."
        )


def _check_file(version: ResolvedVersion) -> None:
    try:
        name, number, _, _ = parse_wheel_filename(version.wheel.filename)
    except InvalidWheelFilename as error:
        raise InstallError(f"{_named(version)}: the hub offers no wheel ({error}).") from error
    is_right = (
        version.wheel.sha256 == version.digest
        and len(version.digest) == 64
        and not set(version.digest) - set("0123456789abcdef")
        and (str(name), number) == (version.name, Version(version.version))
    )
    if not is_right:
        raise DigestMismatchError(
            f"{_named(version)}: the hub's answer names the wheel {version.wheel.filename} with "
            f"sha256 {version.wheel.sha256}, which does not belong to it. Tell its operator."
        )


def _plan(
    client: HubClient,
    resolved: Sequence[ResolvedVersion],
    target: Target,
    options: InstallOptions,
    progress: Progress | None,
) -> list[_Step]:
    steps = []
    for version in resolved:
        wheel = fetch_wheel(client, version.wheel, progress)
        steps.append(_Step(version, wheel, _decide(version, wheel, target, options)))
    return steps


def _decide(
    version: ResolvedVersion, wheel: Path, target: Target, options: InstallOptions
) -> Outcome:
    package = target.packages.get(version.name)
    if package is None or not (package.dist_info / "RECORD").exists():
        return Outcome.INSTALLED
    found = inspect_installation(package.dist_info)
    if found.record is not None:
        if found.record.owner != version.owner:
            raise InstallError(
                f"{found.record.reference} is installed for {target.python}, and two owners' "
                f"packages of one name do not fit into one interpreter. Install "
                f"{_named(version)} into another one (--python, or "
                "strop.hub.isolated.launch_isolated), or run "
                f"`strop env uninstall {version.name}` first."
            )
        is_same = found.state == "matches" and found.record.digest == version.digest
        return Outcome.ALREADY_INSTALLED if is_same else Outcome.REINSTALLED
    if found.state == "unknown owner" and is_same_content(package.dist_info, wheel):
        return Outcome.ADOPTED
    is_old_sdk = version.name == "strop" and found.state != "editable"
    if options.replace or is_old_sdk:
        return Outcome.REINSTALLED
    raise InstallError(
        f"{version.name} {package.version} is installed for {target.python}, {found.state}: it "
        f"does not come from `strop env install` and differs from {_named(version)}. "
        "Give --replace to put the hub's in its place, or --python to leave it alone."
    )


def _carry_out(
    client: HubClient,
    steps: Sequence[_Step],
    target: Target,
    options: InstallOptions,
    announce: Announce,
) -> str | None:
    used = None
    if any(step.outcome in (Outcome.INSTALLED, Outcome.REINSTALLED) for step in steps):
        installer = choose_installer(target, options.installer)
        used = installer.name
        announce(f"Installing {', '.join(step.reference for step in steps)} with {used}")
        with installation(target):
            installer.install(
                [WheelFile(step.resolved.name, step.wheel) for step in steps],
                reinstall=_same_version_other_bytes(steps, target),
                pins=_pins(steps, target, options),
            )
    installed = read_target(options.python).packages
    for step in steps:
        version = step.resolved
        package = installed.get(version.name)
        if package is None or Version(package.version) != Version(version.version):
            raise InstallError(
                f"{step.reference} was installed, but {target.python} finds "
                f"{package.version if package else 'nothing'}. Look for a second copy on its path."
            )
        record = InstallRecord(
            client.base_url, version.owner, version.name, version.version, version.digest
        )
        write_install_record(package.dist_info, record)
    return used


def _same_version_other_bytes(steps: Sequence[_Step], target: Target) -> frozenset[str]:
    return frozenset(
        step.resolved.name
        for step in steps
        if step.outcome is Outcome.REINSTALLED
        and (package := target.packages.get(step.resolved.name)) is not None
        and Version(package.version) == Version(step.resolved.version)
    )


def _pins(steps: Sequence[_Step], target: Target, options: InstallOptions) -> list[str]:
    free = {step.resolved.name for step in steps}
    if options.upgrade:
        return []
    return [
        f"{package.name}=={package.version}"
        for package in target.packages.values()
        if package.name not in free and _is_public_form(package.version)
    ]


def _is_public_form(version: str) -> bool:
    try:
        return bool(Version(version))
    except ValueError:
        return False


def _environments(steps: Sequence[_Step]) -> list[InstalledEnvironment]:
    return [
        InstalledEnvironment(
            step.resolved.owner,
            step.resolved.name,
            step.resolved.version,
            step.resolved.digest,
            step.outcome,
        )
        for step in steps
    ]


def _named(version: ResolvedVersion) -> str:
    return f"{version.owner}/{version.name}@{version.version}"
