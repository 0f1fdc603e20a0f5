"""Findings about an environment, as JSON that the hub can show (step: check)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, TypeAlias

from strop.types import JSON

Verdict: TypeAlias = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    """Stable name of the check."""
    verdict: Verdict
    message: str
    """What was found and, unless it is fine, what to do."""
    reward: float | None = None
    """The mean reward of the policy that was played; None where none was."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings about one environment."""

    findings: tuple[Finding, ...]
    measures: dict[str, float] = field(default_factory=dict)
    """Numbers worth knowing, such as ``import_cpu_s``; a unit is in each name."""

    @property
    def is_ok(self) -> bool:
        """Whether nothing failed; warnings are allowed."""
        return not any(finding.verdict == "failed" for finding in self.findings)

    def to_json(self) -> dict[str, JSON]:
        """The report as JSON."""
        return {
            "is_ok": self.is_ok,
            "findings": [asdict(finding) for finding in self.findings],
            "measures": dict(self.measures),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Read what `to_json` gave."""
        findings = tuple(Finding(**finding) for finding in value["findings"])
        return cls(findings, value["measures"])
