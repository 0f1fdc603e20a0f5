"""Equality of texts, with the spacing forgiven (step: reward)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from strop.errors import RewardError
from strop.reward_function import Reward
from strop.task import Task
from strop.trajectory import Trajectory

Extract = Callable[[str], str | None]
"""From a completion's text to the answer in it; None when there is none."""


def exact(
    *,
    ignore_case: bool = False,
    extract: Extract | None = None,
    name: str = "exact",
    weight: float = 1.0,
) -> Reward:
    """1 when the last completion is the task's reference, else 0.

    Spacing at the ends, the width of inner spacing and composed or decomposed accents do not
    count. Letters that only look alike stay different. A reference that is a list allows each
    of its entries.

    Args:
        ignore_case: Whether capitals do not count either.
        extract: Takes the answer out of the text; an answer that is None gets 0.
        name: Of the reward function, where an environment has two of them.
        weight: Factor in the weighted sum.
    """

    def is_exact(trajectory: Trajectory) -> float:
        accepted = reference_texts(trajectory.task)
        answer = trajectory.text if extract is None else extract(trajectory.text)
        if answer is None:
            return 0.0
        answer = normalize_text(answer, ignore_case=ignore_case)
        return float(
            any(answer == normalize_text(text, ignore_case=ignore_case) for text in accepted)
        )

    return Reward(is_exact, name, weight, (0, 1), is_inline=True)


def normalize_text(text: str, *, ignore_case: bool = False) -> str:
    """The one spelling of texts that `exact` holds equal."""
    text = " ".join(unicodedata.normalize("NFC", text).split())
    return text.casefold() if ignore_case else text


def reference_texts(task: Task) -> list[str]:
    """What a task accepts as answers, as texts.

    Raises:
        RewardError: The task's reference is neither text nor number nor a list of them.
    """
    reference = task.reference
    entries = reference if isinstance(reference, list) else [reference]
    texts = [str(entry) for entry in entries if _is_plain(entry)]
    if not texts or len(texts) < len(entries):
        raise RewardError(
            f"The reference of task {task.key!r} is {reference!r:.80}, which no text can equal. "
            "Give text, a number, or a list of them."
        )
    return texts


def _is_plain(entry: object) -> bool:
    return isinstance(entry, str | int | float) and not isinstance(entry, bool)
