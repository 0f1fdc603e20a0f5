"""From the last frame of a run to its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strop.errors import SandboxError
from strop.sandbox.base import ExecResult, Level
from strop.sandbox.wire import unpack_result


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run took place, and how long it took to get there."""

    backend: str
    isolation: Level
    queue_s: float = 0.0
    total_s: float = 0.0
    """From the run's turn to its result; 0 where nobody measured."""


def read_result(payload: bytes, origin: Origin) -> ExecResult:
    """Read a result frame.

    Raises:
        SandboxError: The sandbox could not prepare the run.
    """
    head, blobs = unpack_result(payload)
    if "trouble" in head:
        raise SandboxError(f"{origin.backend} could not prepare a run: {head['trouble']}")
    files = _read_files(blobs[2]) if len(blobs) > 2 else {}
    setup_s = max(0.0, origin.total_s - head["wall_s"]) if origin.total_s else 0.0
    return ExecResult(
        status=head["status"],
        exit_code=head["exit_code"],
        signal=head["signal"],
        limit=head["limit"],
        stdout=blobs[0],
        stderr=blobs[1],
        stdout_bytes=head["stdout_bytes"],
        stderr_bytes=head["stderr_bytes"],
        wall_s=head["wall_s"],
        cpu_s=head["cpu_s"],
        peak_bytes=head["peak_bytes"],
        queue_s=origin.queue_s,
        setup_s=setup_s,
        files=files,
        backend=origin.backend,
        isolation=origin.isolation,
    )


def _read_files(blob: bytes) -> Mapping[str, bytes | OSError]:
    """Read what a confined process has told of the collected files; none of it is trusted."""
    head: dict[str, Any]
    try:
        head, blobs = unpack_result(blob)
        found: dict[str, bytes | OSError] = dict(zip(head["names"], blobs, strict=True))
        errors = {name: OSError(*told, name) for name, told in head["errors"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SandboxError("collected files came back garbled") from error
    return {**found, **errors}
