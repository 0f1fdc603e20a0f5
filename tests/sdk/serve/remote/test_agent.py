"""A program plays behind HTTP: interception over there, the model over here."""

from strop import Sampling, ScriptedModel
from tests.sdk.serve.intercept.programs import TASK, environment_of, output, texts
from tests.sdk.serve.remote.serving import serving


async def test_a_programs_calls_reach_the_model_of_a_remote_driver() -> None:
    seen: list[Sampling] = []

    class Watched(ScriptedModel):
        async def complete(self, messages, tools, sampling):  # type: ignore[no-untyped-def]
            seen.append(sampling)
            return await super().complete(messages, tools, sampling)

    text = """
    tools = [{"type": "function", "function": {"name": "act"}}]
    first = say(call("one", max_tokens=5, stop=["x"], tools=tools))
    said = {"role": "assistant", "content": first}
    print(say(call([{"role": "user", "content": "one"}, said, {"role": "user", "content": "two"}])))
    """
    model = Watched(lambda messages, tools: f"{messages[-1].text}/{len(messages)}/{len(tools)}")
    with serving(environment_of(text)) as server:
        async with server.connect() as remote:
            trajectory = await remote.rollout(TASK, model)
    assert trajectory.failure is None
    assert texts(trajectory) == ["one/1/1", "two/3/0"]
    assert output(trajectory) == "two/3/0"
    assert (seen[0].max_tokens, seen[0].stop, seen[1].max_tokens) == (5, ("x",), None)
    assert len(list(trajectory.leaves())) == 1
