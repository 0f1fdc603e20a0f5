"""What was sampled is found again by who said it."""

from __future__ import annotations

from array import array
from dataclasses import replace

from strop.models.renderer import TokenMemory
from strop.types import Message
from tests.sdk.models.renderer.conversations import MOVE

ASKED = Message("user", "Say hi.")


def ids(*numbers: int) -> array[int]:
    return array("i", numbers)


def test_a_conversation_that_goes_on_is_found() -> None:
    memory = TokenMemory()
    hi = Message("assistant", "hi")
    memory.add([ASKED, hi], [MOVE], ids(1, 2))

    known = memory.find([ASKED, hi, Message("user", "Again.")], [MOVE])

    assert known is not None
    assert known.ids == ids(1, 2)
    assert len(known.messages) == 2


def test_two_attempts_that_said_the_same_with_other_ids_are_told_apart() -> None:
    memory = TokenMemory()
    first, second = Message("assistant", "hi"), Message("assistant", "hi")
    memory.add([ASKED, first], (), ids(1, 2))
    memory.add([ASKED, second], (), ids(1, 3, 4))

    for own, expected in ((first, ids(1, 2)), (second, ids(1, 3, 4))):
        known = memory.find([ASKED, own, Message("user", "Again.")], ())
        assert known is not None
        assert known.ids == expected


def test_a_conversation_that_came_over_a_wire_is_found_by_its_text() -> None:
    memory = TokenMemory()
    memory.add([ASKED, Message("assistant", "hi")], (), ids(1, 2))

    assert memory.find([replace(ASKED), Message("assistant", "hi")], ()) is not None


def test_another_past_or_other_tools_are_another_conversation() -> None:
    memory = TokenMemory()
    hi = Message("assistant", "hi")
    memory.add([ASKED, hi], (), ids(1, 2))

    assert memory.find([Message("user", "Say ho."), hi], ()) is None
    assert memory.find([ASKED, hi], [MOVE]) is None
    assert memory.find([ASKED], ()) is None
    assert memory.find([], ()) is None


def test_what_was_sampled_longest_ago_is_forgotten_first() -> None:
    memory = TokenMemory(max_tokens=5)
    said = [Message("assistant", str(index)) for index in range(4)]
    for message in said:
        memory.add([ASKED, message], (), ids(1, 2))

    found = [memory.find([ASKED, message], ()) is not None for message in said]

    assert found == [False, False, True, True]
