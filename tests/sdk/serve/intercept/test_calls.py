"""Which calls count: each once, retried or not; and only the program's own."""

import asyncio
from pathlib import Path

import pytest

from strop import Sampling, ScriptedModel
from tests.sdk.serve.intercept.programs import (
    BY_HAND,
    TASK,
    counter,
    environment_of,
    output,
    play,
    texts,
)
from tests.waiting import until


def slow_counter(delay_s: float, begun: Path | None = None) -> ScriptedModel:
    """Like `counter`, and takes its time; makes a file as soon as it is asked."""
    count = 0

    async def policy(messages: object) -> str:
        nonlocal count
        count += 1
        if begun is not None:
            begun.touch()
        said = f"answer {count}"
        await asyncio.sleep(delay_s)
        return said

    return ScriptedModel(policy)


async def test_an_identical_second_request_is_sampled_afresh() -> None:
    text = "print(say(call('same')), '|', say(call('same')))"
    trajectory = await play(environment_of(text), counter())
    assert texts(trajectory) == ["answer 1", "answer 2"]
    assert output(trajectory) == "answer 1 | answer 2"


async def test_identical_requests_at_the_same_time_are_each_sampled() -> None:
    text = """
    import threading
    threads = [threading.Thread(target=call, args=("same",)) for _ in range(3)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    """
    trajectory = await play(environment_of(text), slow_counter(0.2))
    assert texts(trajectory) == ["answer 1", "answer 2", "answer 3"]


RETRIES = {
    "no marker, connection dropped": "",
    "x-stainless-retry-count": '{"x-stainless-retry-count": "1"}',
    "x-strop-try": '{"x-strop-try": "1"}',
}


@pytest.mark.parametrize("headers", RETRIES.values(), ids=RETRIES.keys())
async def test_a_call_that_is_tried_again_counts_once(headers: str, tmp_path: Path) -> None:
    begun, tried_again = tmp_path / "begun", tmp_path / "tried again"
    text = f"""
    connection = call("same", is_read=False)
    wait_for({str(begun)!r})
    connection.close()
    time.sleep(0.5)
    connection = call("same", headers={headers or "{}"}, is_read=False)
    open({str(tried_again)!r}, "w").close()
    print(json.load(connection.getresponse())["choices"][0]["message"]["content"])
    """
    count = 0

    async def policy(messages: object) -> str:
        nonlocal count
        count += 1
        begun.touch()
        await until(tried_again.exists)
        # What is on its way arrives meanwhile.
        await asyncio.sleep(0.5)
        return f"answer {count}"

    trajectory = await play(environment_of(text), ScriptedModel(policy))
    assert texts(trajectory) == ["answer 1"]
    assert output(trajectory) == "answer 1"


async def test_a_marked_retry_of_an_answered_call_gets_the_same_answer() -> None:
    text = """
    print(say(call("same")), say(call("same", headers={"x-stainless-retry-count": "1"})))
    print(say(call("same")), say(call("same", headers={"x-stainless-retry-count": "2"})))
    """
    trajectory = await play(environment_of(text), counter())
    assert output(trajectory) == "answer 1 answer 1\nanswer 2 answer 2"
    assert texts(trajectory) == ["answer 1", "answer 2"]


async def test_an_idempotency_key_names_a_call_whatever_the_try() -> None:
    text = """
    key = {"idempotency-key": "k1"}
    print(say(call("same", headers=key)), say(call("same", headers=key)))
    print(say(call("same", headers={"idempotency-key": "k2"})))
    """
    trajectory = await play(environment_of(text), counter())
    assert output(trajectory) == "answer 1 answer 1\nanswer 2"
    assert trajectory.turn_count == 2


async def test_a_call_that_is_given_up_before_its_turn_is_never_sampled(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    text = f"""
    import threading
    first = threading.Thread(target=call, args=("first",))
    first.start()
    wait_for({str(begun)!r})
    call("given up", is_read=False).close()
    first.join()
    print(say(call("last")))
    """
    environment, model = environment_of(text), slow_counter(1.0, begun)
    # A trainer by hand takes one call after the other; the given up one never has its turn.
    async with environment, environment.start(TASK) as episode:
        while not episode.is_ended:
            await episode.step(await model.complete(episode.messages, episode.tools, Sampling()))
        trajectory = await episode.score()
    assert texts(trajectory) == ["answer 1", "answer 2"]
    assert output(trajectory) == "answer 2"


async def test_a_call_without_the_secret_is_refused() -> None:
    text = "call('a'); print(call('b', key='sk-other')[0], call('b', key='')[0])"
    trajectory = await play(environment_of(text))
    assert texts(trajectory) == ["a/1"]
    assert output(trajectory) == "401 401"


CHILD = """
import subprocess, sys
call("mine")
child = subprocess.run(
    [sys.executable, "-c", open("by_hand.py").read() + "print(call('stray'))"],
    capture_output=True, text=True)
print(child.stdout)
call("mine too")
"""


async def test_calls_of_child_processes_do_not_enter() -> None:
    trajectory = await play(environment_of(_with_source(CHILD)))
    assert trajectory.failure is None
    assert texts(trajectory) == ["mine/1", "mine too/1"]
    assert "403" in output(trajectory)
    assert "a process that the episode's program started" in output(trajectory)


async def test_calls_of_child_processes_enter_where_that_is_allowed() -> None:
    trajectory = await play(environment_of(_with_source(CHILD), callers="any"))
    assert texts(trajectory) == ["mine/1", "stray/1", "mine too/1"]


async def test_calls_after_the_programs_end_do_not_enter() -> None:
    text = """
    call("mine")
    if os.fork() == 0:
        os.setsid()
        for _ in range(20):
            call("stray")
            time.sleep(0.05)
    """
    trajectory = await play(environment_of(text))
    assert texts(trajectory) == ["mine/1"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("n=2", "Make one call for each completion"),
        ("max_tokens=0", "integer above 0"),
        ("tools=[{'type': 'web_search'}]", "Only functions can be offered"),
    ],
)
async def test_a_call_that_cannot_be_had_is_refused_and_is_no_turn(
    fields: str, message: str
) -> None:
    text = f"call('a'); print(call('b', {fields}))"
    trajectory = await play(environment_of(text))
    assert texts(trajectory) == ["a/1"]
    assert output(trajectory).startswith("(400")
    assert message in output(trajectory)


async def test_bodies_that_are_no_json_and_unknown_paths_are_refused() -> None:
    text = """
    import urllib.request, urllib.error
    call("a")
    def ask(path, body):
        url = os.environ["OPENAI_BASE_URL"] + path
        headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
        try:
            urllib.request.urlopen(urllib.request.Request(url, body, headers))
        except urllib.error.HTTPError as error:
            print(error.code, end=" ")
    ask("/chat/completions", b"{half")
    ask("/chat/completions", b"[]")
    ask("/chat/completions", b'{"messages": [{"role": "user"}], "tools": 3}')
    ask("/embeddings", b"{}")
    """
    trajectory = await play(environment_of(text))
    assert output(trajectory) == "400 400 400 404"


def _with_source(text: str) -> str:
    """A program that lays its own tools down where its children find them."""
    return f"open('by_hand.py', 'w').write({BY_HAND!r})\n{text}"
