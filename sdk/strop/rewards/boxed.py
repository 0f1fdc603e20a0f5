r"""Mathematical answers in ``\boxed{…}``, and their equality (step: reward)."""

from __future__ import annotations

import importlib.util
import re

from strop.errors import EnvironmentLoadError
from strop.reward_function import Reward
from strop.rewards.number import parse_number
from strop.rewards.symbolic import are_equal
from strop.rewards.text import Extract, reference_texts
from strop.trajectory import Trajectory

_BRACES = re.compile(r"(?P<box>\\(?:boxed|fbox)\s*\{)|\\.|(?P<brace>[{}])", re.DOTALL)

_SIGNS = str.maketrans(
    {"\u2212": "-", "π": r"\pi ", "∞": r"\infty ", "\u00d7": r"\times ", "°": r"^\circ"}
)
_DELIMITER = re.compile(r"\\?\$|(?<!\\)\\[()\[\]]")
_SPACING = re.compile(r"\\[!,;:]|\\(?:left|right|displaystyle|limits|quad|qquad)(?![A-Za-z])")
# A blank between two digits means something: `1 2` is not `12`.
_BLANK = re.compile(r"(?<![0-9]) | (?![0-9])")
_FRACTION = re.compile(r"\\[dt]frac(?![A-Za-z])")
_WORDS = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|textrm)\{([^{}\\$]*)\}")

_WORD_LENGTH = 4
"""From which on letters are a word even where no ``\\text{…}`` says so."""


def boxed_math(
    *,
    extract: Extract | None = None,
    cpu_limit_s: float = 5.0,
    name: str = "boxed_math",
    weight: float = 1.0,
) -> Reward:
    r"""1 when the answer equals the task's reference as mathematics, else 0; extra ``math``.

    Equal texts and plain numbers are decided on the spot, everything else by `math-verify` in
    processes apart. What they cannot decide within their limits fails the attempt and is not 0.

    Args:
        extract: Takes the answer out of the text; by default `boxed_answer`. None gets 0.
        cpu_limit_s: Seconds of CPU that one comparison may take, > 0; waiting is not counted.
        name: Of the reward function, where an environment has two of them.
        weight: Factor in the weighted sum.

    Raises:
        EnvironmentLoadError: The extra ``math`` is not installed.
        ValueError: The limit is not above 0.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise EnvironmentLoadError(
            "boxed_math needs math-verify, which is not installed: pip install 'strop[math]'"
        )
    if not cpu_limit_s > 0:
        raise ValueError(f"cpu_limit_s is {cpu_limit_s!r}. Allow more than 0 seconds.")
    find = extract or boxed_answer

    async def is_equal_math(trajectory: Trajectory) -> float:
        references = reference_texts(trajectory.task)
        answer = find(trajectory.text)
        if answer is None or not answer.strip():
            return 0.0
        for reference in references:
            verdict = decide_cheaply(answer, reference)
            if verdict is None:
                verdict = await are_equal(_plain(answer), _plain(reference), cpu_limit_s)
            if verdict:
                return 1.0
        return 0.0

    return Reward(is_equal_math, name, weight, (0, 1))


def boxed_answer(text: str) -> str | None:
    r"""What stands in the last ``\boxed{…}`` whose braces balance; None without one.

    Of nested boxes the inner one is the last. An escaped brace is no brace.
    """
    answer = None
    last_start = -1
    opened: list[tuple[bool, int]] = []
    for match in _BRACES.finditer(text):
        if match["box"] or match["brace"] == "{":
            opened.append((match["box"] is not None, match.end()))
        elif match["brace"] and opened:
            is_box, start = opened.pop()
            if is_box and start > last_start:
                answer, last_start = text[start : match.start()], start
    return None if answer is None else answer.strip()


def decide_cheaply(answer: str, reference: str) -> bool | None:
    """Whether two answers are equal, where a look is enough; None where it is not."""
    if _key(answer) == _key(reference):
        return True
    answer_words, reference_words = _words(answer), _words(reference)
    if answer_words is not None and reference_words is not None:
        # Symbolically, words are products of letters: `dog` would equal `god`.
        return answer_words == reference_words
    number, wanted = (parse_number(_SPACING.sub("", _plain(text))) for text in (answer, reference))
    if number is None or wanted is None:
        return None
    if number == wanted:
        return True
    # Decimals may be rounded and a percent sign may be left out: that is not for a look.
    is_whole = number.denominator == wanted.denominator == 1
    return False if is_whole and "%" not in answer + reference else None


def _plain(text: str) -> str:
    text = _DELIMITER.sub("", text.translate(_SIGNS))
    return _FRACTION.sub(r"\\frac", text).strip().rstrip(".")


def _key(text: str) -> str:
    spaced = _plain(text).replace(r"\ ", " ").replace("~", " ").replace("{,}", ",")
    return _BLANK.sub("", " ".join(_SPACING.sub("", spaced).split()))


def _words(text: str) -> str | None:
    plain = _plain(text)
    unwrapped = _WORDS.sub(r" \1 ", plain)
    words = " ".join(unwrapped.split()).strip("() ")
    is_marked = unwrapped != plain
    is_text = words.replace(" ", "").isalpha() and (is_marked or len(words) >= _WORD_LENGTH)
    return words.casefold() if is_text else None
