"""Answers are found in whatever a model writes, and nothing makes a parser raise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.parsers import fenced, strip_reasoning, tagged


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", ""),
        ("42", "42"),
        ("<think>hm</think>42", "42"),
        ("<think>\nhm\n</think>\n\n42\n", "42"),
        ("hm, so\n</think>42", "42"),
        ("<think>never closed, 42", ""),
        ("before <think>hm</think> after", "before  after"),
        ("<think>a</think>1<think>b</think>2", "2"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<reasoning>x</reasoning>y", "y"),
        ("</think>", ""),
    ],
)
def test_reasoning_is_taken_off(text: str, answer: str) -> None:
    assert strip_reasoning(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", None),
        ("<answer>42</answer>", "42"),
        ("<answer> 4\n2 </answer> done", "4\n2"),
        ("<answer></answer>", ""),
        ("<answer>1</answer><answer>2</answer>", "2"),
        ("<answer>42", None),
        ("42</answer>", None),
        ("</answer><answer>", None),
        ("<answer>1</answer><answer>2", "1"),
        ("<answer>a<answer>b</answer>", "b"),
        ("<answer>\U0001f600\u2028</answer>", "\U0001f600"),
    ],
)
def test_the_last_complete_tag_counts(text: str, answer: str | None) -> None:
    assert tagged(text, "answer") == answer


@pytest.mark.parametrize(
    ("text", "language", "answer"),
    [
        ("", None, None),
        ("```\na\n```", None, "a\n"),
        ("```python\na = 1\n```", "python", "a = 1\n"),
        ("```Python\na\n```", "python", "a\n"),
        ("```\na\n```", "python", "a\n"),
        ("```js\na\n```", "python", None),
        ("```python\na\n```\ntext\n```python\nb\n```", "python", "b\n"),
        ("```python\na\n```\n```js\nb\n```", "python", "a\n"),
        ("```python\nnever closed", None, None),
        ("```python\na\n```\n```python\ncut", None, "a\n"),
        ("~~~\na\n~~~", None, "a\n"),
        ("````\n```\ninner\n```\n````", None, "```\ninner\n```\n"),
        ("```\n```", None, ""),
        ("`code`", None, None),
    ],
)
def test_the_last_complete_block_counts(
    text: str, language: str | None, answer: str | None
) -> None:
    assert fenced(text, language) == answer


@given(st.text(st.sampled_from("<>/think`~\n aé\ud800{}\\")))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    strip_reasoning(text)
    tagged(text, "think")
    fenced(text)
    fenced(text, "python")
