"""What can be read off a trajectory, and what a trainer gets from it."""

import math
from dataclasses import FrozenInstanceError, replace

import pytest

from strop import Message
from strop.trajectory import Seat, Segment
from strop.types import Usage
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment


def test_a_trajectory_says_what_was_sampled_last() -> None:
    trajectory = a_trajectory(
        prompt_segment(None, 1),
        sampled_segment(0, 2, text="first"),
        prompt_segment(1, 3, text="again"),
        sampled_segment(2, 4, text="second"),
    )

    assert trajectory.text == "second"
    assert trajectory.turn_count == 2
    assert [message.text for message in trajectory.completions] == ["first", "second"]
    assert [m.text for m in trajectory.messages()] == ["ask", "first", "again", "second"]
    assert trajectory.usage == Usage(6, 2, 2)


def test_a_trajectory_without_turns_has_no_text() -> None:
    trajectory = a_trajectory(prompt_segment(None, 1))

    assert trajectory.text == ""
    assert trajectory.messages("nobody") == ()
    assert trajectory.usage == Usage()


def test_it_cannot_be_changed_and_stamping_copies() -> None:
    trajectory = a_trajectory()

    stamped = trajectory.stamped(group="g1").stamped(advantage=0.5)

    assert stamped.stamps == {"group": "g1", "advantage": 0.5}
    assert trajectory.stamps == {}
    with pytest.raises(FrozenInstanceError):
        trajectory.stop_reason = "driver"  # type: ignore[misc]


def test_a_sample_is_flat_and_of_one_length() -> None:
    trajectory = a_trajectory(
        prompt_segment(None, 1, 2),
        sampled_segment(0, 3),
        prompt_segment(1, 4),
        sampled_segment(2, 5),
    )

    (sample,) = trajectory.to_samples()

    assert list(sample.token_ids) == [1, 2, 3, 4, 5]
    assert list(sample.mask) == [0, 0, 1, 0, 1]
    assert list(sample.logprobs) == [0, 0, -0.5, 0, -0.5]


def test_a_shared_sampled_segment_is_trained_in_exactly_one_sample() -> None:
    trajectory = a_trajectory(
        prompt_segment(None, 1),
        sampled_segment(0, 2),
        prompt_segment(1, 3),
        sampled_segment(2, 4),
        prompt_segment(1, 5),
        sampled_segment(4, 6),
        prompt_segment(1, 7),
        sampled_segment(6, 8),
    )

    samples = trajectory.to_samples()

    assert [list(sample.token_ids) for sample in samples] == [
        [1, 2, 3, 4],
        [1, 2, 5, 6],
        [1, 2, 7, 8],
    ]
    assert [list(sample.mask) for sample in samples] == [[0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]]


def test_a_last_observation_without_tokens_is_left_out_of_the_sample() -> None:
    farewell = Segment("messages", "policy", 1, (Message("user", "bye"),))
    trajectory = a_trajectory(prompt_segment(None, 1), sampled_segment(0, 2), farewell)

    (sample,) = trajectory.to_samples()

    assert list(sample.token_ids) == [1, 2]


def test_a_path_with_untold_tokens_gives_no_sample() -> None:
    blind = replace(sampled_segment(0, 2), token_ids=None, logprobs=None)

    assert a_trajectory(prompt_segment(None, 1), blind).to_samples() == []


def test_a_sampled_token_without_logprob_is_nan() -> None:
    trajectory = a_trajectory(
        prompt_segment(None, 1), replace(sampled_segment(0, 2), logprobs=None)
    )

    (sample,) = trajectory.to_samples()

    assert sample.logprobs[0] == 0
    assert math.isnan(sample.logprobs[1])


def test_a_seat_that_is_not_trained_gives_no_sample() -> None:
    assert a_trajectory(seats={"policy": Seat(is_trainable=False)}).to_samples() == []


def test_ends_by_the_task_and_by_limits_are_told_apart() -> None:
    assert a_trajectory().is_terminated
    assert not a_trajectory().is_truncated
    cut = a_trajectory(stop_reason="max_turns")
    assert cut.is_truncated
    assert not cut.is_terminated
