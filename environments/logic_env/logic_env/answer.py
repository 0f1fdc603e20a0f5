"""The answer in a reply, and its comparison where no generator brings a verifier of its own."""

import re

from strop import Task, Trajectory
from strop.parsers import strip_reasoning, tagged

_ROLE = re.compile(r"(\w+)\W+(?:is )?(?:an? )?(knight|knave)\b")
_FORM = re.compile(r"(?s:(?:(?!</?answer>).)*<answer>\s*+(?:(?!</?answer>).)+</answer>)")
_LETTER = re.compile(r"\(([A-Z])\)")
_BARE_LETTER = re.compile(r"\(?([A-Za-z])\)?[.:]?")


def extract_answer(text: str) -> str:
    """What stands in the last ``<answer>…</answer>``, else the last line that is not blank.

    Thoughts give no answer, and neither does a model that has not ended them.
    """
    spoken = strip_reasoning(text)
    answer = tagged(spoken, "answer")
    return spoken.rpartition("\n")[2].strip() if answer is None else answer


def formatted(trajectory: Trajectory) -> float:
    """Whether the reply ends in its only ``<answer>…</answer>``, which holds something."""
    return float(_FORM.fullmatch(strip_reasoning(trajectory.text)) is not None)


def same_text(task: Task, answer: str) -> bool:
    """Whether an answer is the reference but for case, spacing and a final full stop.

    A letter in brackets is also answered by the letter alone, and by the letter with its option.
    """
    reference = str(task.reference)
    if _LETTER.fullmatch(reference) is None:
        return _plain(answer) == _plain(reference)
    bare = _BARE_LETTER.fullmatch(answer)
    letters = [bare[1].upper()] if bare else _LETTER.findall(answer)
    return letters == [reference[1]]


def same_roles(task: Task, answer: str) -> bool:
    """Whether an answer gives everybody's role once, and each as the reference does."""
    given, wanted = (_ROLE.findall(text.casefold()) for text in (answer, str(task.reference)))
    return sorted(given) == sorted(wanted)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"\s*,\s*", ", ", text.casefold()).split()).removesuffix(".").strip()
