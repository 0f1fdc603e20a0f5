r"""The final answer of a solution: the last ``\boxed{…}``, else GSM8K's last line."""

import re

from strop.rewards import boxed_answer, parse_number

_LAST_LINE = re.compile(r"^####[ \t]*(\S.*)\Z", re.MULTILINE)


def extract_answer(text: str) -> str | None:
    r"""What the text gives as its answer; None when it gives none.

    The last ``\boxed{…}`` counts. Without one, a last line ``#### N`` does.
    """
    answer = boxed_answer(text)
    if answer is not None:
        return answer
    match = _LAST_LINE.search(text.rstrip())
    return match[1] if match else None


def extract_number(text: str) -> str | None:
    """As `extract_answer`; an equation of different numbers, such as ``17 = 18``, gives none."""
    answer = extract_answer(text)
    numbers = {parse_number(side) for side in (answer or "").split("=")} - {None}
    return answer if len(numbers) < 2 else None
