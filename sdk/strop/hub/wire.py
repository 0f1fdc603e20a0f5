"""The shapes of the hub's JSON API, imported by both ends (steps: publish, resolve).

Unknown fields are ignored when read, so that an older client understands a newer hub.
Times are UTC; digests are lower-case hex without a prefix; sizes are bytes.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from strop.hub.refs import NAME_PATTERN

API_PREFIX = "/api/v1"
HUB_HEADER = "strop-hub"
"""Every response of a hub carries this header with the hub's version."""
REQUEST_ID_HEADER = "x-request-id"
PROBLEM_TYPE = "application/problem+json"


NameText = Annotated[str, Field(max_length=100, json_schema_extra={"pattern": f"^{NAME_PATTERN}$"})]
"""An owner's or an environment's name; `normalize_name` refuses others in its own words."""

PythonText = Annotated[
    str, Field(json_schema_extra={"pattern": r"^[0-9]{1,9}(\.[0-9]{1,9}){0,2}$"})
]
"""The version of an interpreter."""


class Wire(BaseModel):
    """Base of every shape."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Problem(Wire):
    """An error, as RFC 9457 problem+json. Source: RFC 9457 section 3."""

    title: str
    status: int
    detail: str
    code: str
    """Stable, for programs."""
    request_id: str | None = None
    problems: list[str] = Field(default_factory=list)
    """Every single problem, where there can be several."""


class FileKind(StrEnum):
    """What a file of a version is for."""

    WHEEL = "wheel"
    """What is installed; its sha256 is the version's digest."""
    SOURCE = "source"
    """The author's tree as `strop env push` packs it; never on index pages."""
    SDIST = "sdist"
    """A PEP 517 source distribution, from packaging clients."""


class PublishedFile(Wire):
    """One file of a version."""

    filename: str
    kind: FileKind
    sha256: str
    size_bytes: int
    url: str
    """Absolute; answers GET, HEAD and Range with a strong ETag."""
    uploaded_at: datetime


class VersionKind(StrEnum):
    """Fixed when a version's wheel arrives."""

    STROP = "strop"
    """The wheel carries `strop.json`."""
    FOREIGN = "foreign"
    """Any other wheel; its manifest is derived from its metadata."""


class VersionSummary(Wire):
    """A version in a list."""

    owner: str
    name: str
    version: str
    kind: VersionKind
    digest: str
    """sha256 of the wheel: the digest that is stamped into everything."""
    tree_digest: str | None
    """Of the author's source; None for versions that came without it."""
    requires_python: str | None
    size_bytes: int
    published_at: datetime
    published_by: str
    is_yanked: bool
    yank_reason: str | None
    is_quarantined: bool = False
    """Neither resolvable nor served: it may do harm."""
    quarantine_reason: str | None = None
    is_closed: bool = False
    """Takes no further file."""


FiniteNumber = Annotated[float, Field(strict=True, allow_inf_nan=False)]
CheckName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
"""Of a check or of a measure."""


def _read_time(value: object) -> object:
    """Only text and times: pydantic would also take numbers, which the document does not offer."""
    if not isinstance(value, str | datetime):
        raise ValueError("must be a time, such as 2026-03-01T12:00:00Z")
    return value


class CheckFinding(Wire):
    """What one check of `strop env check` found."""

    check: CheckName
    """Stable."""
    verdict: Literal["ok", "warning", "failed", "skipped"]
    message: Annotated[str, Field(max_length=1000)]
    """Plain text."""
    reward: FiniteNumber | None = None
    """The mean reward of the policy that was played; None where none was."""


class CheckReport(Wire):
    """The result of `strop env check`, as an author reports it about a published version."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """sha256 of the version's wheel."""
    strop_version: Annotated[str, Field(pattern=r"^[0-9A-Za-z.+!_-]{1,64}$")]
    """Of the SDK that checked."""
    python_version: Annotated[str, Field(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){1,2}$")]
    """Of the interpreter that checked."""
    checked_at: Annotated[AwareDatetime, BeforeValidator(_read_time)]
    findings: Annotated[list[CheckFinding], Field(min_length=1, max_length=64)]
    measures: dict[CheckName, FiniteNumber] = Field(default_factory=dict, max_length=32)
    """Numbers such as ``import_cpu_s`` and ``dependency_bytes``; a unit is in each name."""


class ReportedCheck(CheckReport):
    """A report as the hub shows it: what its author says, which the hub has not tried."""

    is_ok: bool
    """Whether no finding failed; the hub's own count."""
    reported_at: datetime
    reported_by: str
    """The user's name."""


class CheckList(Wire):
    """The reports about one version, the newest first."""

    items: list[ReportedCheck]


class VersionDetail(VersionSummary):
    """All about a version."""

    manifest: dict[str, Any]
    """As `strop.hub.manifest.Manifest` dumps it."""
    settings_schema: dict[str, Any] | None
    """JSON schema of `load_environment`'s settings; None for foreign versions."""
    readme: str
    """Markdown as uploaded; the empty string when there is none."""
    files: list[PublishedFile]
    check: ReportedCheck | None = None
    """The newest report of `strop env check`; None when nobody has sent one."""


class PushOutcome(StrEnum):
    """What a push did."""

    PUBLISHED = "published"
    ALREADY_PUBLISHED = "already_published"
    """The same tree (or the same wheel) is there at this version; nothing changed."""


class PushResult(Wire):
    """The answer to a push."""

    outcome: PushOutcome
    version: VersionDetail
    warnings: list[str] = Field(default_factory=list)


class EnvironmentStatus(StrEnum):
    """How an environment wants to be taken. Source: PEP 792."""

    ACTIVE = "active"
    DEPRECATED = "deprecated"
    """Still served and extended; another should be used."""
    ARCHIVED = "archived"
    """Served, and closed for new versions."""
    QUARANTINED = "quarantined"
    """Neither extended nor served: it may do harm."""


class EnvironmentSummary(Wire):
    """An environment in a list."""

    owner: str
    name: str
    summary: str
    category: str
    tags: list[str]
    is_private: bool
    latest_version: str | None
    """None when every version is yanked."""
    updated_at: datetime
    status: EnvironmentStatus = EnvironmentStatus.ACTIVE
    status_reason: str | None = None


class EnvironmentDetail(EnvironmentSummary):
    """All about an environment, seen through its latest version."""

    created_at: datetime
    latest: VersionDetail | None


class EnvironmentPage(Wire):
    """One page of a listing."""

    items: list[EnvironmentSummary]
    next_cursor: str | None
    """Give it back as `cursor` for the next page; None on the last."""


class VersionPage(Wire):
    """One page of an environment's versions, newest first by PEP 440."""

    items: list[VersionSummary]
    next_cursor: str | None


class YankRequest(Wire):
    """Why a version should no longer be chosen."""

    reason: str = Field(default="", max_length=500)


class StatusRequest(Wire):
    """How an environment is to be taken from now on."""

    status: EnvironmentStatus
    reason: str = Field(default="", max_length=500)


class PurgeRequest(Wire):
    """What is to be erased, and why; the reason is kept."""

    version: str | None = None
    """None for every version."""
    reason: str = Field(min_length=1, max_length=500)


class ReleaseRequest(Wire):
    """A release of several files that become visible in one step."""

    owner: NameText
    visibility: Literal["public", "private"] | None = None
    """Of environments that are new; None for public."""


class StagedFileLine(Wire):
    """A file that waits for its release."""

    filename: str
    kind: FileKind
    sha256: str
    size_bytes: int


class ReleaseDetail(Wire):
    """A staged release."""

    key: str
    """By which the API names it."""
    owner: str
    state: Literal["open", "published", "abandoned", "expired"]
    expires_at: datetime
    files: list[StagedFileLine]
    """What waits; empty once it is published."""
    published: list[str]
    """``owner/name@version`` of what came of it."""


class RenameRequest(Wire):
    """An owner's new name."""

    name: NameText


class OwnerName(Wire):
    """An owner by its name."""

    name: str


class TransferRequest(Wire):
    """To whom an environment goes."""

    owner: NameText


class TagRequest(Wire):
    """Which version a tag points to."""

    version: str = Field(max_length=200)


class Tag(Wire):
    """A pointer with a name, or one step of its history."""

    tag: str
    version: str | None
    """None in a history: the tag was taken away."""
    moved_at: datetime
    moved_by: str


class TagList(Wire):
    """Tags by name, or the history of one, the newest step first."""

    items: list[Tag]


class Change(Wire):
    """One event of the change feed."""

    serial: int
    """Counts without gaps."""
    action: str
    """Such as ``publish``, ``yank`` or ``purge``."""
    owner: str
    name: str
    version: str | None
    """None for what happens to an environment as a whole."""
    details: dict[str, str] = Field(default_factory=dict)
    happened_at: datetime


class ChangePage(Wire):
    """Events after a serial, in order."""

    items: list[Change]
    last_serial: int
    """Of the newest event of the feed; the follower is up to date when it has seen this one."""


class ResolveRequest(Wire):
    """Many references in one round trip."""

    references: list[str] = Field(min_length=1, max_length=500)
    python_version: PythonText | None = None
    """Such as `3.11.7`; versions whose Requires-Python excludes it are passed over."""


class ResolvedVersion(Wire):
    """What an installer needs to fetch and verify one version."""

    reference: str
    """As asked."""
    owner: str
    name: str
    version: str
    kind: VersionKind
    digest: str
    wheel: PublishedFile
    source: PublishedFile | None
    manifest: dict[str, Any]
    requires: list["ResolvedVersion"] = Field(default_factory=list)
    """The manifest's other hub environments, resolved; transitive and flat, without repeats."""
    warnings: list[str] = Field(default_factory=list)


class ResolveError(Wire):
    """A reference that could not be resolved."""

    reference: str
    code: str
    detail: str


class ResolveResult(Wire):
    """The answer: one entry for each reference, in order."""

    items: list[ResolvedVersion | ResolveError]


class Scope(StrEnum):
    """What a token may do; each includes nothing but itself."""

    READ = "read"
    """See private environments of its owners."""
    CREATE = "create"
    """Publish the first version of a new environment."""
    PUBLISH = "publish"
    """Publish versions of existing environments."""
    YANK = "yank"
    ADMIN = "admin"
    """Everything that its user may do."""


class WhoAmI(Wire):
    """Who a token speaks for."""

    user: str
    is_admin: bool
    owners: list[str]
    """Owners as whom the token's user may publish; the user's own name first."""
    scopes: list[Scope]
    limited_to: str | None
    """An owner, or `owner/name`, outside which the token is worth nothing."""
    expires_at: datetime | None


class Health(Wire):
    """Liveness or readiness; readiness names each part that is not ready."""

    status: str
    version: str
    checks: dict[str, str] = Field(default_factory=dict)
