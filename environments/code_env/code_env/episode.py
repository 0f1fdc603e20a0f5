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
        self.told = {i for i, case in enumerate(self.cases) if self._is_shown(case)}
        self.outcome.update(passed=0, cases=len(self.cases), untold=0, verdict="no answer")

    async def respond(self, completion: Completion) -> str | End:
        """Judge an answer; tell the case that it fails, if that is one of the first half."""
        code = fenced(strip_reasoning(completion.text))
        if code is None:
            failed, verdict = [*range(len(self.cases))], Verdict("error", "It has no fenced block.")
        else:
            failed, verdict = await judge(self.backend, self.task, code)
        passed = {*range(len(self.cases))} - {*failed}
        self.outcome.update(passed=len(passed), verdict=verdict.status)
        self.outcome.update(
            untold=len(self.cases) - len(self.told), untold_passed=len(passed - self.told)
        )
        if self.turn_count == self.turns or not failed or 2 * failed[0] >= len(self.cases):
            return End()
        self.told.add(failed[0])
        case = self.cases[failed[0]]
        if isinstance(case, list):
            case = "Input:\n{}\nExpected output:\n{}".format(
                *(text[:_SHOWN_CHARS] for text in case)
            )
        return (
            f"That is not right yet ({verdict.status}). {verdict.message}\n\n"
            f"This case fails:\n\n{case[: 2 * _SHOWN_CHARS]}\n\nGive the whole program again."
        )

    def _is_shown(self, case: str | list[str]) -> bool:
        """Whether the prompt holds all of a case, each text on lines of its own."""
        lines = "".join(f"\n{message.text}\n" for message in self.task.prompt)
        texts = [case] if isinstance(case, str) else case
        return all(f"\n{text.strip()}\n" in lines for text in texts)


@reward(range=(0, 1), inline=True)
def solved(trajectory: Trajectory) -> float:
    """Whether the last answer passes every case."""
    return float(trajectory.outcome["passed"] == trajectory.outcome["cases"])


@reward(range=(0, 1), inline=True)
def share(trajectory: Trajectory) -> float:
    """Which share the last answer passes: of all cases or, if less, of those it was not told."""
    outcome: Any = trajectory.outcome
    untold = outcome["untold_passed"] / outcome["untold"] if outcome["untold"] else 1.0
    return min(float(outcome["passed"] / outcome["cases"]), untold)
