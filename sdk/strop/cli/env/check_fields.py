"""How commands show what a check measured and found."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from strop.cli.output import format_size

if TYPE_CHECKING:
    from strop.hub.wire import ReportedCheck

_ORDER = ("failed", "warning", "ok", "skipped")


def cost_fields(measures: Mapping[str, float]) -> list[tuple[str, str]]:
    """What an import and the dependencies cost."""
    fields = []
    if (cpu_s := measures.get("import_cpu_s")) is not None:
        fields.append(("import", f"{cpu_s:.2f} s of processor time"))
    if (count := measures.get("dependency_count")) is not None:
        size = format_size(round(measures.get("dependency_bytes", 0.0)))
        missing = measures.get("missing_dependency_count", 0.0)
        told = f"{count:.0f} beyond Strop, {size} installed"
        fields.append(("dependencies", f"{told}; {missing:.0f} missing" if missing else told))
    return fields


def report_fields(check: "ReportedCheck | None") -> list[tuple[str, str]]:
    """What is known of a published version."""
    if check is None:
        return [("check", "not checked")]
    verdict = "passed" if check.is_ok else "failed"
    told = _counted(finding.verdict for finding in check.findings)
    by = f"reported by {check.reported_by}, {check.checked_at:%Y-%m-%d}"
    failed = [finding.check for finding in check.findings if finding.verdict == "failed"]
    return [
        ("check", f"{verdict}: {told} ({by}, strop {check.strop_version})"),
        ("failed", ", ".join(failed)),
        *cost_fields(check.measures),
    ]


def _counted(verdicts: Iterable[str]) -> str:
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in _ORDER if counts[verdict])
