"""What an author should know before a push (step: check)."""

from strop.testing.policies import POLICIES, scripted_policy
from strop.testing.probes import check_environment
from strop.testing.project import check_project
from strop.testing.report import CheckReport, Finding

__all__ = [
    "POLICIES",
    "CheckReport",
    "Finding",
    "check_environment",
    "check_project",
    "scripted_policy",
]
