"""What is kept of an attempt that holds what no file can hold (step: rollout)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from strop.errors import UnwritableError
from strop.task import Task
from strop.trajectory import Segment, Trajectory, failure_of
from strop.trajectory_json import encode_line


def failed_copy(trajectory: Trajectory, error: UnwritableError) -> Trajectory:
    """The attempt as a failed one that can be written, as far as it can be.

    The `raw` of its completions, outside replies, and the task's reference and metadata are left
    out where they are no JSON. The graph ends before a segment that is none for another reason.

    Args:
        trajectory: A finished one.
        error: What its writer raised; names the place, and becomes the failure.
    """
    own = trajectory.task
    task = Task(own.key, own.prompt, split=own.split)
    bare = replace(trajectory, segments=(), replies=(), task=task)
    segments = _kept(bare, trajectory.segments)
    is_cut = len(segments) < len(trajectory.segments)
    is_models = any(a is not b for a, b in zip(segments, trajectory.segments, strict=False))
    failure = failure_of(error, "model" if is_cut or is_models else "environment")
    if (earlier := trajectory.failure) is not None:
        message = f"{failure.message} Before that: {earlier.type}: {earlier.message}"
        failure = replace(failure, message=message, traceback=earlier.traceback)
    return replace(
        trajectory,
        task=own if _is_writable(bare, task=own) else task,
        segments=segments,
        replies=tuple(each for each in trajectory.replies if _is_writable(bare, replies=(each,))),
        seats={name: replace(seat, reward=None) for name, seat in trajectory.seats.items()},
        turn_rewards=None,
        turn_values={} if is_cut else trajectory.turn_values,
        failure=failure,
    )


def _kept(bare: Trajectory, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    kept: list[Segment] = []
    for segment in segments:
        whole = segment
        if not _is_writable(bare, segments=(segment,)):
            whole = replace(segment, raw={})
            if not _is_writable(bare, segments=(whole,)):
                break
        kept.append(whole)
    return tuple(kept)


def _is_writable(bare: Trajectory, **parts: Any) -> bool:
    try:
        encode_line(replace(bare, **parts))
    except UnwritableError:
        return False
    return True
