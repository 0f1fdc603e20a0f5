"""Tools, budget and citations of an episode."""

import json
from typing import Any

import pytest
from deep_research_env import load_environment
from deep_research_env.episode import PART_CHARS
from deep_research_env.world import world_of

from strop import Completion, Message, ScriptedModel, ToolCall, Trajectory
from strop.models.scripted import call

EVAL = load_environment().tasks["eval"]
INDEX = next(n for n in range(1, 200, 4) if "a" in str(EVAL[n].reference))
"""Of a question over two pages whose answer is a name."""


async def play(*replies: Any, index: int = INDEX, **settings: Any) -> Trajectory:
    """The trajectory of a script on a task; the last reply is repeated until the end."""
    environment = load_environment(**settings)

    def policy(messages: Any) -> Any:
        turn = sum(message.role == "assistant" for message in messages)
        return replies[min(turn, len(replies) - 1)]

    async with environment:
        task = environment.tasks["eval"][index]
        trajectory = await environment.rollout(task, ScriptedModel(policy))
    assert trajectory.failure is None, trajectory.failure
    return trajectory


def told(trajectory: Trajectory) -> list[str]:
    """What the tools said."""
    return [message.text for message in trajectory.messages() if message.role == "tool"]


SUPPORT: list[Any] = [str(page) for page in EVAL[INDEX].metadata["support"]]  # type: ignore[union-attr]
ANSWER = str(EVAL[INDEX].reference)
OTHER = next(page for page in world_of(0).pages if page not in (*SUPPORT, ANSWER))
OPENED = [call("open", page=page) for page in SUPPORT]


def test_the_task_leads_over_two_pages() -> None:
    assert len(SUPPORT) == 2
    assert ANSWER not in SUPPORT


@pytest.mark.parametrize(
    ("answer", "citations", "opened", "reward"),
    [
        (ANSWER, SUPPORT, SUPPORT, 1),
        (f"  the {ANSWER.upper()}. ", SUPPORT, SUPPORT, 1),
        (ANSWER, SUPPORT[::-1], SUPPORT, 1),
        (ANSWER, [SUPPORT[0], SUPPORT[0], SUPPORT[1]], SUPPORT, 1),
        (ANSWER, SUPPORT[:1], SUPPORT, 1 - 0.2 / 3),
        (ANSWER, [], [], 0.8),
        (ANSWER, [OTHER], [OTHER], 0.8),
        (ANSWER, [*SUPPORT, OTHER], [*SUPPORT, OTHER], 1 - 0.2 * 0.2),
        ("", SUPPORT, SUPPORT, 0),
        ("the", SUPPORT, SUPPORT, 0),
        (OTHER, SUPPORT, SUPPORT, 0),
        (f"{ANSWER} or {OTHER}", SUPPORT, SUPPORT, 0),
        (f"{ANSWER}, {OTHER}, {SUPPORT[0]}", SUPPORT, SUPPORT, 0),
        (f"not {ANSWER}", SUPPORT, SUPPORT, 0),
        (f"{ANSWER} {ANSWER}", SUPPORT, SUPPORT, 0),
        (", ".join(world_of(0).pages), SUPPORT, SUPPORT, 0),
        (ANSWER.replace("a", "\u0430").replace("o", "\u043e"), SUPPORT, SUPPORT, 0),
        (ANSWER + "\u200b", SUPPORT, SUPPORT, 0),
        ("".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in ANSWER), SUPPORT, SUPPORT, 0),
    ],
)
async def test_the_right_answer_counts_and_its_pages(
    answer: str, citations: list[Any], opened: list[str], reward: float
) -> None:
    trajectory = await play(
        *[call("open", page=page) for page in opened],
        call("answer", answer=answer, citations=citations),
    )
    assert trajectory.reward == pytest.approx(reward)
    assert trajectory.is_terminated
    assert trajectory.outcome["opened"] == opened


async def test_a_page_that_was_not_opened_cannot_be_cited() -> None:
    answer = call("answer", answer=ANSWER, citations=SUPPORT)
    trajectory = await play(OPENED[0], answer, OPENED[1], answer)
    assert told(trajectory)[1] == (f"Error: {SUPPORT[1]!r} was not opened. Cite opened pages only.")
    assert trajectory.reward == 1


async def test_who_cites_only_unopened_pages_has_not_answered() -> None:
    trajectory = await play(call("answer", answer=ANSWER, citations=SUPPORT))
    assert trajectory.is_truncated
    assert trajectory.reward == 0
    assert trajectory.outcome == {"answer": "", "citations": [], "opened": []}


@pytest.mark.parametrize("text", [ANSWER, f" {ANSWER}\n"])
async def test_a_completion_without_a_call_is_an_answer_that_cites_nothing(text: str) -> None:
    assert (await play(text)).reward == 0.8
    assert (await play(*OPENED, f"I think it is {text}")).reward == 0


async def test_search_lists_pages_and_open_shows_them() -> None:
    search = call("search", query=SUPPORT[0], count=3)
    trajectory = await play(search, OPENED[0], "")
    listed, opened = told(trajectory)
    assert listed.startswith(f"- {SUPPORT[0]}: ")
    assert listed.count("\n- ") == 2
    assert opened.startswith(world_of(0).pages[SUPPORT[0]])
    assert SUPPORT[1] in opened


async def test_find_looks_in_opened_pages_only() -> None:
    looks = [
        call("find", page=SUPPORT[0], text="x"),
        OPENED[0],
        call("find", page=SUPPORT[0], text=SUPPORT[1].upper()),
        call("find", page=SUPPORT[0], text="no such text"),
        call("find", page=SUPPORT[0], text=""),
        call("find", page=SUPPORT[0], text="(.*)+$"),
    ]
    unopened, _, found, missing, empty, pattern = told(await play(*looks, ""))
    assert unopened == f"Error: {SUPPORT[0]!r} was not opened. Open it first."
    assert SUPPORT[1] in found
    assert missing.startswith("It is not there.")
    assert pattern.startswith("It is not there.")
    assert "Error" not in empty


@pytest.mark.parametrize(
    "page",
    ["/etc/passwd", "../../etc/passwd", "file:///etc/passwd", "world.toml", "", "\0", "x" * 10_000],
)
async def test_only_pages_of_the_corpus_can_be_opened_or_cited(page: str) -> None:
    trajectory = await play(
        call("open", page=page), call("answer", answer=ANSWER, citations=[page]), ""
    )
    assert [len(text) < 400 for text in told(trajectory)] == [True, True]
    assert told(trajectory)[0].startswith("Error: There is no page")
    assert "was not opened" in told(trajectory)[1]
    assert trajectory.reward == 0


@pytest.mark.parametrize("query", ['"', "a AND (", "title:*", "'; DROP TABLE pages", "w " * 10**6])
async def test_odd_and_giant_queries_find_pages_or_nothing(query: str) -> None:
    [found] = told(await play(call("search", query=query, count=10**9), ""))
    assert "Error" not in found


async def test_the_budget_is_told_and_whoever_spent_it_can_still_answer() -> None:
    script = [call("search", query="river")] * 4
    answer = call("answer", answer=ANSWER, citations=[])
    trajectory = await play(*script, answer, max_calls=3)
    first, second, third, fourth = told(trajectory)[:4]
    assert "[left: 2 calls," in first
    assert "[left: 1 calls," in second
    assert third.endswith("tokens] Answer now, with `answer`.")
    assert fourth == "Error: The budget is spent. Give your answer now, with `answer`."
    assert trajectory.reward == 0.8
    assert "3 calls" in trajectory.messages()[0].text


async def test_tokens_are_spent_by_what_is_shown_and_what_is_beyond_is_cut_off() -> None:
    script = [*OPENED, call("search", query="river")]
    trajectory = await play(*script, call("answer", answer=ANSWER, citations=[]), max_tokens=10)
    first, second, third = told(trajectory)[:3]
    assert first.partition("\n")[0] == world_of(0).pages[SUPPORT[0]][:40]
    assert "[left: 19 calls, 0 tokens] Answer now" in first
    assert "The budget is spent" in second
    assert "The budget is spent" in third
    assert trajectory.reward == 0.8


async def test_who_never_answers_is_truncated_with_nothing() -> None:
    trajectory = await play(call("search", query="a"), max_calls=2)
    assert trajectory.turn_count == 7
    assert (trajectory.stop_reason, trajectory.reward) == ("max_turns", 0)


async def test_many_calls_in_one_turn_spend_the_budget_one_by_one() -> None:
    searches = tuple(ToolCall(f"id-{n}", "search", '{"query": "a"}') for n in range(30))
    calls = Completion(Message("assistant", "", tool_calls=searches))
    answers = told(await play(calls, ""))
    assert sum("budget is spent" in text for text in answers) == 10


async def test_a_long_page_is_shown_in_parts(tmp_path: Any) -> None:
    text = "".join(f"line {n:05d} " for n in range(1_000))
    row = {"question": "Q?", "answer": "A", "supporting_facts": [["Long", 0]]}
    rows = [row | {"context": [["Long", [text]]]}]
    (tmp_path / "dev.json").write_text(json.dumps(rows))
    trajectory = await play(
        call("open", page="Long"),
        call("open", page="Long", start=PART_CHARS),
        call("open", page="Long", start=10**9),
        call("open", page="Long", start=-5),
        call("find", page="Long", text="line 0099"),
        call("answer", answer="A", citations=["Long"]),
        index=0,
        dataset="twowiki",
        path=str(tmp_path),
    )
    first, second, beyond, before, found = told(trajectory)[:5]
    assert first.startswith(text[:PART_CHARS] + f"\n[characters 0 to {PART_CHARS} of 11000]")
    assert second.startswith(text[PART_CHARS : 2 * PART_CHARS])
    assert beyond == "Error: 'Long' has 11000 characters. Start before its end."
    assert before.startswith(text[:PART_CHARS])
    assert found.count("\n- ") == 4
    assert trajectory.reward == 1


async def test_a_page_that_was_opened_past_its_end_cannot_be_cited() -> None:
    trajectory = await play(
        call("open", page=SUPPORT[0], start=10**9),
        call("answer", answer=ANSWER, citations=[SUPPORT[0]]),
        "",
    )
    first, second = told(trajectory)[:2]
    assert "Start before its end" in first
    assert "was not opened" in second
    assert trajectory.outcome["opened"] == []
    assert trajectory.reward < 1


@pytest.mark.parametrize("limits", [{"max_calls": 0}, {"max_tokens": 0}, {"max_calls": -1}])
def test_a_budget_of_nothing_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Allow 1 or more"):
        load_environment(**limits)  # type: ignore[arg-type]
