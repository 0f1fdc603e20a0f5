"""What an answer is worth: a choice, a quantity with its unit, or a text (step: reward)."""

import re

from strop import Model, Reward, Task, Trajectory
from strop.replies import Replies
from strop.rewards import boxed_answer, judge, normalize_text, parse_quantity, plain_text

_LETTER = re.compile(r"\(?([A-Za-z])[.):]*(?:\s+(.+))?", re.DOTALL)
_QUESTION = "Does it mean the same as the reference, as an answer to the task?"
_MAX_JUDGED_CHARS = 500


def correct(tolerance: float, judge_model: Model | None = None) -> Reward:
    """1 for the right answer in the last box, else 0.

    Args:
        tolerance: Largest difference of a quantity, as a share of the reference.
        judge_model: Asked about texts that are not the reference's own words; None asks nobody.
    """

    def is_correct(trajectory: Trajectory) -> float:
        return float(_is_right(trajectory.task, _given(trajectory), tolerance))

    if judge_model is None:
        return Reward(is_correct, "correct", 1.0, (0, 1), is_inline=True)
    verdict = judge(judge_model, _QUESTION, {"yes": 1, "no": 0}, name="correct", show=_given)

    async def is_judged_correct(trajectory: Trajectory, replies: Replies) -> float:
        is_text = trajectory.task.metadata["form"] == "text"
        is_short = 0 < len(_given(trajectory)) <= _MAX_JUDGED_CHARS
        if is_correct(trajectory) or not is_text or not is_short:
            return is_correct(trajectory)
        return float(await verdict.function(trajectory, replies))

    return Reward(is_judged_correct, "correct", 1.0, (0, 1), is_outside=True)


def _given(trajectory: Trajectory) -> str:
    # On one line and without what is said around it: a judge reads nothing else.
    return normalize_text(boxed_answer(trajectory.text) or "")


def _is_right(task: Task, answer: str, tolerance: float) -> bool:
    reference, choices = str(task.reference), task.metadata.get("choices")
    if isinstance(choices, list):
        return chosen_letter(answer, [str(text) for text in choices]) == reference
    if task.metadata["form"] == "quantity":
        wanted, given = parse_quantity(reference), parse_quantity(answer)
        return wanted is not None and given is not None and given.is_close(wanted, tolerance)
    return _key(answer) == _key(reference)


def chosen_letter(answer: str, texts: list[str]) -> str | None:
    """The one choice that an answer names, by its letter, its text or both; else None."""
    match = _LETTER.fullmatch(plain_text(answer))
    letter, rest = (match[1].upper(), match[2]) if match else ("", None)
    place = ord(letter) - ord("A") if letter else len(texts)
    if place < len(texts) and (not rest or _key(rest) == _key(texts[place])):
        return letter
    # Capitals may be all that tells two choices apart, such as Bb from BB.
    for ignore_case in (False, True):
        key, keys = _key(answer, ignore_case), [_key(text, ignore_case) for text in texts]
        if keys.count(key) == 1:
            return chr(ord("A") + keys.index(key))
    return None


def _key(text: str, ignore_case: bool = True) -> str:
    return normalize_text(plain_text(text), ignore_case=ignore_case).rstrip(". ")
