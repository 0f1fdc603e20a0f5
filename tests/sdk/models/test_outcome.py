"""What kind of reply a completion is, live and as it stands in the record."""

from pathlib import Path

import pytest

from strop import Completion, Message, Part, ToolCall, read_trajectories
from strop.models.outcome import Outcome, outcome_of
from strop.recorder import Recorder
from strop.trajectory_file import TrajectoryWriter
from strop.types import FinishReason
from tests.sdk.trajectories import a_trajectory

CALL = (ToolCall("a", "move", "{}"),)
IMAGE = (Part("image", url="data:image/png;base64,"),)


@pytest.mark.parametrize(
    ("message", "finish_reason", "outcome"),
    [
        (Message("assistant", "42", reasoning="hmm"), "stop", "answer"),
        (Message("assistant", IMAGE), "other", "answer"),
        (Message("assistant", "", CALL, reasoning="hmm"), "tool_calls", "tool_calls"),
        (Message("assistant", "42"), "length", "truncated"),
        (Message("assistant", "", CALL), "length", "truncated"),
        (Message("assistant", "I will"), "content_filter", "filtered"),
        (Message("assistant", " \n\u2003", reasoning="hmm"), "stop", "reasoning_only"),
        (Message("assistant", ()), "stop", "empty"),
        (Message("assistant", "\t", reasoning=""), "stop", "empty"),
    ],
)
def test_a_record_tells_the_same_as_the_completion(
    tmp_path: Path, message: Message, finish_reason: FinishReason, outcome: Outcome
) -> None:
    completion, recorder = Completion(message, finish_reason), Recorder()
    recorder.observe("policy", [Message("user", "ask")])
    recorder.commit("policy", completion)
    with TrajectoryWriter(tmp_path / "t.jsonl") as writer:
        writer.write(a_trajectory(*recorder.close()))
    (trajectory,) = read_trajectories(tmp_path / "t.jsonl")

    assert outcome_of(completion) == outcome
    assert outcome_of(trajectory.segments[1]) == outcome
