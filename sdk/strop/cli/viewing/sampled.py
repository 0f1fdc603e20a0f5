"""Sampled tokens, coloured by how likely the model found them."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left

from rich.text import Text

from strop.review.escaping import visible
from strop.review.vocabulary import Vocabulary
from strop.trajectory import Segment

_LEAST = (-6.0, -4.0, -2.0, -1.0, -0.5, -0.1)
"""Natural logarithms at which the colour changes; between them, from unlikely to nearly sure."""
_STYLES = ("color(196)", "color(202)", "color(208)", "color(220)", "color(148)", "color(114)", "")
_UNKNOWN = "color(244)"
_MOST_BLOCKS = 400


def sampled_part(
    segment: Segment, vocabulary: Vocabulary | None, *, has_tokens: bool, is_coloured: bool
) -> Text | None:
    """A completion's tokens; None where the engine told none.

    Without a vocabulary each token is a block, or its number where tokens are asked for.

    Args:
        segment: A completion.
        vocabulary: Turns ids into text.
        has_tokens: Whether ids are listed.
        is_coloured: Whether colours can be seen; blocks say nothing without.
    """
    ids, logprobs = segment.token_ids, segment.logprobs
    if not ids and not logprobs:
        return None
    count = len(ids or logprobs or ())
    drawn = Text.assemble((_summary(count, logprobs), "dim"))
    has_blocks = is_coloured and logprobs is not None
    if not (has_tokens or vocabulary or has_blocks):
        return drawn
    drawn.append("\n")
    shown_count = count if has_tokens or vocabulary else min(count, _MOST_BLOCKS)
    for place in range(shown_count):
        logprob = None if logprobs is None else logprobs[place]
        token_id = None if ids is None else ids[place]
        text = _shown(token_id, vocabulary, has_tokens=has_tokens)
        if has_tokens and not is_coloured and logprob is not None:
            text = f"{text.rstrip()}({logprob:.2f}) "
        drawn.append(text, style_of(logprob))
    if shown_count < count:
        drawn.append(f" … {count - shown_count} more; see --tokens")
    return drawn


def style_of(logprob: float | None) -> str:
    """The colour of a token, red where the model hardly expected it."""
    if logprob is None or math.isnan(logprob):
        return _UNKNOWN
    return _STYLES[bisect_left(_LEAST, logprob)]


def _shown(token_id: int | None, vocabulary: Vocabulary | None, *, has_tokens: bool) -> str:
    if token_id is None:
        return "▮"
    if vocabulary is not None:
        return visible(vocabulary.text(token_id))
    return f"{token_id} " if has_tokens else "▮"


def _summary(count: int, logprobs: array[float] | None) -> str:
    known = [value for value in logprobs or () if not math.isnan(value)]
    if not known:
        return f"{count} tokens recorded"
    mean = math.fsum(known) / len(known)
    return f"{count} tokens recorded, logprob {mean:.3f} on average, {min(known):.3f} at least"
