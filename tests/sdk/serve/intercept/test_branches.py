"""Calls that a program makes at the same time are sampled at the same time, each on its branch."""

import asyncio
from pathlib import Path
from typing import Any

from strop import ScriptedModel
from strop.errors import ContextOverflowError
from tests.sdk.serve.intercept.programs import environment_of, output, play, texts


async def test_concurrent_calls_are_sampled_at_the_same_time_each_on_its_branch() -> None:
    text = """
    import threading
    said = {}
    def talk(name):
        messages = [{"role": "user", "content": name}]
        for _ in range(2):
            said[name] = say(call(messages))
            messages += [{"role": "assistant", "content": said[name]},
                         {"role": "user", "content": "more"}]
    threads = [threading.Thread(target=talk, args=(name,)) for name in "abcd"]
    [each.start() for each in threads]
    [each.join() for each in threads]
    print(sorted(said.items()))
    """
    together = asyncio.Barrier(4)

    async def policy(messages: Any) -> str:
        # Nobody is answered before all four are asked.
        async with asyncio.timeout(120):
            await together.wait()
        return f"{messages[0].text}{len(messages)}"

    trajectory = await play(environment_of(text), ScriptedModel(policy))
    assert trajectory.failure is None, trajectory.failure
    assert output(trajectory) == str([(name, f"{name}3") for name in "abcd"])
    leaves = list(trajectory.leaves())
    assert len(leaves) == 4
    assert trajectory.turn_count == 8
    for leaf in leaves:
        path = [each.messages[0].text for each in trajectory.path(leaf)]
        assert path == [path[0], f"{path[0]}1", "more", f"{path[0]}3"]


async def test_a_slow_branch_does_not_hold_up_a_quick_one() -> None:
    text = """
    import threading
    slow = threading.Thread(target=call, args=("slow",))
    slow.start()
    time.sleep(0.2)
    print(say(call("quick")), flush=True)
    call("go on")
    slow.join()
    """
    may_end = asyncio.Event()

    async def policy(messages: Any) -> str:
        if messages[0].text == "slow":
            async with asyncio.timeout(120):
                await may_end.wait()
        elif messages[0].text == "go on":
            may_end.set()
        return str(messages[0].text)

    trajectory = await play(environment_of(text), ScriptedModel(policy))
    assert trajectory.failure is None, trajectory.failure
    assert texts(trajectory)[0] == "quick"
    assert sorted(texts(trajectory)) == ["go on", "quick", "slow"]


async def test_no_branch_is_sampled_beyond_the_last_turn() -> None:
    text = """
    import threading
    threads = [threading.Thread(target=call, args=(str(n),)) for n in range(6)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    """
    asked: list[str] = []

    async def policy(messages: Any) -> str:
        asked.append(messages[0].text)
        await asyncio.sleep(0.5)
        return "x"

    trajectory = await play(environment_of(text, max_turns=2), ScriptedModel(policy))
    assert (trajectory.stop_reason, trajectory.turn_count) == ("max_turns", 2)
    assert len(asked) == 2


async def test_a_fault_of_one_branch_ends_the_others(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    text = f"""
    import threading
    threading.Thread(target=call, args=("slow",), daemon=True).start()
    wait_for({str(begun)!r})
    call("bad")
    """
    cancelled: list[str] = []

    async def policy(messages: Any) -> str:
        if messages[0].text == "bad":
            raise ContextOverflowError("too long")
        begun.touch()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append("slow")
            raise
        return "late"

    trajectory = await play(environment_of(text), ScriptedModel(policy))
    assert (trajectory.stop_reason, trajectory.turn_count) == ("context_overflow", 0)
    assert cancelled == ["slow"]


async def test_many_calls_at_once_are_each_answered() -> None:
    text = """
    import threading
    said = []
    threads = [threading.Thread(target=lambda n=n: said.append(say(call(str(n)))))
               for n in range(8)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    print(sorted(said))
    """
    trajectory = await play(environment_of(text))
    assert sorted(texts(trajectory)) == [f"{n}/1" for n in range(8)]
    assert output(trajectory) == str([f"{n}/1" for n in range(8)])
