"""Reports of checks, as an author's command sends them."""

from typing import Any


def a_finding(check: str = "loads", verdict: str = "ok", **given: Any) -> dict[str, Any]:
    """One finding."""
    return {"check": check, "verdict": verdict, "message": f"It is {verdict}.", **given}


def a_report(digest: str, **given: Any) -> dict[str, Any]:
    """A report about the wheel of a digest; ``findings=…`` replaces the findings."""
    return {
        "digest": digest,
        "strop_version": "0.1.0+0123abcd",
        "python_version": "3.11.7",
        "checked_at": "2026-03-01T12:30:00Z",
        "findings": [
            a_finding("loads"),
            a_finding("oracle", reward=1.0),
            a_finding("floor_empty", reward=0.0),
            a_finding("floor_random", "warning", reward=0.625),
            a_finding("deterministic", "skipped"),
        ],
        "measures": {
            "import_cpu_s": 0.254,
            "dependency_count": 5.0,
            "dependency_bytes": 84_300_000.0,
        },
        **given,
    }
