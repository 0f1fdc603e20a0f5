"""A judge for what symbols cannot decide, and for nothing else."""

from math_env.answer import extract_answer
from strop import Model, Reward, StropError, Trajectory
from strop.replies import Replies
from strop.rewards import judge

QUESTION = "Is it, as mathematics, the same as the reference? Only the final answer is shown."
_MAX_CHARS = 500
"""Of an answer that a judge reads: nobody needs more but instructions to it."""


def judged(symbolic: Reward, model: Model) -> Reward:
    """The symbolic verdict; where there is none within its limits, that of a model.

    Args:
        symbolic: Raises where it cannot decide.
        model: Asked only then; its reply is recorded.
    """
    ask = judge(model, QUESTION, {"same": 1.0, "different": 0.0}, show=_shown)

    async def correct(trajectory: Trajectory, replies: Replies) -> float:
        try:
            return float(await symbolic(trajectory))
        except StropError:
            return float(await ask(trajectory, replies))

    return Reward(correct, range=(0, 1), is_outside=True)


def _shown(trajectory: Trajectory) -> str:
    return " ".join((extract_answer(trajectory.text) or "").split())[:_MAX_CHARS]
