"""Whether an answer is right, and rests on the pages that it should (step: reward)."""

import re
import string

from strop import Model, Reward, Trajectory
from strop.replies import Replies
from strop.rewards import judge, normalize_text
from strop.types import JSON

CITED_SHARE = 0.2
"""What a right answer loses when it cites none of the right pages."""
_QUESTION = "Does it mean the same as the reference, as an answer to the task?"
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}\u2018\u2019\u201c\u201d\u2013\u2014]")


def answered(judge_model: Model | None = None) -> Reward:
    """0 for a wrong answer; 1 for a right one that cites the right pages and no others.

    Args:
        judge_model: Asked about other words than the references'; None asks nobody.
    """

    def is_answered(trajectory: Trajectory, verdict: float = 0.0) -> float:
        is_right = verdict or is_match(trajectory)
        return is_right and 1 - CITED_SHARE * (1 - cited(trajectory))

    if judge_model is None:
        return Reward(is_answered, "answered", 1.0, (0, 1), is_inline=True)
    judged = judge(judge_model, _QUESTION, {"yes": 1, "no": 0}, name="answered", show=_answer)

    async def is_judged(trajectory: Trajectory, replies: Replies) -> float:
        is_asked = _answer(trajectory) and not is_match(trajectory)
        return is_answered(trajectory, await judged(trajectory, replies) if is_asked else 0.0)

    return Reward(is_judged, "answered", 1.0, (0, 1), is_outside=True)


def is_match(trajectory: Trajectory) -> float:
    """1 when the answer is a reference, articles, capitals and punctuation apart."""
    answer = answer_key(_answer(trajectory))
    return float(answer in [answer_key(each) or None for each in texts(trajectory.task.reference)])


def cited(trajectory: Trajectory) -> float:
    """How well the cited pages are those that the answer rests on: F1; 1 where none are known."""
    wanted = texts(trajectory.task.metadata["support"])
    given = texts(trajectory.outcome["citations"])
    return 2 * len({*wanted} & {*given}) / (len(wanted) + len(given)) if wanted else 1.0


def answer_key(text: str) -> str:
    """Equal for answers that differ in articles, capitals, punctuation and spacing alone.

    Source: the evaluation of SQuAD, arXiv:1606.05250.
    """
    plain = _PUNCTUATION.sub(" ", normalize_text(text, ignore_case=True))
    return " ".join(_ARTICLES.sub(" ", plain).split()) or normalize_text(text, ignore_case=True)


def texts(value: JSON) -> list[str]:
    """A text, or a list of them, as a list."""
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _answer(trajectory: Trajectory) -> str:
    # On one line: nothing in it can look like a line of the judge's.
    return normalize_text(str(trajectory.outcome["answer"]))
