"""Chat calls through the client of `verifiers` (v1 API), which relays JSON over httpx."""

from calls import MOST_TOKENS, measure
from verifiers.v1.clients import EvalClient, EvalClientConfig
from verifiers.v1.dialects.chat import ChatDialect
from verifiers.v1.types import SamplingConfig


def open_client(base_url):
    """Its own defaults, apart from the address."""
    client = EvalClient(EvalClientConfig(base_url=base_url, api_key_var="NO_KEY"))
    dialect, sampling = ChatDialect(), SamplingConfig()

    async def ask(system, text):
        body = {
            "model": "tiny",
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": text},
            ],
            "temperature": 1.0,
            "max_tokens": MOST_TOKENS,
        }
        response = await client.get_response(dialect, body, sampling)
        return response.raw["choices"][0]["message"]["content"]

    return ask, client.close


measure(open_client)
