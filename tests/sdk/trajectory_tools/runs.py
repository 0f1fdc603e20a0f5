"""A run as it comes out of training: groups, tools, tokens, forks, seats, failures."""

import random
from array import array
from dataclasses import replace
from pathlib import Path

from strop import Attempt, Message, Task, ToolCall, Trajectory, Usage
from strop.trajectory import Failure, RewardValue, Seat, Segment
from strop.trajectory_file import TrajectoryWriter
from strop.types import EnvironmentIdentity

SENTENCES = (
    "The maze opens to the left. ",
    "I compare both numbers first. ",
    "That contradicts the second clue. ",
    "So the answer must be even. ",
)


def attempt_at(task: int, member: int, rng: random.Random, turns: int = 3) -> Trajectory:
    """An attempt at a tool task; every seventh fails, rewards lie between 0 and 1."""
    segments = [
        Segment(
            "messages",
            "policy",
            None,
            (
                Message("system", "You find the exit of a hidden grid."),
                Message("user", f"Task {task}: " + rng.choice(SENTENCES) * 2),
            ),
            array("i", range(20)),
        )
    ]
    for turn in range(turns):
        is_last = turn == turns - 1
        count = rng.randint(10, 40)
        calls = () if is_last else (ToolCall(f"call_{turn}", "move", '{"direction":"left"}'),)
        answer = rng.choice(SENTENCES) * rng.randint(1, 4)
        segments.append(
            Segment(
                "completion",
                "policy",
                len(segments) - 1,
                (Message("assistant", answer, calls, reasoning=rng.choice(SENTENCES)),),
                array("i", [rng.randrange(5_000) for _ in range(count)]),
                array("f", [-rng.expovariate(1.2) for _ in range(count)]),
                "stop" if is_last else "tool_calls",
                Usage(20 + turn * 40, count, 0),
                "tiny",
                0.25,
            )
        )
        if not is_last:
            seen = Message("tool", "You are at (1, 2).", (), f"call_{turn}", "move")
            segments.append(Segment("messages", "policy", len(segments) - 1, (seen,)))
    reward = round(rng.random(), 3)
    rewards = {
        "escaped": RewardValue(float(reward > 0.5), 0.0, (0.0, 1.0)),
        "progress": RewardValue(reward, 1.0, (0.0, 1.0)),
    }
    trajectory = Trajectory(
        attempt=Attempt(7, "ada/maze", "train", str(task), 0, member),
        task=Task(str(task), f"Task {task}: find the exit.", {"exit": [3, 4]}, {}, "train"),
        segments=tuple(segments),
        seats={"policy": Seat(True, reward, rewards)},
        metrics={"escaped": rewards["escaped"].value or 0.0},
        outcome={"steps": turns},
        stop_reason="ended",
        environment=EnvironmentIdentity("maze", "ada", "1.2.0", "d" * 64, "matches"),
        settings={"size": 5},
        started_at_s=1_790_000_000.0,
    )
    return failed(trajectory) if rng.randrange(7) == 0 else trajectory


def failed(trajectory: Trajectory) -> Trajectory:
    """The same attempt after a grader broke."""
    failure = Failure(
        "RewardError",
        "reward",
        "`progress` raised KeyError: 'exit'. Mend the function.",
        'Traceback (most recent call last):\n  File "maze.py", line 12, in progress\nKeyError',
    )
    rewards = {"progress": RewardValue(None, 1.0, (0.0, 1.0), failure.message)}
    return replace(
        trajectory, failure=failure, seats={"policy": Seat(True, None, rewards)}, metrics={}
    )


def a_run(path: Path, task_count: int = 6, group_size: int = 4, turns: int = 3) -> Path:
    """Write a file of groups."""
    rng = random.Random(11)
    path.parent.mkdir(parents=True, exist_ok=True)
    with TrajectoryWriter(path) as writer:
        for task in range(task_count):
            for member in range(group_size):
                writer.write(attempt_at(task, member, rng, turns))
    return path
