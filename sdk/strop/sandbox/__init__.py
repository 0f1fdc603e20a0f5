"""Run code that nobody trusts: isolated, limited, and sooner than a Python would start."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strop.sandbox.base import (
        Capabilities,
        ExecResult,
        Level,
        Limits,
        Profile,
        SandboxSpec,
        Transport,
    )
    from strop.sandbox.choose import Probe, open_backend
    from strop.sandbox.client import Backend
    from strop.sandbox.job import Job
    from strop.sandbox.room import Entry, Sandbox
    from strop.sandbox.session import SessionResult

_HOMES = {
    "Backend": "client",
    "open_backend": "choose",
    "Probe": "choose",
    "Entry": "room",
    "Job": "job",
    "SessionResult": "session",
    "Capabilities": "base",
    "ExecResult": "base",
    "Level": "base",
    "Limits": "base",
    "Profile": "base",
    "Sandbox": "room",
    "SandboxSpec": "base",
    "Transport": "base",
}

__all__ = [
    "Backend",
    "Capabilities",
    "Entry",
    "ExecResult",
    "Job",
    "Level",
    "Limits",
    "Probe",
    "Profile",
    "Sandbox",
    "SandboxSpec",
    "SessionResult",
    "Transport",
    "open_backend",
]


def __getattr__(name: str) -> Any:
    # The zygote imports this package too, and must stay small.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"strop.sandbox.{_HOMES[name]}"), name)
