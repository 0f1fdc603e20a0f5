"""The test's model server runs as a process of its own, for demonstrations and measurements."""

from __future__ import annotations

from strop.models.openai import OpenAIModel
from tests.model_server import serve_in_a_process
from tests.sdk.models.conftest import ask


async def test_a_server_in_a_process_answers_like_one_in_the_test() -> None:
    with serve_in_a_process("--policy", "echo", "--model", "parrot") as base_url:
        model = await OpenAIModel.discover(base_url)
        completion = await model.complete(*ask("hello"))
        await model.close()

    assert (model.name, completion.text) == ("parrot", "hello")
