"""Chat calls through a model of `inspect-ai` for OpenAI-compatible endpoints."""

import sys

from calls import MOST_TOKENS, measure
from inspect_ai.model import (
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    get_model,
)


def open_client(base_url):
    """As many connections as calls in flight; it takes few by default."""
    config = GenerateConfig(
        temperature=1.0, max_tokens=MOST_TOKENS, max_connections=int(sys.argv[2])
    )
    model = get_model("openai-api/local/tiny", base_url=base_url, api_key="none", config=config)

    async def ask(system, text):
        messages = [ChatMessageSystem(content=system), ChatMessageUser(content=text)]
        output = await model.generate(messages)
        return output.completion

    return ask, model.api.aclose


measure(open_client)
