"""What an environment says about itself; author and hub share its rules (step: package)."""

import json
import tomllib
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from strop.errors import ManifestError
from strop.hub.refs import EnvRef, normalize_name
from strop.hub.rules import fields
from strop.hub.rules.project import ENTRY_POINT_GROUP, LABELS, TOOL_KEYS, project_document

__all__ = [
    "ENTRY_POINT_GROUP",
    "MANIFEST_NAME",
    "TOOL_KEYS",
    "Manifest",
    "parse_manifest",
    "read_document",
    "read_project",
    "read_requirements",
    "write_document",
]

MANIFEST_NAME = "strop.json"
"""The file in ``<name>-<version>.dist-info/`` that makes a wheel one of kind ``strop``."""

SCHEMA_VERSION = 1
MAX_DOCUMENT_BYTES = 1024 * 1024

Category = Literal["math", "code", "science", "logic", "deep-research", "swe", "other"]
SandboxLevel = Literal["none", "process", "container"]

UNBUILT_VERSION = "0.dev0"
"""Stands for a dynamic version until the wheel is built."""

REQUIRED_KEYS: Mapping[str, str] = {
    "name": 'name = "my-env"',
    "version": 'version = "0.1.0"',
    "summary": 'description = "One line about it"',
    "entry-point": '[project.entry-points."strop.environments"] my-env = "my_env:load_environment"',
    "category": f"category = {' | '.join(get_args(Category))}",
    "reward-range": "reward-range = [0, 1]",
    "deterministic": "deterministic = true | false",
    "sandbox": f"sandbox = {' | '.join(get_args(SandboxLevel))}",
}
"""What kind ``strop`` must state, each with an example."""

Line = Annotated[str, AfterValidator(fields.line)]


class Manifest(BaseModel):
    """What an environment says about itself; JSON and TOML use the kebab-case names."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    name: Annotated[str, AfterValidator(normalize_name)]
    """In the form of PEP 503; the distribution's, the hub's and the entry point's."""
    version: Annotated[str, AfterValidator(fields.version)]
    """In the normal form of PEP 440."""
    summary: Line = ""
    category: Category = "other"
    tags: Annotated[list[str], AfterValidator(fields.tags)] = Field(default_factory=list)
    reward_range: Annotated[tuple[float, float] | None, BeforeValidator(fields.reward_range)] = None
    """Of the total reward; None only in foreign wheels, which do not say."""
    deterministic: bool = False
    """False where judges, clocks or live search decide, and in foreign wheels."""
    sandbox: SandboxLevel = "none"
    secrets: Annotated[list[str], AfterValidator(fields.secrets)] = Field(default_factory=list)
    """Names of variables that it needs."""
    platform: bool = False
    """True: the wheel is not ``py3-none-any``."""
    requires: Annotated[list[str], AfterValidator(fields.requires)] = Field(default_factory=list)
    """Other hub environments, as references; the hub resolves them, no public index does."""
    requires_python: Annotated[str | None, AfterValidator(fields.requires_python)] = None
    dependencies: Annotated[list[str], AfterValidator(fields.dependencies)] = Field(
        default_factory=list
    )
    license: Line | None = None
    authors: list[Line] = Field(default_factory=list)
    entry_point: Annotated[str | None, AfterValidator(fields.entry_point)] = None
    """Such as ``math_env:load_environment``; None only in foreign wheels."""
    urls: Annotated[dict[str, str], AfterValidator(fields.urls)] = Field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Plain JSON data with the kebab-case names, as `parse_manifest` reads it."""
        return self.model_dump(mode="json", by_alias=True)


_KEYS = frozenset(str(field.alias) for field in Manifest.model_fields.values())


def parse_manifest(
    document: Mapping[str, Any],
    where: str,
    *,
    labels: Mapping[str, str] | None = None,
    problems: list[str] | None = None,
) -> Manifest:
    """The manifest of an environment of kind ``strop``; the rules that author and hub share.

    Args:
        document: The kebab-case keys.
        where: The file, for the message.
        labels: How a key is called in that file, such as ``project.description``.
        problems: What is known to be wrong already; reported together with the rest.

    Raises:
        ManifestError: Something is wrong; every problem is named.
    """
    label = (labels or {}).get
    found = list(problems or [])
    found += [
        f"`{label(key, key)}` is missing. Write {example}"
        for key, example in REQUIRED_KEYS.items()
        if document.get(key) in (None, "")
    ]
    known = ", ".join(sorted(_KEYS))
    found += [
        f"`{label(key, key)}` is unknown. Known are {known}"
        for key in sorted(document.keys() - _KEYS)
    ]
    absent = {key for key in REQUIRED_KEYS if document.get(key) in (None, "")}
    given = {key: value for key, value in document.items() if key in _KEYS - absent}
    try:
        manifest = Manifest.model_validate(given)
    except ValidationError as error:
        found += [
            line
            for fault in error.errors(include_url=False)
            if (line := _describe(dict(fault), absent, labels or {})) is not None
        ]
    if found:
        raise ManifestError(where, found)
    return manifest


def _describe(fault: dict[str, Any], absent: set[str], labels: Mapping[str, str]) -> str | None:
    key, *rest = (_shown(str(part)) for part in fault["loc"])
    if key in absent:
        return None
    place = ".".join([labels.get(key, key), *rest])
    message = str(fault["msg"]).removeprefix("Value error, ")
    if key == "secrets" or isinstance(fault["input"], dict | list):
        return f"`{place}`: {message}"
    return f"`{place}` = {ascii(fault['input'])[:80]}: {message}"


def _shown(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def read_project(folder: Path, *, version: str | None = None) -> Manifest:
    """The manifest of the project in `folder`, from its ``pyproject.toml``.

    Args:
        folder: Where ``pyproject.toml`` is.
        version: Stands for a dynamic version; `UNBUILT_VERSION` when None.

    Raises:
        ManifestError: Something is wrong; every problem is named.
    """
    where = folder / "pyproject.toml"
    document, problems = project_document(_read_toml(folder), version or UNBUILT_VERSION)
    return parse_manifest(document, str(where), labels=LABELS, problems=problems)


def read_requirements(folder: Path, extras: Collection[str] = ()) -> list[str] | None:
    """What the project in `folder` depends on, other environments of the hub among it.

    None where the build backend decides it, and the project is not installed here.

    Args:
        folder: Where ``pyproject.toml`` is.
        extras: Of the project, whose dependencies count as well.

    Raises:
        ManifestError: The manifest is wrong, or there is no such extra.
    """
    manifest = read_project(folder)
    project = _read_toml(folder)["project"]
    optional = {
        normalize_name(name): requirements
        for name, requirements in project.get("optional-dependencies", {}).items()
    }
    unknown = [extra for extra in extras if normalize_name(extra) not in optional]
    if unknown:
        known = ", ".join(sorted(optional)) or "none"
        raise ManifestError(
            str(folder / "pyproject.toml"),
            [f"has no extra {', '.join(map(ascii, unknown))}; it has {known}"],
        )
    own: list[str] | None = manifest.dependencies
    if "dependencies" in project.get("dynamic", []):
        own = _installed_requirements(manifest.name)
    if own is None:
        return None
    chosen = [each for extra in extras for each in optional[normalize_name(extra)]]
    environments = [EnvRef.parse(reference).name for reference in manifest.requires]
    return [*own, *chosen, *environments]


def _installed_requirements(name: str) -> list[str] | None:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return None


def _read_toml(folder: Path) -> dict[str, Any]:
    where = folder / "pyproject.toml"
    try:
        return tomllib.loads(where.read_bytes().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ManifestError(
            str(folder), ["is no environment: it has no pyproject.toml. See `strop env init`"]
        ) from None
    except (ValueError, OSError, RecursionError) as error:
        raise ManifestError(str(where), [f"cannot be read: {error}"]) from None


def read_document(content: bytes, where: str) -> tuple[Manifest, dict[str, Any] | None]:
    """Manifest and settings schema from the bytes of a ``strop.json``.

    Raises:
        ManifestError: The document has another form, or the manifest breaks a rule.
    """
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ManifestError(where, [f"has {len(content)} bytes; at most {MAX_DOCUMENT_BYTES}"])
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError(where, [f"is no JSON: {error}"]) from None
    manifest, schema = (
        (document.get("manifest"), document.get("settings_schema"))
        if isinstance(document, dict)
        else (None, None)
    )
    if not isinstance(manifest, dict) or not isinstance(schema, dict | None):
        raise ManifestError(where, ["must be an object with `manifest` and `settings_schema`"])
    if document.get("schema_version") != SCHEMA_VERSION:
        raise ManifestError(
            where,
            [
                f"has schema version {ascii(document.get('schema_version'))[:20]}, this Strop "
                f"reads {SCHEMA_VERSION}. Build the wheel with a matching Strop"
            ],
        )
    return parse_manifest(manifest, where), schema


def write_document(manifest: Manifest, settings_schema: dict[str, Any] | None) -> bytes:
    """The bytes of a ``strop.json``: sorted, so that equal contents are equal bytes."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "manifest": manifest.document(),
        "settings_schema": settings_schema,
    }
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
