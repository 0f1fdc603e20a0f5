"""Check an author's folder in child processes of its own (step: check)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strop.testing.repeats import first_difference, not_compared
from strop.testing.report import CheckReport, Finding
from strop.testing.weight import weigh

TIME_LIMIT_S = 600.0
PLACEHOLDER = "say in one line what a model learns here"
"""How a summary ends that nobody has given."""
_TAIL_CHARS = 2_000
_UNKNOWN_WEIGHT = Finding(
    "dependencies",
    "skipped",
    "Its dependencies are dynamic, so known once it is installed. Install it, then check again.",
)


def check_project(
    folder: Path,
    entry_point: str,
    *,
    is_deterministic: bool = True,
    reward_range: tuple[float, float] | None = None,
    settings: dict[str, Any] | None = None,
    summary: str | None = None,
    requirements: Sequence[str] | None = None,
) -> CheckReport:
    """Load the environment of a folder in fresh processes and probe it.

    Args:
        folder: The author's project; its packages are importable from it or from its ``src``.
        entry_point: ``package.module:function``, as in the manifest.
        is_deterministic: Whether two processes must agree on tasks, observations and rewards.
        reward_range: What the total reward may be; None asks only for finite numbers.
        settings: For ``load_environment``; defaults are used for what is missing.
        summary: The manifest's, which a template's must not stay; None checks none.
        requirements: What it depends on, as PEP 508 writes it; None where nobody knows yet.
    """
    request = {
        "folder": str(folder.resolve()),
        "entry_point": entry_point,
        "reward_range": reward_range,
        "settings": settings or {},
        "is_deterministic": is_deterministic,
        "is_repeat": False,
    }
    first = _ask(request, hash_seed="1")
    if first["error"] is not None:
        message = f"{first['error']}. Is everything that it imports installed?"
        return CheckReport((Finding("loads", "failed", message),))
    findings = [Finding("loads", "ok", f"{entry_point} gives an environment")]
    findings.extend(Finding(**finding) for finding in first["findings"])
    if summary is not None:
        findings.append(_summary(summary))
    findings.append(_determinism(first, request))
    weight = None if requirements is None else weigh(requirements)
    findings.append(_UNKNOWN_WEIGHT if weight is None else weight.finding())
    measures = first["measures"] | ({} if weight is None else weight.measures())
    return CheckReport(tuple(findings), measures)


def is_placeholder(summary: str) -> bool:
    """Whether a summary is still the one that `strop env init` wrote."""
    return summary.endswith(PLACEHOLDER)


def _summary(summary: str) -> Finding:
    if is_placeholder(summary):
        message = (
            "The summary is the template's. Say in pyproject.toml's `description`, in one line, "
            "what a model learns here: the hub's catalog shows it."
        )
        return Finding("summary", "warning", message)
    return Finding("summary", "ok", "The summary is the author's own")


def _determinism(first: dict[str, Any], request: dict[str, Any]) -> Finding:
    check = "deterministic"
    if not request["is_deterministic"]:
        return Finding(check, "skipped", "The manifest says that it is not deterministic")
    second = _ask({**request, "is_repeat": True}, hash_seed="2")
    if second["error"] is not None:
        message = f"A second process cannot repeat it: {second['error'][:_TAIL_CHARS]}"
        return Finding(check, "failed", message)
    differing = first_difference(first["fingerprint"], second["fingerprint"])
    gap = not_compared(first["fingerprint"], second["fingerprint"])
    if differing is None and gap is not None:
        return Finding(check, "skipped", gap)
    if differing is None:
        return Finding(check, "ok", "Two processes agree on tasks, observations and rewards")
    return Finding(
        check,
        "failed",
        f"Two processes disagree, first on {differing}. Take chance from `rng` only, do not depend "
        "on the order of sets or on clocks, or set deterministic = false.",
    )


def _ask(request: dict[str, Any], hash_seed: str) -> dict[str, Any]:
    # Files, not pipes: what the author's code leaves running must not keep us waiting.
    with (
        tempfile.TemporaryFile() as reply,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryDirectory(prefix="strop-check-") as folder,
    ):
        variables = {
            "PYTHONHASHSEED": hash_seed,
            "PYTHONDONTWRITEBYTECODE": "1",
            # A folder of its own shows what is left in it.
            "TMPDIR": folder,
        }
        number = reply.fileno()
        child = subprocess.Popen(
            [sys.executable, "-m", "strop.testing.worker", json.dumps(request), str(number)],
            pass_fds=(number,),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        try:
            exit_code = child.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            return _no_reply(f"It takes longer than {TIME_LIMIT_S:.0f} s")
        finally:
            _end_session(child)
        reply.seek(0)
        line = reply.read()
        if line.endswith(b"\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        output.seek(0)
        tail = output.read().decode("utf-8", "replace")[-_TAIL_CHARS:].strip()
        return _no_reply(f"The process ended with exit code {exit_code}: {tail}")


def _end_session(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _no_reply(error: str) -> dict[str, Any]:
    return {"findings": [], "measures": {}, "fingerprint": None, "error": error}
