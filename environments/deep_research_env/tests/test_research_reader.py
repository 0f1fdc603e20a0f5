"""A reader that knows the language, and not the land, answers everything with the tools alone."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from deep_research_env import load_environment
from deep_research_env.world import HOPS, World

from strop import Message, ScriptedModel, ToolCall
from strop.models.scripted import call

RELATIONS = World(0).relations


def pattern(template: str, **groups: str) -> re.Pattern[str]:
    """A template as a pattern; names in braces become groups."""
    escaped = re.escape(template)
    for name, group in groups.items():
        escaped = escaped.replace(rf"\{{{name}\}}", group, 1)
    return re.compile(escaped)


def steps_of(question: str) -> tuple[str, list[str]]:
    """The name that a question begins with, and the facts to look up from there on, in order."""
    rest = re.sub(r"^(?:Who|What) is ", "", question).removesuffix("?")
    facts: list[str] = []
    while True:
        for relation in (each for relations in RELATIONS.values() for each in relations):
            # Two articles in a row were told as one.
            phrase = pattern(relation["phrase"], x="(?P<x>.+)")
            found = phrase.fullmatch(rest) or phrase.fullmatch(f"the {rest}")
            if found:
                facts.insert(0, relation["fact"])
                rest = found["x"]
                break
        else:
            return rest.removeprefix("the "), facts


def look_up(fact: str, name: str, page: str) -> str:
    found = pattern(fact.replace("{x}", name), y="(?P<y>[^.]+)").search(page)
    assert found is not None, (fact, name, page)
    return found["y"]


def reader(*, is_misread: bool = False) -> ScriptedModel:
    """Searches for a name, opens the first page of that name, and reads on from there.

    Args:
        is_misread: Whether to stop one page early.
    """

    def policy(messages: Sequence[Message]) -> ToolCall:
        name, facts = steps_of(messages[1].text)
        pages = [name]
        shown = [m.text for m in messages if m.role == "tool" and "\n[characters" in m.text]
        for fact, page in zip(facts, shown, strict=False):
            pages.append(look_up(fact, pages[-1], page))
        if len(shown) == len(facts):
            answer = pages[-2] if is_misread else pages[-1]
            return call("answer", answer=answer, citations=[*pages[:-1]])
        last = messages[-1].text
        listed = last.startswith("- ") and any(
            f"- {pages[-1]}: " in line for line in last.split("\n")
        )
        return call("open", page=pages[-1]) if listed else call("search", query=pages[-1])

    return ScriptedModel(policy)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("hops", [HOPS[0], HOPS[-1]])
async def test_it_answers_every_question_and_cites_what_it_read(seed: int, hops: int) -> None:
    environment = load_environment(seed=seed, hops=hops)
    async with environment:
        for task in [
            *islice(environment.tasks["train"], 40),
            *islice(environment.tasks["eval"], 40),
        ]:
            trajectory = await environment.rollout(task, reader())
            assert (task.prompt[0].text, trajectory.reward) == (task.prompt[0].text, 1)


async def test_who_stops_a_page_early_earns_nothing_for_it() -> None:
    environment = load_environment()
    rewards: dict[bool, set[float | None]] = {True: set(), False: set()}
    async with environment:
        for task in islice(environment.tasks["train"], 40):
            is_misread = bool(int(task.key) % 3)
            trajectory = await environment.rollout(task, reader(is_misread=is_misread))
            rewards[is_misread].add(trajectory.reward)
    assert rewards == {True: {0.0}, False: {1.0}}


async def test_a_small_budget_stops_it_and_lets_it_answer() -> None:
    environment = load_environment(hops=5, max_calls=4)
    async with environment:
        task: Any = environment.tasks["train"][4]
        model = reader()
        looked = await environment.rollout(task, model)
    assert (looked.stop_reason, looked.reward) == ("max_turns", 0)
    said = [message.text for message in looked.messages() if message.role == "tool"]
    assert said[3].endswith("Answer now, with `answer`.")
    assert all("The budget is spent" in text for text in said[4:])
