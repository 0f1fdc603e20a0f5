"""Load an installed environment, and say whether it is what was asked for (step: load)."""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from strop.environment import Environment
from strop.errors import EnvironmentLoadError
from strop.hub.installing.record import Installation, inspect_installation
from strop.hub.manifest import read_project
from strop.hub.manners import keeping_the_process
from strop.hub.refs import EnvRef, normalize_name
from strop.hub.settings import check_settings, recorded_settings
from strop.types import EnvironmentIdentity

ENTRY_POINT_GROUP = "strop.environments"


def load(name_or_reference: str, /, **settings: Any) -> Environment:
    """The environment that is installed under a name, made with `settings`.

    Nothing is ever installed or fetched. A bare name takes whatever is installed. A reference
    ``owner/name[@…]`` also compares it with the record that `strop env install` left: another
    owner, version or digest, or altered files, are refused; for an editable installation and one
    whose owner is unknown there is a warning, since nothing proves what it is. What its code
    changes of the process as it loads, such as signal handlers, the root logger or the working
    folder, is put back, with a warning.

    Args:
        name_or_reference: Such as ``math-env`` or ``ada/math-env@~=1.0``.
        settings: For the environment's `load_environment`; text is coerced to the type.

    Raises:
        InvalidRefError: the text is neither a name nor a reference.
        EnvironmentLoadError: it is not installed, is not what was asked for, or is broken.
        SettingsError: settings are unknown, missing or of a wrong type.
    """
    ref = EnvRef.parse(name_or_reference) if "/" in name_or_reference else None
    name = ref.name if ref is not None else normalize_name(name_or_reference)
    entry_point, distribution = _find(name, name_or_reference)
    installed = inspect_installation(_dist_info(distribution))
    identity = _identity(name, distribution, installed)
    if ref is not None:
        _check(ref, identity, installed)
    return _load(entry_point, settings, identity)


def load_project(folder: Path, /, **settings: Any) -> Environment:
    """The environment of an author's folder, loaded into this process without installing it.

    The folder, or its ``src``, stays on the import path.

    Args:
        folder: Where its ``pyproject.toml`` is.
        settings: For the environment's `load_environment`; text is coerced to the type.

    Raises:
        ManifestError: the folder's manifest is wrong.
        EnvironmentLoadError: it is broken.
        SettingsError: settings are unknown, missing or of a wrong type.
    """
    manifest = read_project(folder)
    if manifest.entry_point is None:
        raise EnvironmentLoadError(
            f"{folder} declares no entry point. Add it under "
            f"[project.entry-points.{ENTRY_POINT_GROUP!r}]."
        )
    root = folder.resolve()
    sys.path[:0] = [str(path) for path in (root / "src", root) if path.is_dir()]
    entry_point = EntryPoint(manifest.name, manifest.entry_point, ENTRY_POINT_GROUP)
    return _load(entry_point, settings, EnvironmentIdentity(manifest.name, None, manifest.version))


def _load(
    entry_point: EntryPoint, settings: Mapping[str, Any], identity: EnvironmentIdentity
) -> Environment:
    with keeping_the_process(identity.name):
        load_environment = _read(entry_point)
        values = check_settings(load_environment, settings, where=identity.name)
        environment = _make(load_environment, values, identity.name)
    environment.identity = identity
    environment.settings = recorded_settings(values)
    return environment


def installed_names() -> list[str]:
    """The environments that this interpreter can load, sorted."""
    return sorted({name for name, _, _ in _entry_points()})


def _entry_points() -> list[tuple[str, EntryPoint, Distribution]]:
    found = []
    seen: set[str] = set()
    for distribution in distributions():
        key, entry_points = _read_distribution(distribution)
        # The first of two copies on the import path is the one that an import gets.
        if key in seen:
            continue
        seen.add(key)
        for entry_point in entry_points:
            found.append((str(canonicalize_name(entry_point.name)), entry_point, distribution))
    return found


def _read_distribution(distribution: Distribution) -> tuple[str, list[EntryPoint]]:
    """Its normal name, and the environments that it offers."""
    try:
        names = distribution.metadata.get_all("Name") or [""]
        key = str(canonicalize_name(names[0]))
        return key, list(distribution.entry_points.select(group=ENTRY_POINT_GROUP))
    except (OSError, TypeError, ValueError) as error:
        # One broken package must not stop every other one.
        folder = _dist_info(distribution)
        warnings.warn(
            f"{folder} cannot be read ({error}); its package is passed over. Install it again.",
            stacklevel=5,
        )
        return str(folder), []


def _find(name: str, asked: str) -> tuple[EntryPoint, Distribution]:
    matches = [(point, owner) for found, point, owner in _entry_points() if found == name]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        installed = ", ".join(installed_names()) or "none"
        command = asked if "/" in asked else f"OWNER/{name}"
        raise EnvironmentLoadError(
            f"{asked} is not installed here (installed environments: {installed}). "
            f"Run `strop env install {command}`."
        )
    owners = " and ".join(sorted(str(owner.metadata["Name"]) for _, owner in matches))
    raise EnvironmentLoadError(
        f"Several packages offer an environment {name}: {owners}. Uninstall all but one."
    )


def _dist_info(distribution: Distribution) -> Path:
    # The only way to the folder: `locate_file` resolves names against its parent.
    return Path(str(getattr(distribution, "_path", "")))


def _identity(
    name: str, distribution: Distribution, installed: Installation
) -> EnvironmentIdentity:
    record = installed.record
    return EnvironmentIdentity(
        name,
        record.owner if record else None,
        distribution.version,
        record.digest if record and installed.state == "matches" else None,
        installed.state,
    )


def _check(ref: EnvRef, identity: EnvironmentIdentity, installed: Installation) -> None:
    command = f"Run `strop env install {ref}`."
    where = f"{identity.name} {identity.version}"
    record = installed.record
    if record is not None and record.owner != ref.owner:
        raise EnvironmentLoadError(
            f"{ref} was asked for, but {record.reference} is installed. "
            f"Run `strop env uninstall {ref.name}`, then `strop env install {ref}`."
        )
    if not _is_selected(ref, identity.version, record.digest if record else None):
        raise EnvironmentLoadError(f"{ref} was asked for, but {where} is installed. {command}")
    if installed.state == "differs":
        raise EnvironmentLoadError(
            f"{where} is installed, but it differs from what the hub published: "
            f"{installed.difference}. {command}"
        )
    if installed.state != "matches":
        replace = command.replace("install", "install --replace")
        warnings.warn(
            f"{ref} was asked for; {where} is installed, {installed.state}: nothing proves that "
            f"it is what the hub published. {replace}",
            stacklevel=3,
        )


def _is_selected(ref: EnvRef, version: str | None, digest: str | None) -> bool:
    if ref.digest is not None:
        # Without a record nothing can prove a digest.
        return digest is not None and digest.startswith(ref.digest)
    if version is None or not _is_version(version):
        return ref.version is None and ref.specifier is None
    if ref.version is not None:
        return Version(version) == ref.version
    # What a tag points to only the hub knows; loading asks nobody.
    return ref.specifier is None or ref.specifier.contains(version, prereleases=True)


def _is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except InvalidVersion:
        return False


def _read(entry_point: EntryPoint) -> Callable[..., Any]:
    try:
        loaded = entry_point.load()
    except (Exception, SystemExit) as error:
        raise EnvironmentLoadError(
            f"{entry_point.name} cannot be imported from `{entry_point.value}`: "
            f"{type(error).__name__}: {error}. Mend the package, or install another version."
        ) from error
    if not callable(loaded):
        raise EnvironmentLoadError(
            f"`{entry_point.value}` is no function. Let the entry point of {entry_point.name} "
            "name its `load_environment`."
        )
    function: Callable[..., Any] = loaded
    return function


def _make(
    load_environment: Callable[..., Any], values: Mapping[str, Any], name: str
) -> Environment:
    try:
        environment = load_environment(**values)
    except (Exception, SystemExit) as error:
        raise EnvironmentLoadError(
            f"{name}'s `load_environment` raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(environment, Environment):
        raise EnvironmentLoadError(
            f"{name}'s `load_environment` returned {type(environment).__name__}, "
            "not an Environment. Return one."
        )
    return environment
