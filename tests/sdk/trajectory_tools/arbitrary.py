"""Trajectories of every shape, for hypothesis."""

from array import array
from typing import get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from strop import Attempt, Message, Part, Sampling, Task, ToolCall, Trajectory, Usage
from strop.trajectory import (
    Failure,
    OutsideReply,
    RewardValue,
    Seat,
    Segment,
    StopReason,
    Timing,
)
from strop.types import EnvironmentIdentity, FinishReason, Role

PATIENT = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Whole trajectories take their time on a busy machine."""

TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
NUMBERS = st.floats(allow_nan=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(TEXT, JSON_VALUES, max_size=2)
COUNTS = st.integers(0, 2**40)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS)
PARTS = st.builds(
    Part,
    st.sampled_from(["text", "image", "audio"]),
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | TEXT,
)
SAMPLINGS = st.builds(
    Sampling,
    st.none() | st.floats(0, 2),
    st.none() | st.floats(0, 1),
    st.none() | COUNTS,
    st.lists(TEXT, max_size=2).map(tuple),
    st.none() | st.integers(),
    OBJECTS,
)
CALLS = st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=2).map(tuple)


def messages(*roles: Role) -> st.SearchStrategy[Message]:
    contents = TEXT | st.lists(PARTS, max_size=2).map(tuple)
    maybe = st.none() | TEXT
    return st.builds(
        Message, st.sampled_from(roles or get_args(Role)), contents, CALLS, maybe, maybe, maybe
    )


@st.composite
def segments(draw: st.DrawFn, seat: str, index: int) -> Segment:
    parent = draw(st.none() | st.integers(0, index - 1)) if index else None
    token_count = draw(st.none() | st.integers(0, 3))
    ids = None if token_count is None else array("i", range(token_count))
    if draw(st.booleans()):
        seen = draw(st.lists(messages(), max_size=2))
        return Segment("messages", seat, parent, tuple(seen), ids)
    has_logprobs = token_count is not None and draw(st.booleans())
    logprobs = array("f", [-0.5] * (token_count or 0)) if has_logprobs else None
    return Segment(
        "completion",
        seat,
        parent,
        (draw(messages("assistant")),),
        ids,
        logprobs,
        draw(st.none() | st.sampled_from(get_args(FinishReason))),
        draw(st.none() | USAGES),
        draw(TEXT),
        draw(st.floats(0, 10)),
        draw(st.none() | st.integers(0, 9)),
        draw(st.none() | SAMPLINGS),
        draw(OBJECTS),
    )


@st.composite
def seats(draw: st.DrawFn, *, is_failed: bool) -> Seat:
    """A seat whose reward is the sum of its parts, or none after a failure."""
    values = draw(st.dictionaries(TEXT, st.floats(0, 1), max_size=3))
    parts = {
        name: RewardValue(value, 1.0, draw(st.none() | st.just((0.0, 1.0))), draw(st.none() | TEXT))
        for name, value in values.items()
    }
    if is_failed:
        parts["broken"] = RewardValue(None, 1.0, None, "raised")
    return Seat(draw(st.booleans()), None if is_failed else sum(values.values(), 0.0), parts)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    names = draw(st.lists(TEXT, min_size=1, max_size=2, unique=True))
    graph: list[Segment] = []
    for index in range(draw(st.integers(0, 4))):
        graph.append(draw(segments(draw(st.sampled_from(names)), index)))
    turn_count = sum(segment.kind == "completion" for segment in graph)
    failure = draw(st.none() | st.builds(Failure, TEXT, TEXT, TEXT, TEXT))
    stop_reasons = [r for r in get_args(StopReason) if failure is not None or r != "failure"]
    key = draw(TEXT)
    states = ["matches", "differs", "editable", "unknown owner", "local"]
    maybe = st.none() | TEXT
    identity = EnvironmentIdentity(
        draw(TEXT), draw(maybe), draw(maybe), draw(maybe), draw(st.sampled_from(states))
    )
    return Trajectory(
        attempt=Attempt(draw(st.integers()), draw(TEXT), draw(TEXT), key, draw(COUNTS), 1),
        task=Task(
            key, draw(st.lists(messages(), max_size=2)), draw(JSON_VALUES), draw(OBJECTS), "train"
        ),
        segments=tuple(graph),
        seats={name: draw(seats(is_failed=failure is not None)) for name in names},
        outcome=draw(OBJECTS),
        stop_reason=draw(st.sampled_from(stop_reasons)),
        stop_detail=draw(TEXT),
        failure=failure,
        metrics=draw(st.dictionaries(TEXT.map("metric {}".format), NUMBERS, max_size=2)),
        replies=tuple(
            draw(st.lists(st.builds(OutsideReply, TEXT, TEXT, JSON_VALUES, USAGES), max_size=2))
        ),
        turn_rewards=draw(st.none() | st.just((0.5,) * turn_count)),
        environment=identity,
        settings=draw(OBJECTS),
        fork_count=draw(COUNTS),
        timing=Timing(1.0, 2.0, 3.0, 4.0, 5.0),
        started_at_s=draw(st.floats(0, 2e9)),
        isolation=draw(maybe),
        strop_version=draw(TEXT),
        stamps=draw(OBJECTS),
    )
