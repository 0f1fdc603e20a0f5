"""A prompt's token ids from llama.cpp, whose replies hold the prompt only as text."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace

from strop.models.endpoint import Endpoint, Reply
from strop.models.reply.chat import read_chat
from strop.types import JSON, Completion


async def complete_with_prompt_ids(
    endpoint: Endpoint, base_url: str, body: Mapping[str, JSON], seed: int | None
) -> Completion:
    """Complete, then have the engine tell the ids of the very text that it was prompted with.

    Ids whose number is not the one that the engine counted, as with images, are left out.

    Raises:
        ModelError: As `strop.errors` says.
    """
    prompts: list[str] = []

    def read(reply: Reply) -> Completion:
        verbose = reply.document.get("__verbose")
        prompt = verbose.get("prompt") if isinstance(verbose, dict) else None
        prompts.append(prompt if isinstance(prompt, str) else "")
        return read_chat(reply)

    completion = await endpoint.call(body, read, seed=seed)
    if not prompts[-1] or completion.usage is None or completion.prompt_token_ids is not None:
        return completion
    url = f"{base_url.removesuffix('/v1')}/tokenize"
    for has_special in (True, False):
        question: dict[str, JSON] = {"content": prompts[-1], "add_special": has_special}
        found = (await endpoint.ask(url, question | {"parse_special": True})).get("tokens")
        if isinstance(found, list) and len(found) == completion.usage.prompt_tokens:
            return replace(completion, prompt_token_ids=array("i", found))
    return completion
