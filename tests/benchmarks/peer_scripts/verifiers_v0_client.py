"""Chat calls through the client of `verifiers` (v0 API): the one of `openai` over httpx."""

from calls import MOST_TOKENS, measure
from verifiers.clients import OpenAIChatCompletionsClient
from verifiers.types import ClientConfig, SystemMessage, UserMessage


def open_client(base_url):
    """Its own defaults, apart from the address."""
    client = OpenAIChatCompletionsClient(ClientConfig(api_base_url=base_url, api_key_var="NO_KEY"))
    sampling = {"temperature": 1.0, "max_tokens": MOST_TOKENS}

    async def ask(system, text):
        messages = [SystemMessage(content=system), UserMessage(content=text)]
        response = await client.get_response(messages, "tiny", sampling)
        return response.message.content

    return ask, client.close


measure(open_client)
