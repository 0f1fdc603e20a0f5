"""An attempt at a programming problem: one answer, or several with a failing case between them."""

from typing import Any, ClassVar

from code_env.judging import judge
from strop import Completion, End, Trajectory, reward
from strop.parsers import fenced, strip_reasoning
from strop.sandbox.judge import Verdict
from strop.sandboxed import SandboxEpisode

_SHOWN_CHARS = 1000
"""Of each text of a case, to the model."""


class Coding(SandboxEpisode):
    """Answers are programs in a fenced block; the last one counts."""

    has_workspace = False
    turns: ClassVar[int] = 1
    """How many answers there may be."""

    async def setup(self) -> None:
        """Nothing is passed before there is an answer."""
        await super().setup()
        reference: Any = self.task.reference
        self.cases = reference["cases"]
        self.outcome.update(passed=0, cases=len(self.cases), verdict="no answer")

    async def respond(self, completion: Completion) -> str | End:
        """Judge an answer; tell the case that it fails, if that is one of the first half."""
        code = fenced(strip_reasoning(completion.text))
        if code is None:
            failed, verdict = [*range(len(self.cases))], Verdict("error", "It has no fenced block.")
        else:
            failed, verdict = await judge(self.backend, self.task, code)
        self.outcome.update(passed=len(self.cases) - len(failed), verdict=verdict.status)
        if self.turn_count == self.turns or not failed or 2 * failed[0] >= len(self.cases):
            return End()
        case = self.cases[failed[0]]
        if isinstance(case, list):
            case = "Input:\n{}\nExpected output:\n{}".format(
                *(text[:_SHOWN_CHARS] for text in case)
            )
        return (
            f"That is not right yet ({verdict.status}). {verdict.message}\n\n"
            f"This case fails:\n\n{case[: 2 * _SHOWN_CHARS]}\n\nGive the whole program again."
        )


@reward(range=(0, 1), inline=True)
def solved(trajectory: Trajectory) -> float:
    """Whether the last answer passes every case."""
    return float(share(trajectory) == 1.0)


@reward(range=(0, 1), inline=True)
def share(trajectory: Trajectory) -> float:
    """Which share of the cases the last answer passes."""
    outcome: Any = trajectory.outcome
    return float(outcome["passed"] / outcome["cases"])
