"""What the page of a version shows of the newest report about it: its author's word, as text."""

from collections import Counter
from dataclasses import dataclass

from strop.hub.wire import CheckFinding, ReportedCheck

_POLICIES = {
    "oracle": "Oracle",
    "floor_empty": "Empty reply",
    "floor_constant": "Constant reply",
    "floor_random": "Random",
}
_FIRST = ("failed", "warning", "ok", "skipped")


@dataclass(frozen=True, slots=True)
class CheckView:
    """The values that the template needs."""

    report: ReportedCheck
    verdict: str
    """``passed`` or ``failed``."""
    counts: str
    """Such as ``17 ok, 1 warning``."""
    facts: list[tuple[str, str]]
    """Mean rewards, import time and dependencies, as label and value."""
    findings: list[CheckFinding]
    """What failed first."""


def check_view(report: ReportedCheck | None) -> CheckView | None:
    """The section about a report; None where nobody has sent one."""
    if report is None:
        return None
    counted: Counter[str] = Counter(finding.verdict for finding in report.findings)
    counts = ", ".join(f"{counted[verdict]} {verdict}" for verdict in _FIRST if counted[verdict])
    return CheckView(
        report,
        "passed" if report.is_ok else "failed",
        counts,
        [*_rewards(report), *_costs(report.measures)],
        sorted(report.findings, key=lambda finding: _FIRST.index(finding.verdict)),
    )


def _rewards(report: ReportedCheck) -> list[tuple[str, str]]:
    found = {finding.check: finding.reward for finding in report.findings}
    return [
        (label, f"{reward:.3g}")
        for check, label in _POLICIES.items()
        if (reward := found.get(check)) is not None
    ]


def _costs(measures: dict[str, float]) -> list[tuple[str, str]]:
    costs = []
    if (cpu_s := measures.get("import_cpu_s")) is not None:
        costs.append(("Import", f"{cpu_s:.2f} s of processor time"))
    if (count := measures.get("dependency_count")) is not None:
        size_mb = measures.get("dependency_bytes", 0.0) / 1e6
        told = f"{count:.0f} beyond Strop, {size_mb:.1f} MB installed"
        missing = measures.get("missing_dependency_count", 0.0)
        costs.append(("Dependencies", f"{told}; {missing:.0f} missing" if missing else told))
    return costs
