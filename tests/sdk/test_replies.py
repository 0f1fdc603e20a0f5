"""What services outside answered is recorded, and scoring again asks nobody."""

from typing import Any

from strop import Completion, End, Environment, Episode, ScriptedModel, Task, Trajectory, reward
from strop.replies import Replies
from strop.trajectory_json import decode_line, encode_line
from strop.types import JSON, Usage

TASK = Task("1", "Write.", split="train")


class Service:
    """A service outside that answers another way each time."""

    def __init__(self) -> None:
        self.count = 0

    async def ask(self) -> tuple[JSON, Usage | None]:
        self.count += 1
        return {"verdict": self.count}, Usage(10, 1)


async def test_the_same_request_is_asked_once() -> None:
    service, replies = Service(), Replies()

    first = await replies.ask("judge", ["good?", 1], service.ask)
    again = await replies.ask("judge", ["good?", 1], service.ask)
    other = await replies.ask("judge", ["good?", 2], service.ask)

    assert first == again == {"verdict": 1}
    assert other == {"verdict": 2}
    assert service.count == 2


async def test_a_reward_replays_what_was_answered() -> None:
    service = Service()

    @reward(outside=True)
    async def judged(trajectory: Trajectory, replies: Replies) -> float:
        verdict: Any = await replies.ask("judge", trajectory.text, service.ask)
        return float(verdict["verdict"])

    environment = Environment(tasks=[TASK], rewards=[judged])
    scored = await environment.rollout(TASK, ScriptedModel.constant("a poem"))
    saved = decode_line(encode_line(scored))
    again = await environment.score(saved)

    assert scored.reward == again.reward == 1.0
    assert service.count == 1
    assert scored.replies[0].source == "judge"
    assert scored.replies[0].usage == Usage(10, 1)
    assert scored.usage == Usage()


async def test_an_episodes_replies_and_a_rewards_stand_in_one_record() -> None:
    service = Service()

    class Search(Episode):
        async def respond(self, completion: Completion) -> End:
            await self.replies.ask("search", completion.text, service.ask)
            return End()

    @reward(outside=True)
    async def judged(trajectory: Trajectory, replies: Replies) -> float:
        await replies.ask("search", trajectory.text, service.ask)
        await replies.ask("judge", trajectory.text, service.ask)
        return 1.0

    environment = Environment(tasks=[TASK], rewards=[judged], episode=Search)
    trajectory = await environment.rollout(TASK, ScriptedModel.constant("q"))

    assert [each.source for each in trajectory.replies] == ["search", "judge"]
    assert service.count == 2
