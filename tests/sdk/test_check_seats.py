"""Scripted policies, and the check, in episodes of several seats."""

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from strop import (
    Completion,
    End,
    Environment,
    Episode,
    Message,
    ScriptedModel,
    Task,
    Trajectory,
    reward,
    tool,
)
from strop.cli.run_models import open_models
from strop.mixture import Mixture
from strop.models.scripted import call
from strop.run_file import RunFile
from strop.testing import check_environment, scripted_policy
from strop.testing.policies import CONSTANT_REPLY
from strop.types import Model

TASKS = [Task(day, "Ask for the day, and book it.", day) for day in ("Monday", "Friday")]


class Booking(Episode):
    """A clerk books what a guest wants; each hears the other only."""

    seats: ClassVar[Mapping[str, bool]] = {"clerk": True, "guest": False}

    async def setup(self) -> None:
        self.outcome["booked"] = None
        self.tell("guest", Message("system", f"You want a table on {self.task.reference}."))

    @tool(seats=("clerk",))
    def book(self, day: str) -> str:
        """Book the table.

        Args:
            day: Of the week.
        """
        self.outcome["booked"] = day
        return "Booked."

    async def respond(self, completion: Completion) -> list[Message] | End:
        if self.due_seat == "guest" and completion.text == "Thanks.":
            return End()
        other = "guest" if self.due_seat == "clerk" else "clerk"
        self.tell(other, completion.text)
        self.due_seat = other
        return []


@reward(range=(0, 1), inline=True)
def granted(trajectory: Trajectory) -> float:
    is_thanked = trajectory.is_terminated
    return float(is_thanked and trajectory.outcome["booked"] == trajectory.task.reference)


@reward(seat="guest", range=(-1, 1), weight=3.0, inline=True)
def brief(trajectory: Trajectory) -> float:
    return 1.0


def script(task: Task) -> list[Any]:
    day = str(task.reference)
    return ["Which day?", f"{day}.", call("book", day=day), "It is booked.", "Thanks."]


def an_environment(**options: Any) -> Environment:
    options = {"oracle": script, "max_turns": 8, **options}
    return Environment(tasks=TASKS, rewards=[granted, brief], episode=Booking, **options)


def said(trajectory: Trajectory) -> list[tuple[str, str]]:
    return [(s.seat, s.messages[0].text) for s in trajectory.segments if s.kind == "completion"]


@pytest.mark.parametrize("is_mixed", [False, True])
async def test_an_oracle_of_several_seats_gives_its_replies_in_the_order_of_turns(
    is_mixed: bool,
) -> None:
    environment = Mixture({"part": an_environment()}) if is_mixed else an_environment()
    task = next(iter(environment.tasks["train"]))

    trajectory = await environment.rollout(task, scripted_policy("oracle", environment))

    assert trajectory.failure is None
    assert said(trajectory) == [
        ("clerk", "Which day?"),
        ("guest", f"{task.reference}."),
        ("clerk", ""),
        ("clerk", "It is booked."),
        ("guest", "Thanks."),
    ]
    assert trajectory.reward == 1.0


async def test_every_member_of_a_group_hears_the_script_from_its_beginning() -> None:
    environment = an_environment()
    model = scripted_policy("oracle", environment)

    members = await environment.rollout_group(TASKS[0], model, 4)

    assert [member.reward for member in members] == [1.0] * 4


async def test_an_oracle_named_for_each_seat_is_still_one_script() -> None:
    environment = an_environment()
    model = scripted_policy("oracle", environment)

    trajectory = await environment.rollout(TASKS[0], {"clerk": model, "guest": model})

    assert trajectory.reward == 1.0


@pytest.mark.parametrize("seats", [("guest",), ("clerk", "guest")])
async def test_a_run_that_names_the_oracle_for_seats_has_one_script(seats: tuple[str, ...]) -> None:
    environment = an_environment()
    run = RunFile.parse(
        {
            "environments": [{"ref": "booking-env"}],
            "model": {"name": "scripted:oracle"},
            "seats": {seat: {"name": "oracle"} for seat in seats},
        }
    )
    models = open_models(run, environment)
    by_seat = {seat: models.get(seat, models[""]) for seat in environment.seats}

    trajectories = [await environment.rollout(task, by_seat) for task in TASKS]

    assert [trajectory.reward for trajectory in trajectories] == [1.0, 1.0]


async def test_beside_another_model_a_script_holds_what_the_oracles_seat_says() -> None:
    day = TASKS[1].reference
    environment = an_environment(oracle=lambda task: [call("book", day=day), "It is booked."])
    models: dict[str, Model] = {
        "clerk": scripted_policy("oracle", environment),
        "guest": ScriptedModel.constant("Thanks."),
    }

    assert (await environment.rollout(TASKS[1], models)).reward == 1.0


async def test_a_script_that_is_too_short_for_all_seats_says_so() -> None:
    environment = an_environment(oracle=lambda task: ["Which day?", "Friday."])

    trajectory = await environment.rollout(TASKS[0], scripted_policy("oracle", environment))

    assert trajectory.failure is not None
    assert "has 2 replies for all seats together, and another is due" in trajectory.failure.message


async def test_the_mixed_policy_is_right_in_all_seats_or_in_none() -> None:
    environment = an_environment()
    model = scripted_policy("mixed", environment)

    trajectories = await environment.rollout_group(TASKS[0], model, 24)

    assert {trajectory.reward for trajectory in trajectories} == {0.0, 1.0}
    for trajectory in trajectories:
        is_wrong = said(trajectory)[0][1] == CONSTANT_REPLY
        assert trajectory.reward == (0.0 if is_wrong else 1.0)


async def test_the_check_holds_the_first_seats_rewards_alone_against_the_maximum() -> None:
    for bounds in (None, (0, 1)):
        findings = await check_environment(an_environment(), reward_range=bounds)
        verdicts = {finding.check: finding.verdict for finding in findings}

        assert set(verdicts.values()) <= {"ok", "skipped"}, findings
        assert verdicts["oracle"] == "ok"


async def test_the_check_takes_what_the_other_seats_earn_out_of_the_total_range() -> None:
    findings = await check_environment(an_environment(), reward_range=(0, 1))

    (found,) = [finding for finding in findings if finding.check == "reward_range"]
    assert (found.verdict, found.message) == ("ok", "The rewards keep within 0 to 1")
