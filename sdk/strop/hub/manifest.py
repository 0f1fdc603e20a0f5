"""What an environment says about itself; author and hub share its rules (step: package)."""

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from strop.errors import InvalidRefError, ManifestError
from strop.hub.refs import EnvRef, normalize_name

MANIFEST_NAME = "strop.json"
"""The file in ``<name>-<version>.dist-info/`` that makes a wheel one of kind ``strop``."""

SCHEMA_VERSION = 1
ENTRY_POINT_GROUP = "strop.environments"
MAX_DOCUMENT_BYTES = 1024 * 1024

Category = Literal["math", "code", "science", "logic", "deep-research", "swe", "other"]
SandboxLevel = Literal["none", "process", "container"]

TOOL_KEYS = (
    "category",
    "tags",
    "reward-range",
    "deterministic",
    "sandbox",
    "secrets",
    "platform",
    "requires",
)
"""The keys of ``[tool.strop]``; the other fields come from ``[project]``."""

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

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TAG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _each(values: list[str], problem: Any) -> list[str]:
    """`values`, when none is doubled and ``problem(value)`` names no fault in any."""
    faults = [fault for value in values if (fault := problem(value))]
    doubled = sorted({value for value in values if values.count(value) > 1})
    faults += [f"{value!r} stands twice" for value in doubled]
    if faults:
        raise ValueError("; ".join(faults))
    return values


def _tags(values: list[str]) -> list[str]:
    if len(values) > 20:
        raise ValueError("at most 20 tags")
    rule = "is no tag (lower-case letters, digits and `-`, at most 40)"
    return _each(values, lambda tag: None if _TAG.fullmatch(tag) else f"{tag!r} {rule}")


def _secrets(values: list[str]) -> list[str]:
    rule = "is no variable's name (give the name, never the value)"
    # A value put here by mistake is a secret: it is not repeated in the message.
    return _each(values, lambda name: None if _VARIABLE.fullmatch(name) else f"an entry {rule}")


def _requires(values: list[str]) -> list[str]:
    def problem(text: str) -> str | None:
        try:
            EnvRef.parse(text)
        except InvalidRefError as error:
            return str(error)
        return None

    _each(values, problem)
    _each([EnvRef.parse(text).full_name for text in values], lambda _: None)
    return values


def _dependencies(values: list[str]) -> list[str]:
    def problem(text: str) -> str | None:
        try:
            Requirement(text)
        except InvalidRequirement:
            return f"{text!r} is no requirement (PEP 508)"
        return None

    faults = [fault for value in values if (fault := problem(value))]
    if faults:
        raise ValueError("; ".join(faults))
    return values


def _reward_range(value: Any) -> Any:
    if value is None:
        return None
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or any(
        isinstance(end, bool) or not isinstance(end, int | float) for end in value
    ):
        raise ValueError("must be two numbers: [lowest, highest]")
    try:
        low, high = (float(end) for end in value)
    except OverflowError:
        low = high = math.inf
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("must be two finite numbers, the lower one first")
    return low, high


def _name(text: str) -> str:
    return normalize_name(text)


def _version(text: str) -> str:
    try:
        return str(Version(text))
    except InvalidVersion:
        raise ValueError("is no version (PEP 440), such as 0.1.0") from None


def _requires_python(text: str | None) -> str | None:
    try:
        return None if text is None else str(SpecifierSet(text))
    except InvalidSpecifier:
        raise ValueError("is no version range, such as >=3.11") from None


def _entry_point(text: str | None) -> str | None:
    if text is not None and _ENTRY_POINT.fullmatch(text) is None:
        raise ValueError("must be `module:function`, such as math_env:load_environment")
    return text


def _line(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("must be one line without control characters")
    if len(text) > 512:
        raise ValueError(f"has {len(text)} characters; at most 512")
    return text


def _urls(urls: dict[str, str]) -> dict[str, str]:
    bad = [label for label, url in urls.items() if not url.startswith(("https://", "http://"))]
    if bad:
        raise ValueError(f"{', '.join(sorted(bad))}: only http and https addresses")
    return urls


Line = Annotated[str, AfterValidator(_line)]


class Manifest(BaseModel):
    """What an environment says about itself; JSON and TOML use the kebab-case names."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    name: Annotated[str, AfterValidator(_name)]
    """In the form of PEP 503; the distribution's, the hub's and the entry point's."""
    version: Annotated[str, AfterValidator(_version)]
    """In the normal form of PEP 440."""
    summary: Line = ""
    category: Category = "other"
    tags: Annotated[list[str], AfterValidator(_tags)] = Field(default_factory=list)
    reward_range: Annotated[tuple[float, float] | None, BeforeValidator(_reward_range)] = None
    """Of the total reward; None only in foreign wheels, which do not say."""
    deterministic: bool = False
    """False where judges, clocks or live search decide, and in foreign wheels."""
    sandbox: SandboxLevel = "none"
    secrets: Annotated[list[str], AfterValidator(_secrets)] = Field(default_factory=list)
    """Names of variables that it needs."""
    platform: bool = False
    """True: the wheel is not ``py3-none-any``."""
    requires: Annotated[list[str], AfterValidator(_requires)] = Field(default_factory=list)
    """Other hub environments, as references; the hub resolves them, no public index does."""
    requires_python: Annotated[str | None, AfterValidator(_requires_python)] = None
    dependencies: Annotated[list[str], AfterValidator(_dependencies)] = Field(default_factory=list)
    license: Line | None = None
    authors: list[Line] = Field(default_factory=list)
    entry_point: Annotated[str | None, AfterValidator(_entry_point)] = None
    """Such as ``math_env:load_environment``; None only in foreign wheels."""
    urls: Annotated[dict[str, str], AfterValidator(_urls)] = Field(default_factory=dict)

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
    key, *rest = (str(part) for part in fault["loc"])
    if key in absent:
        return None
    place = ".".join([labels.get(key, key), *rest])
    message = str(fault["msg"]).removeprefix("Value error, ")
    if key == "secrets" or isinstance(fault["input"], dict | list):
        return f"`{place}`: {message}"
    return f"`{place}` = {ascii(fault['input'])[:80]}: {message}"


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
