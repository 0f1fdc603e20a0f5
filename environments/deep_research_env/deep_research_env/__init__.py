"""Multi-hop questions over pages that have to be searched, opened and cited."""

import os
from typing import Literal

from deep_research_env.answer import answered, cited, texts
from deep_research_env.dataset import library
from deep_research_env.episode import Research
from deep_research_env.world import world_of, world_tasks
from strop import Environment, OpenAIModel, Task, ToolCall, metric
from strop.models.scripted import call
from strop.search import LocalIndex, PageSource, WebSearch

SYSTEM_PROMPT = (
    "Answer the question from the pages: search, open, find, then `answer` in few words and cite "
    "the opened pages that it rests on. You have {max_calls} calls and {max_tokens} tokens of text."
)


class ResearchEnvironment(Environment):
    """Questions, the source of pages that all episodes ask, and the judge that it may have."""

    source: PageSource
    judge_model: OpenAIModel | None = None

    async def setup(self) -> None:
        """Make the source ready."""
        await self.source.__aenter__()

    async def close(self) -> None:
        """Free source and judge."""
        await self.source.__aexit__()
        if self.judge_model is not None:
            await self.judge_model.close()


def load_environment(
    dataset: Literal["world", "twowiki", "strategyqa"] = "world",
    path: str | None = None,
    *,
    hops: int = 4,
    seed: int = 0,
    max_rows: int = 1_000,
    provider: Literal["local", "serper", "tavily", "brave"] = "local",
    provider_url: str | None = None,
    max_calls: int = 20,
    max_tokens: int = 20_000,
    judge_model: str | None = None,
    judge_url: str = "http://127.0.0.1:8000/v1",
    judge_key_env: str = "OPENAI_API_KEY",
) -> ResearchEnvironment:
    """The environment.

    Args:
        dataset: Where questions and pages come from; ``world`` makes them up.
        path: A folder that holds the data set; None fetches it from the Hugging Face hub (extra
            ``hf``).
        hops: Of the made-up world: most pages that a question leads over, 1 to 5.
        seed: Of the made-up world: another seed makes another one.
        max_rows: Of a data set from the Hugging Face hub: most questions of each split.
        provider: What is searched: the pages of the data set, or the web by key.
        provider_url: Where a provider of web search is asked, if not at its own address.
        max_calls: Searches, openings and findings that an episode may make.
        max_tokens: Tokens of pages that an episode may read, at four characters each.
        judge_model: Name of a model that reads other words than the reference's.
        judge_url: Where it is served, in the manner of OpenAI.
        judge_key_env: Name of the variable that holds its key, if it needs one.
    """
    if min(max_calls, max_tokens) < 1:
        raise ValueError(f"max_calls is {max_calls}, max_tokens {max_tokens}. Allow 1 or more.")
    if dataset != "world":
        tasks, pages = library(dataset, path, max_rows)
    elif path is None:
        tasks, pages = world_tasks(seed, hops), lambda: world_of(seed).pages
    else:
        raise ValueError(f'path is {path!r}. Say which data set it holds: dataset="twowiki".')
    source = LocalIndex(pages) if provider == "local" else WebSearch(provider, provider_url)
    key = os.environ.get(judge_key_env)
    judge = OpenAIModel(judge_model, judge_url, api_key=key) if judge_model else None
    own = {"source": source, "max_calls": max_calls, "max_tokens": max_tokens}
    environment = ResearchEnvironment(
        tasks=tasks,
        rewards=[answered(judge), metric(cited)],
        episode=type("Research", (Research,), own),
        # Who has spent the budget can still answer, and be told so when it is forgotten.
        max_turns=max_calls + 5,
        system_prompt=SYSTEM_PROMPT.format(max_calls=max_calls, max_tokens=max_tokens),
        oracle=_solve,
    )
    environment.source, environment.judge_model = source, judge
    return environment


def _solve(task: Task) -> list[ToolCall]:
    pages, [answer, *_] = texts(task.metadata["support"]), texts(task.reference)
    cite = call("answer", answer=answer, citations=[*pages])
    return [*(call("open", page=page) for page in pages), cite]
