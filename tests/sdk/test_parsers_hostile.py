"""Parsers of answers take linear time on whatever a model writes, and find what was put in."""

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.parsers import fenced, strip_reasoning, tagged
from strop.rewards import boxed_answer, last_number, normalize_text, parse_number

SIZE = 100_000
"""Characters, as a long completion has them; quadratic work on them takes minutes."""

HOSTILE = {
    "tildes and a backtick": "~" * SIZE + "`",
    "backticks and a tilde": "`" * SIZE + "~",
    "fences": "```\n" * (SIZE // 4),
    "fences of growing length": "\n".join("`" * n for n in range(3, 400)),
    "fence with a long language": "```" + "x" * SIZE + "`",
    "fence with spaces": "```" + " " * SIZE + "`",
    "opening tags": "<answer>" * (SIZE // 8),
    "closing tags": "</answer>" * (SIZE // 9),
    "alternating tags": "<answer></answer>" * (SIZE // 17),
    "thinking": "<think>" * (SIZE // 7),
    "thoughts": "</think>" * (SIZE // 8),
    "half tags": "<think" * (SIZE // 6),
    "open boxes": r"\boxed{" * (SIZE // 7),
    "closed boxes": r"\boxed{}" * (SIZE // 8),
    "braces": "{" * SIZE + "}" * SIZE,
    "backslashes": "\\" * SIZE,
    "digits": "1" * SIZE,
    "groups of digits": "1,111" + ",111" * (SIZE // 4) + "1",
    "points": "1." * (SIZE // 2),
    "signs": "-+" * (SIZE // 2),
    "quotients": "1/" * (SIZE // 2),
    "fractions": r"\frac{1}{" * (SIZE // 9),
    "exponents": "1e9" * (SIZE // 3),
    "spaces": " " * SIZE,
    "lines": "\n" * SIZE,
    "combining marks": "e" + "\u0301" * SIZE,
}
PARSERS: dict[str, Callable[[str], object]] = {
    "fenced": fenced,
    "fenced python": lambda text: fenced(text, "python"),
    "tagged": lambda text: tagged(text, "answer"),
    "strip_reasoning": strip_reasoning,
    "boxed_answer": boxed_answer,
    "last_number": last_number,
    "parse_number": parse_number,
    "normalize_text": normalize_text,
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_makes_a_parser_slow(parser: str, text: str) -> None:
    started_at = time.process_time()

    PARSERS[parser](HOSTILE[text])

    assert time.process_time() - started_at < 4


PLAIN = st.text(st.characters(exclude_characters="<>`~{}\\", exclude_categories=["Cs"]))


@given(PLAIN, PLAIN, PLAIN)
def test_a_tag_gives_back_what_was_put_into_it(before: str, answer: str, after: str) -> None:
    assert tagged(f"{before}<answer>{answer}</answer>{after}", "answer") == answer.strip()


@given(PLAIN, PLAIN)
def test_reasoning_leaves_exactly_what_follows_it(thought: str, answer: str) -> None:
    assert strip_reasoning(f"<think>{thought}</think>{answer}") == answer.strip()
    assert strip_reasoning(f"{thought}</think>{answer}") == answer.strip()
    assert strip_reasoning(strip_reasoning(answer)) == strip_reasoning(answer)


LINES = st.text(st.characters(exclude_characters="`~\r", exclude_categories=["Cs"]))


@given(
    LINES,
    st.integers(3, 6),
    st.sampled_from("`~"),
    st.sampled_from(["", "python", "c++", "python title=x"]),
)
def test_a_block_gives_back_what_was_put_into_it(
    content: str, length: int, mark: str, opening: str
) -> None:
    fence = mark * length
    content += "" if content.endswith("\n") else "\n"

    text = f"Look:\n{fence}{opening}\n{content}{fence}\nThat is it."

    assert fenced(text) == content
    assert (fenced(text, "rust") is None) == (opening != "")


def slow_fenced(text: str) -> str | None:
    """The same rules as `fenced`, line by line and without an expression for a whole fence."""
    found: str | None = None
    opening: tuple[str, int] | None = None
    place = 0
    for line in text.split("\n"):
        end = place + len(line)
        bare = line.lstrip(" ")
        fence = re.match(r"`{3,}|~{3,}", bare)
        is_fence = fence is not None and len(line) - len(bare) <= 3
        if fence is not None and is_fence and "`" not in bare[fence.end() :]:
            rest = bare[fence.end() :].strip(" \t").split()
            language = rest[0] if rest else ""
            if opening is None:
                opening = (fence[0], end)
            elif fence[0].startswith(opening[0]) and not language:
                found = text[opening[1] + 1 : max(opening[1] + 1, place)]
                opening = None
        place = end + 1
    return found


@given(st.text(st.sampled_from("`~ a\n"), max_size=40))
def test_blocks_are_found_as_a_reader_of_lines_finds_them(text: str) -> None:
    assert fenced(text) == slow_fenced(text)


@given(st.integers(-(10**30), 10**30), st.sampled_from(["{}", "is {}", "{}.", "({})", "$ {} $"]))
def test_a_whole_number_is_read_in_every_company(number: int, company: str) -> None:
    assert last_number(company.format(number)) == number
    assert last_number(company.format(f"{number:,}")) == number
    assert parse_number(f" {number} ") == number


@given(st.decimals(-(10**9), 10**9, places=4))
def test_a_decimal_is_read_exactly(number: object) -> None:
    from fractions import Fraction

    assert parse_number(str(number)) == Fraction(str(number))


@given(st.text(st.sampled_from("0123456789.,-+/e%$\\frac{} \u2212\u00a0π"), max_size=30))
def test_no_text_makes_a_number_that_is_not_one_text(text: str) -> None:
    number = parse_number(text)

    if number is not None:
        assert last_number(text) is not None
    # `1e400` is a number, whose 401 digits are more than is read.
    if number is not None and len(str(number)) <= 400:
        assert parse_number(str(number)) == number


@given(PLAIN, PLAIN)
def test_a_box_gives_back_what_was_put_into_it(before: str, answer: str) -> None:
    assert boxed_answer(f"{before}\\boxed{{{answer}}}") == answer.strip()
    assert boxed_answer(f"\\boxed{{wrong}} {before}\\boxed{{{answer}}}") == answer.strip()
    assert boxed_answer(f"\\boxed{{{answer}") is None


@given(st.text(max_size=30))
def test_the_normal_text_is_its_own_normal_text(text: str) -> None:
    once = normalize_text(text)

    assert normalize_text(once) == once
    assert normalize_text(f"  {text}\n") == once
    assert "  " not in once
