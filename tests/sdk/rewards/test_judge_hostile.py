"""A judge's reply may be anything: the verdict is found in linear time, or the attempt fails."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.errors import RewardError
from strop.replies import Replies, only_recorded
from strop.rewards import judge
from strop.trajectory import OutsideReply
from strop.types import JSON, Usage
from tests.sdk.rewards.test_judge import Judge, judged

WORDS = ["polite", "neutral", "rude"]
WORTH = {"polite": 1.0, "neutral": 0.25, "rude": 0.0}


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("VERDICT:polite", 1.0),
        ("VERDICT :\tpolite", 1.0),
        ("# VERDICT: polite", 1.0),
        ("- **VERDICT**: **polite**.", 1.0),
        ("`VERDICT: polite`", 1.0),
        ("VERDICT: POLITE...", 1.0),
        ('VERDICT: "polite"', 1.0),
        ("VERDICT: _rude_", 0.0),
        ("VERDICT: polite\n\n\n", 1.0),
        ("VERDICT: polite\r\n", 1.0),
        ("VERDICT: rude\nVERDICT: neutral", 0.25),
        ("I say VERDICT: rude\nVERDICT: polite", 1.0),
        ("VERDICT: polite\nI could have said VERDICT: rude", 1.0),
        ("hm</think>VERDICT: neutral", 0.25),
    ],
)
async def test_a_verdict_is_found_in_the_dress_of_markdown(reply: str, value: float) -> None:
    assert (await judged(Judge(reply))).reward == value


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "polite",
        "verdict: polite",
        "VERDICT polite",
        "VERDICT:",
        "VERDICT: ",
        "VERDICT: very polite",
        "VERDICT: polite or rude",
        "VERDICT: polite, I think",
        "VERDICT:\npolite",
        "MYVERDICT: polite",
        "<think>VERDICT: polite",
        "VERDICT: politе",  # noqa: RUF001 - the last letter is Cyrillic
        "VERDICT: polite\nVERDICT: unsure",
        "VERDICT: \x00polite",
    ],
)
async def test_what_is_no_verdict_fails_the_attempt_and_is_no_zero(reply: str) -> None:
    trajectory = await judged(Judge(reply))

    assert trajectory.reward is None
    assert trajectory.failure is not None
    assert "gave no verdict of polite, neutral, rude" in trajectory.failure.message
    assert len(trajectory.failure.message) < 600
    assert trajectory.replies[0].reply == reply


SIZE = 100_000
SLOW = {
    "spaces within": "VERDICT: a" + " " * SIZE + "b",
    "points within": "VERDICT: a" + "." * SIZE + "b",
    "marks before": "*" * SIZE + "VERDICT: a b",
    "marks alone": "*_`# -> " * (SIZE // 8),
    "verdicts": "VERDICT: a\n" * (SIZE // 11),
    "verdicts in a line": "VERDICT: " * (SIZE // 9),
    "thoughts": "<think></think>" * (SIZE // 15) + "VERDICT: x",
    "tabs": "VERDICT" + "\t" * SIZE,
}


@pytest.mark.parametrize("case", SLOW)
async def test_no_reply_makes_the_search_slow(case: str) -> None:
    started_at = time.process_time()

    trajectory = await judged(Judge(SLOW[case]))

    assert time.process_time() - started_at < 4
    assert trajectory.reward is None


@given(st.sampled_from(WORDS), st.sampled_from(["", "*", "**", "`", "_"]), st.text(max_size=30))
def test_a_last_line_with_a_verdict_decides_whatever_stands_before(
    word: str, mark: str, before: str
) -> None:
    reply = f"{before.replace('<', '')}\n{mark}VERDICT:{mark} {mark}{word}{mark}"

    trajectory = asyncio.run(judged(Judge(reply)))

    assert trajectory.reward == WORTH[word]


@given(st.text(max_size=60))
def test_any_answer_is_judged_between_marks_that_it_cannot_know(answer: str) -> None:
    model = Judge("VERDICT: rude")

    asyncio.run(judged(model, answer))

    (asked,) = model.asked
    assert answer in asked
    opening = asked.split("<answer-")[1].split(">")[0]
    assert asked.count(f"</answer-{opening}>") == 1


def test_a_judge_without_verdicts_is_refused() -> None:
    with pytest.raises(ValueError, match="needs verdicts"):
        judge(Judge(), "Is it?", {})
    with pytest.raises(ValueError, match="The range of `judge`"):
        judge(Judge(), "Is it?", {"yes": float("nan")})


class Service:
    """Answers with a number that grows, after a while."""

    def __init__(self) -> None:
        self.asked_count = 0
        self.fail_count = 0

    async def ask(self) -> tuple[JSON, Usage | None]:
        self.asked_count += 1
        number = self.asked_count
        await asyncio.sleep(0.01)
        if self.fail_count > 0:
            self.fail_count -= 1
            raise ConnectionError("gone")
        return number, None


async def test_one_request_at_once_from_many_is_asked_once_and_answered_alike() -> None:
    service, replies = Service(), Replies()

    found = await asyncio.gather(*(replies.ask("s", {"q": 1}, service.ask) for _ in range(20)))

    assert found == [1] * 20
    assert service.asked_count == 1
    assert [each.reply for each in replies.recorded()] == [1]


async def test_what_was_answered_is_what_a_replay_answers() -> None:
    service, replies = Service(), Replies()
    requests: list[JSON] = [{"q": n % 3} for n in range(12)]

    first = await asyncio.gather(*(replies.ask("s", each, service.ask) for each in requests))

    again = Replies(replies.recorded())
    with only_recorded():
        second = [await again.ask("s", each, service.ask) for each in requests]
    assert second == first
    assert service.asked_count == 3


async def test_a_question_that_failed_is_asked_again_by_the_next() -> None:
    service, replies = Service(), Replies()
    service.fail_count = 1

    found = await asyncio.gather(
        *(replies.ask("s", 1, service.ask) for _ in range(3)), return_exceptions=True
    )

    assert isinstance(found[0], ConnectionError)
    assert found[1:] == [2, 2]
    assert len(replies.recorded()) == 1


async def test_a_cancelled_question_does_not_hold_up_the_next() -> None:
    service, replies = Service(), Replies()
    first = asyncio.create_task(replies.ask("s", 1, service.ask))
    second = asyncio.create_task(replies.ask("s", 1, service.ask))
    await asyncio.sleep(0)
    first.cancel()

    async with asyncio.timeout(60):
        assert await second == 2
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_different_questions_do_not_wait_for_each_other() -> None:
    service, replies = Service(), Replies()

    found = await asyncio.gather(
        *(replies.ask(source, n, service.ask) for source in "ab" for n in range(5))
    )

    assert sorted(map(int, found)) == list(range(1, 11))  # type: ignore[arg-type]


async def test_a_sealed_record_asks_nobody_and_names_who_would_have_been_asked() -> None:
    service = Service()
    replies = Replies([OutsideReply("s", "0" * 64, 5)])

    with only_recorded(), pytest.raises(RewardError, match="No reply of `s`"):
        await replies.ask("s", 1, service.ask)
    assert service.asked_count == 0
    assert await replies.ask("s", 1, service.ask) == 1
