"""Find the answer in what a model wrote (step: reward).

Every function takes any text, empty and malformed included, and returns None where there is
no answer; of several answers the last one counts, so that stuffing many in gains nothing.
`strop.rewards.boxed_answer` finds boxed ones.
"""

from __future__ import annotations

import re

_REASONING_TAGS = ("think", "thinking", "reasoning", "thought")
# Possessive throughout: what gives nothing back takes linear time on whatever a model wrote.
_FENCE = re.compile(r"^ {0,3}+(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`]*+)[^\n`]*+$", re.M)


def strip_reasoning(text: str, tags: tuple[str, ...] = _REASONING_TAGS) -> str:
    """The text after the model's reasoning.

    An opening tag that is never closed leaves nothing: the model was still thinking. A closing
    tag without an opening one ends a reasoning that the prompt had opened.
    """
    for tag in tags:
        before, closing, after = text.rpartition(f"</{tag}>")
        if closing:
            opening = before.find(f"<{tag}>")
            text = (before[:opening] if opening >= 0 else "") + after
        start = text.find(f"<{tag}>")
        if start >= 0:
            text = text[:start]
    return text.strip()


def tagged(text: str, tag: str) -> str | None:
    """What stands in the last complete ``<tag>…</tag>``, without space around it."""
    end = text.rfind(f"</{tag}>")
    if end < 0:
        return None
    start = text.rfind(f"<{tag}>", 0, end)
    return None if start < 0 else text[start + len(tag) + 2 : end].strip()


def fenced(text: str, language: str | None = None) -> str | None:
    """The content of the last complete fenced block.

    Args:
        text: Markdown, as models write it.
        language: Only blocks of this language, or with none named; None takes any block.
    """
    found = None
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence["fence"].startswith(opening["fence"]) and not fence["language"]:
            if language is None or opening["language"].lower() in ("", language.lower()):
                found = text[opening.end() + 1 : max(opening.end() + 1, fence.start())]
            opening = None
    return found
