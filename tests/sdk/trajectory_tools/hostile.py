"""What a model may write to attack whoever looks at it."""

from array import array
from dataclasses import replace
from typing import Any

from strop import Attempt, Message, Part, Sampling, Task, ToolCall, Trajectory, Usage
from strop.trajectory import Failure, OutsideReply, RewardValue, Seat, Segment, TurnValues
from strop.types import EnvironmentIdentity

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\x08\x08\r\x7f\u202e\u2028\ud800\x00"
MARKUP = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    "<svg/onload=alert(3)>\"'><style>*{display:none}</style>[bold red]x[/] ${7*7} {{figures}}"
)
HOSTILE = ESCAPES + MARKUP


def hostile_trajectory(text: str = HOSTILE, **changes: Any) -> Trajectory:
    """A trajectory with `text` in every field that can hold text."""
    call = ToolCall(text, text, text)
    picture = Part("image", url="data:image/svg+xml;base64," + text, media_type=text)
    link = Part("image", url=f"javascript:alert(4)//{text}")
    remote = Part("image", url="http://127.0.0.1:9/pixel.png")
    parts = (Part("text", text=text), picture, link, remote, Part("audio", digest=text))
    messages = (Message("user", parts), Message("tool", text, (), text, text))
    failure = Failure(text, text, text, text)
    reward = RewardValue(None, 1.0, None, text)
    return replace(
        Trajectory(
            attempt=Attempt(2**70, text, text, text, 0, 0),
            task=Task(text, text, {text: [2**70, text]}, {text: text}, text),
            segments=(
                Segment("messages", text, None, messages),
                Segment(
                    "completion",
                    text,
                    0,
                    (Message("assistant", text, (call,), reasoning=text),),
                    array("i", [1, 2]),
                    array("f", [-0.1, float("nan")]),
                    "stop",
                    Usage(),
                    text,
                    0.0,
                    None,
                    Sampling(stop=(text,), extra={text: text}),
                    {text: text},
                ),
            ),
            seats={text: Seat(True, None, {text: reward})},
            outcome={text: float("nan"), "infinite": float("inf")},
            stop_reason="failure",
            stop_detail=text,
            failure=failure,
            replies=(OutsideReply(text, text, text),),
            environment=EnvironmentIdentity(text, text, text, text),
            settings={text: text},
            turn_values={text: TurnValues(None, 1.0, None, text)},
            isolation=text,
            strop_version=text,
            stamps={text: text},
        ),
        **changes,
    )
