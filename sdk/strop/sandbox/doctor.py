"""Say what this machine offers: which backends work, which limits hold, and by what."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strop.sandbox import control_groups
from strop.sandbox.base import Capabilities, Level
from strop.sandbox.choose import Probe, probe_all
from strop.sandbox.zygote import landlock


@dataclass(frozen=True, slots=True)
class Report:
    """What `examine` has found."""

    kernel: str
    user: int
    landlock_version: int
    """0 where the kernel has none."""
    cgroups: str
    """What could be bounded by control groups, or why nothing could, as seen by doing. Where the
    local backends use them, what is said to hold names them."""
    probes: tuple[Probe, ...]
    capabilities: Mapping[str, Capabilities]
    """Of each backend that works, by its name."""

    @property
    def chosen(self) -> str | None:
        """The backend that ``auto`` would choose; None when it would refuse."""
        for probe in self.probes:
            strong = self.capabilities.get(probe.name)
            if strong is not None and strong.isolation >= Level.NAMESPACE:
                return probe.name
        return None

    def to_json(self) -> dict[str, Any]:
        """Give the report as plain values."""
        return {
            "kernel": self.kernel,
            "user": self.user,
            "landlock_version": self.landlock_version,
            "cgroups": self.cgroups,
            "chosen": self.chosen,
            "backends": [self._backend(probe) for probe in self.probes],
        }

    def _backend(self, probe: Probe) -> dict[str, Any]:
        found = self.capabilities.get(probe.name)
        return {
            "name": probe.name,
            "is_usable": probe.is_usable,
            "message": probe.message,
            "errno": probe.errno,
            "remedy": probe.remedy,
            "isolation": found and found.isolation.name,
            "enforced": dict(found.enforced) if found else {},
            "not_enforced": dict(found.not_enforced) if found else {},
        }


async def examine(*, python: str | None = None) -> Report:
    """Try every backend by running code in it, and gather what it enforces.

    Args:
        python: Interpreter of the local backends. None: this one.
    """
    probes, capabilities = await probe_all(python=python)
    return Report(
        kernel=platform.release(),
        user=os.geteuid(),
        landlock_version=landlock.version(),
        cgroups=str(control_groups.probe()),
        probes=tuple(probes),
        capabilities=capabilities,
    )
