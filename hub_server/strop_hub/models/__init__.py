"""Tables, one file for each family. Importing this package registers all of them."""

from strop_hub.models.audit import AuditLine
from strop_hub.models.environment import (
    Claim,
    Environment,
    EnvironmentTag,
    EnvironmentTerm,
    Visibility,
)
from strop_hub.models.feed import Counter, Event
from strop_hub.models.lease import ALL_BLOBS, Lease
from strop_hub.models.owner import Membership, Owner, OwnerKind, Role, Token, User
from strop_hub.models.redirect import EnvironmentRedirect, OwnerRedirect
from strop_hub.models.release import Purge, TagMove, VersionTag
from strop_hub.models.staging import ReleaseState, StagedFile, StagedRelease
from strop_hub.models.version import (
    SHOWN,
    File,
    Tombstone,
    Version,
    VersionCheck,
    VersionStatus,
)

__all__ = [
    "ALL_BLOBS",
    "SHOWN",
    "AuditLine",
    "Claim",
    "Counter",
    "Environment",
    "EnvironmentRedirect",
    "EnvironmentTag",
    "EnvironmentTerm",
    "Event",
    "File",
    "Lease",
    "Membership",
    "Owner",
    "OwnerKind",
    "OwnerRedirect",
    "Purge",
    "ReleaseState",
    "Role",
    "StagedFile",
    "StagedRelease",
    "TagMove",
    "Token",
    "Tombstone",
    "User",
    "Version",
    "VersionCheck",
    "VersionStatus",
    "VersionTag",
    "Visibility",
]
