"""Errors that a client may cause, each with its own status and stable code.

Services raise these; `strop_hub.http.problems` renders them. Routes never catch them.
"""

from collections.abc import Mapping
from typing import ClassVar


class HubError(Exception):
    """Base class of every error that becomes a response."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(self, detail: str, *, problems: list[str] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = problems or []
        """Every single problem, where there can be several."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that belong to this answer."""
        return {}


class NotFoundError(HubError):
    """Nothing there, or nothing that the caller may see; one error for both (I12)."""

    status = 404
    code = "not_found"
    title = "Not found"


class UnauthenticatedError(HubError):
    """No token, one that this hub does not know, or one that is spent."""

    status = 401
    code = "token_missing"
    title = "A token is needed"

    @property
    def headers(self) -> Mapping[str, str]:
        """What clients that ask for a password understand."""
        return {"WWW-Authenticate": 'Basic realm="strop", Bearer realm="strop"'}


class InvalidTokenError(UnauthenticatedError):
    """The token is not one of this hub's, or was revoked."""

    code = "token_invalid"
    title = "The token is not valid"


class ExpiredTokenError(UnauthenticatedError):
    """The token was valid once."""

    code = "token_expired"
    title = "The token has expired"


class ForbiddenError(HubError):
    """The caller is known and may not."""

    status = 403
    code = "forbidden"
    title = "Not allowed"


class MissingScopeError(ForbiddenError):
    """The token lacks a scope, or is limited to something else."""

    code = "scope_missing"
    title = "The token may not do this"


class ConflictError(HubError):
    """What is asked for contradicts what is there."""

    status = 409
    code = "conflict"
    title = "Conflict"


class VersionExistsError(ConflictError):
    """The version is published with other contents."""

    code = "version_exists"
    title = "The version is already published"


class VersionSpentError(ConflictError):
    """The version was deleted; its name is never used again."""

    code = "version_deleted"
    title = "The version was deleted"


class NameTakenError(ConflictError):
    """An owner's name is taken or reserved."""

    code = "name_taken"
    title = "The name is taken"


class VersionClosedError(ConflictError):
    """The version takes no further file."""

    code = "version_closed"
    title = "The version is closed"


class ReleaseClosedError(ConflictError):
    """A staged release that was published, abandoned, or is too old."""

    code = "release_closed"
    title = "The release is closed"


class EmptyReleaseError(ConflictError):
    """A staged release without files cannot be published."""

    code = "release_empty"
    title = "The release is empty"


class MovedError(ConflictError):
    """The name is an earlier one of something; reads are sent on to its new name."""

    code = "moved"
    title = "It has another name now"

    def __init__(self, detail: str, owner: str, name: str) -> None:
        super().__init__(detail)
        self.owner = owner
        self.name = name


class ArchivedError(ForbiddenError):
    """The environment takes no further version."""

    code = "archived"
    title = "The environment is archived"


class QuarantinedError(ForbiddenError):
    """It may do harm: it is neither extended nor served."""

    code = "quarantined"
    title = "It is quarantined"


class FileExistsOnHubError(HubError):
    """A packaging client sends other bytes for what is published; in words that it knows."""

    status = 400
    code = "file_exists"
    title = "File already exists"


class SeveralOwnersError(HubError):
    """The address names no owner, and the token could mean several."""

    status = 400
    code = "owner_ambiguous"
    title = "The token has several owners"


class AttestationError(HubError):
    """Attestations that cannot be verified, or not on this hub."""

    status = 400
    code = "attestation_refused"
    title = "The attestations are refused"


class InvalidRequestError(HubError):
    """The request is not in the form that this route reads."""

    status = 422
    code = "invalid_request"
    title = "The request is not valid"


class MalformedBodyError(InvalidRequestError):
    """The body is no multipart form of the expected parts, or was cut."""

    status = 400
    code = "malformed_body"
    title = "The body cannot be read"


class TwoLengthsError(MalformedBodyError):
    """A body with two lengths, of which a proxy may have believed the other.

    The connection ends, so that what follows is never taken for a request. Source: RFC 9112, 6.1.
    """

    title = "The body has two lengths"

    @property
    def headers(self) -> Mapping[str, str]:
        """The end of the connection."""
        return {"Connection": "close"}


class DigestMismatchError(InvalidRequestError):
    """The bytes that came are not those that were announced."""

    code = "digest_mismatch"
    title = "The digest does not match"


class InvalidPackageError(InvalidRequestError):
    """An archive breaks a rule."""

    code = "invalid_package"
    title = "The package is not valid"


class InvalidManifestError(InvalidRequestError):
    """The manifest is wrong; `problems` names everything."""

    code = "invalid_manifest"
    title = "The manifest is not valid"


class ReservedNameError(InvalidRequestError):
    """A name that this hub keeps for itself."""

    code = "name_reserved"
    title = "The name is reserved"


class ClaimedDependencyError(InvalidRequestError):
    """A dependency has the name of an environment on this hub and is not in `requires`."""

    code = "dependency_claimed"
    title = "A dependency is an environment of this hub"


class TooLargeError(HubError):
    """The request is larger than a limit of this hub."""

    status = 413
    code = "too_large"
    title = "Too large"


class QuotaExceededError(HubError):
    """The owner's files would take more than its quota."""

    status = 413
    code = "quota_exceeded"
    title = "The quota is used up"


class UnsupportedBodyError(HubError):
    """The body's media type is not what this route reads."""

    status = 415
    code = "unsupported_media_type"
    title = "Unsupported media type"


class RangeNotSatisfiableError(HubError):
    """None of the requested bytes exist."""

    status = 416
    code = "range_not_satisfiable"
    title = "Range not satisfiable"


class LaterError(HubError):
    """Refused for now; the client is told when to come back."""

    def __init__(self, detail: str, *, wait_s: int) -> None:
        super().__init__(detail)
        self.wait_s = wait_s

    @property
    def headers(self) -> Mapping[str, str]:
        """When to come back."""
        return {"Retry-After": str(self.wait_s)}


class RateLimitedError(LaterError):
    """A token or an address sends more requests than the hub allows."""

    status = 429
    code = "rate_limited"
    title = "Too many requests"


class ReadOnlyError(LaterError):
    """The operator lets nobody change anything now."""

    status = 503
    code = "read_only"
    title = "The hub is read-only"


class StorageUnavailableError(HubError):
    """The storage or the database does not answer; reads of what is local go on."""

    status = 503
    code = "storage_unavailable"
    title = "Storage is unavailable"


class StorageFullError(HubError):
    """The disk, or whatever stands for it, is full."""

    status = 507
    code = "storage_full"
    title = "Storage is full"
