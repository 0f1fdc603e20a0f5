"""Trajectories and environments that several tests use."""

from array import array
from typing import Any

from strop import Attempt, Completion, Environment, Message, Sampling, Task, Trajectory, reward
from strop.trajectory import RewardValue, Seat, Segment
from strop.types import EnvironmentIdentity, Usage


def tokens(*numbers: int) -> "array[int]":
    return array("i", numbers)


def prompt_segment(parent: int | None, *token_ids: int, text: str = "ask") -> Segment:
    return Segment("messages", "policy", parent, (Message("user", text),), tokens(*token_ids))


def sampled_segment(parent: int | None, *token_ids: int, text: str = "answer") -> Segment:
    return Segment(
        "completion",
        "policy",
        parent,
        (Message("assistant", text),),
        tokens(*token_ids),
        array("f", [-0.5] * len(token_ids)),
        "stop",
        Usage(3, len(token_ids), 1),
        "tiny",
        0.25,
        4,
        Sampling(0.7, 0.9, 64, ("END",), 2**63, {"top_k": 20}),
        {"odd": [1, None]},
    )


def a_trajectory(*segments: Segment, **changes: Any) -> Trajectory:
    graph = segments or (prompt_segment(None, 1, 2), sampled_segment(0, 3))
    fields: dict[str, Any] = {
        "attempt": Attempt(1, "ada/maze", "train", "7", 0, 2),
        "task": Task("7", "ask", {"n": 2**70}, {"x": None}, "train"),
        "segments": graph,
        "seats": {"policy": Seat(True, 0.5, {"right": RewardValue(0.5, 1.0, (0.0, 1.0))})},
        "outcome": {"steps": 3},
        "stop_reason": "ended",
        "environment": EnvironmentIdentity("maze", "ada", "1.0", "d" * 64, "matches"),
        "settings": {"size": 5},
        "turn_rewards": (0.5,) * sum(each.kind == "completion" for each in graph),
        "metrics": {"length": 6.0},
    }
    return Trajectory(**{**fields, **changes})


@reward(range=(0, 1), inline=True)
def is_exact(trajectory: Trajectory) -> bool:
    return trajectory.text == trajectory.task.reference


def a_single_turn_environment(**options: Any) -> Environment:
    tasks = [Task(str(n), f"Reverse: {n}", str(n)[::-1]) for n in range(10, 30)]
    return Environment(**{"tasks": tasks, "rewards": [is_exact], **options})


def a_completion(text: str = "", **fields: Any) -> Completion:
    return Completion(Message("assistant", text), **fields)
