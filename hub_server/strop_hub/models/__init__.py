"""Tables, one file for each family. Importing this package registers all of them."""

from strop_hub.models.audit import AuditLine
from strop_hub.models.environment import (
    Claim,
    Environment,
    EnvironmentStatus,
    EnvironmentTag,
    Visibility,
)
from strop_hub.models.feed import Counter, Event
from strop_hub.models.owner import Membership, Owner, OwnerKind, Role, Token, User
from strop_hub.models.version import SHOWN, File, Tombstone, Version, VersionStatus

__all__ = [
    "SHOWN",
    "AuditLine",
    "Claim",
    "Counter",
    "Environment",
    "EnvironmentStatus",
    "EnvironmentTag",
    "Event",
    "File",
    "Membership",
    "Owner",
    "OwnerKind",
    "Role",
    "Token",
    "Tombstone",
    "User",
    "Version",
    "VersionStatus",
    "Visibility",
]
