"""A trajectory file that somebody else wrote: read exactly, or refused by name; never a hang."""

import contextlib
import copy
import fcntl
import json
import os
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop import Message, Task
from strop.errors import TrajectoryFileError, UnwritableError
from strop.trajectory_file import TrajectoryReader, TrajectoryWriter, read_trajectories
from strop.trajectory_json import decode_line, encode_line, pack_numbers, unpack_numbers
from tests.descriptors import open_descriptors
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment

DOCUMENT: dict[str, Any] = json.loads(encode_line(a_trajectory()))
TEXT = st.text(st.characters(categories=None)) | st.sampled_from(
    ["\x00", "\ud800", "\udfff\ud800", "\u2028\u2029\x85", "\U0001f600", "\r\n", "\\", '"', ""]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a document something stands, the document itself included."""
    yield place
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*place, key))


def with_other(place: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(DOCUMENT)
    if not place:
        return value
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return document


def without(place: tuple[Any, ...]) -> Any:
    document: Any = copy.deepcopy(DOCUMENT)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    return document


ODD: list[Any] = [None, 5, -1, 1.5, True, "x", "é", [], {}, [[]], [5], {"a": 1}, [{}], 10**30]


@pytest.mark.parametrize("value", ODD, ids=map(str, ODD))
def test_another_value_anywhere_is_read_or_refused_and_nothing_else(value: Any) -> None:
    refused_count = 0
    for place in places(DOCUMENT):
        try:
            trajectory = decode_line(json.dumps(with_other(place, value)).encode())
        except TrajectoryFileError:
            refused_count += 1
            continue
        # Every walk over the graph ends.
        assert len(list(trajectory.leaves())) <= len(trajectory.segments)
    assert refused_count > 5


def test_a_field_that_is_missing_is_refused_unless_it_may_be() -> None:
    optional = []
    for place in places(DOCUMENT):
        if not place or isinstance(place[-1], int):
            continue
        try:
            decode_line(json.dumps(without(place)).encode())
        except TrajectoryFileError:
            continue
        optional.append(place[-1])

    assert {
        "schema",
        "attempt",
        "segments",
        "seats",
        "outcome",
        "role",
        "content",
        "kind",
    }.isdisjoint(optional)


@settings(max_examples=200)
@given(st.sampled_from(sorted(places(DOCUMENT), key=repr)), JSON)
def test_any_json_anywhere_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    with contextlib.suppress(TrajectoryFileError):
        assert decode_line(json.dumps(with_other(place, value)).encode()).segments is not None


@pytest.mark.parametrize("parent", [1, 2, -1, 99, "0", 0.0, True, [0]])
def test_a_parent_that_does_not_come_before_its_child_is_refused(parent: Any) -> None:
    # A circle among the parents would make every walk to the root endless.
    for index in (0, 1):
        document = with_other(("segments", index, "parent"), parent)
        with pytest.raises(TrajectoryFileError, match="parent"):
            decode_line(json.dumps(document).encode())


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_every_graph_whose_parents_come_first_is_read_as_it_was_written(parents: list[int]) -> None:
    segments = [prompt_segment(None, 1)]
    segments += [
        sampled_segment(min(parent, index), index + 2) for index, parent in enumerate(parents)
    ]

    found = decode_line(encode_line(a_trajectory(*segments)))

    assert [each.parent for each in found.segments] == [each.parent for each in segments]
    trained = sum(sum(sample.mask) for sample in found.to_samples())
    # Each sampled token is trained on exactly once, however many paths share it.
    assert trained == len(parents)
    for leaf in found.leaves():
        path = found.path(leaf)
        assert path[0] == found.segments[0]
        assert path[-1] == found.segments[leaf]


@given(TEXT, JSON, st.dictionaries(TEXT, JSON, max_size=3), TEXT)
def test_odd_texts_and_numbers_come_back_exactly(
    prompt: str, reference: Any, metadata: dict[str, Any], answer: str
) -> None:
    task = Task("7", prompt, reference, metadata, "train")
    trajectory = a_trajectory(
        prompt_segment(None, 1, text=prompt), sampled_segment(0, 2, text=answer), task=task
    )

    line = encode_line(trajectory)
    found = decode_line(line)

    assert line.isascii()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert encode_line(found) == line
    assert found.task == task
    assert found.task.digest == task.digest
    assert found.text == answer


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_token_ids_come_back_exactly(numbers: list[int]) -> None:
    assert unpack_numbers("i", pack_numbers(array("i", numbers))) == array("i", numbers)


@given(st.lists(st.floats(width=32)))
def test_logprobs_come_back_bit_by_bit(numbers: list[float]) -> None:
    packed = array("f", numbers)

    assert unpack_numbers("f", pack_numbers(packed)).tobytes() == packed.tobytes()


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAA", "A===", "é", "AAAA AAAA", "AAAA\n", "!!!!"])
def test_packed_numbers_of_a_wrong_length_or_alphabet_are_refused(text: str) -> None:
    document = with_other(("segments", 0, "token_ids"), text)
    if text == "":
        assert decode_line(json.dumps(document).encode()).segments[0].token_ids == array("i")
        return
    with pytest.raises(TrajectoryFileError, match="incomplete"):
        decode_line(json.dumps(document).encode())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b"{",
        b"\xff\xfe\n",
        b"\x00" * 100 + b"\n",
        b"[" * 100_000 + b"\n",
        b'{"schema": ' + b"9" * 5000 + b"}\n",
        b'{"schema": "strop.trajectory/1"}\n',
        b'{"schema": "strop.trajectory/2"}\n',
        b'{"schema": ["strop.trajectory/1"]}\n',
    ],
    ids=range(13),
)
def test_a_line_that_is_no_trajectory_is_refused_with_its_number(
    line: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(encode_line(a_trajectory()) + line.rstrip(b"\n") + b"\n")

    with pytest.raises(TrajectoryFileError, match=r"t\.jsonl, line 2: "):
        read_trajectories(path)


@given(st.integers(0, 10_000), st.binary(max_size=3))
def test_a_file_cut_anywhere_gives_every_whole_line_and_tells_of_the_torn_one(
    tmp_path_factory: pytest.TempPathFactory, cut: int, tail: bytes
) -> None:
    line = encode_line(a_trajectory())
    content = (line * 3)[: cut % (3 * len(line))]
    path = tmp_path_factory.getbasetemp() / f"cut-{os.getpid()}.jsonl"
    path.write_bytes(content)
    reader = TrajectoryReader(path)

    assert len(list(reader)) == content.count(b"\n")

    is_torn = bool(content) and not content.endswith(b"\n")
    assert (reader.torn is not None) == is_torn
    with TrajectoryWriter(path) as writer:
        writer.write(a_trajectory())
    assert path.read_bytes() == line * (content.count(b"\n") + 1)


def test_a_torn_line_longer_than_any_block_is_cut_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = encode_line(a_trajectory())
    path.write_bytes(line + b"x" * 300_000)

    TrajectoryWriter(path).close()

    assert path.read_bytes() == line


def test_a_second_writer_is_refused_until_the_first_is_closed_or_killed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    code = f"""
import time
from pathlib import Path
from strop.trajectory_file import TrajectoryWriter
writer = TrajectoryWriter(Path({str(path)!r}))
print("open", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(TrajectoryFileError, match="being written by another run"):
            TrajectoryWriter(path)
        child.send_signal(signal.SIGKILL)
        child.wait()

    with TrajectoryWriter(path) as writer:
        writer.write(a_trajectory())
        with pytest.raises(TrajectoryFileError, match="another run"):
            TrajectoryWriter(path)
    TrajectoryWriter(path).close()


def test_a_refused_writer_leaves_no_descriptor_and_no_change(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"torn")
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        before = open_descriptors()
        for _ in range(5):
            with pytest.raises(TrajectoryFileError):
                TrajectoryWriter(path)
        assert open_descriptors() <= before
    assert path.read_bytes() == b"torn"


def test_a_writer_that_is_closed_writes_nothing_more(tmp_path: Path) -> None:
    writer = TrajectoryWriter(tmp_path / "t.jsonl")
    writer.close()
    writer.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        writer.write(a_trajectory())
    assert (tmp_path / "t.jsonl").read_bytes() == b""


def test_what_cannot_be_encoded_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    with TrajectoryWriter(tmp_path / "t.jsonl") as writer:
        writer.write(a_trajectory())
        with pytest.raises(UnwritableError, match=r"task '7' cannot be written: its `outcome\.x`"):
            writer.write(a_trajectory(outcome={"x": object()}))
        writer.write(a_trajectory())

    assert len(read_trajectories(tmp_path / "t.jsonl")) == 2


def test_a_trajectory_without_its_reference_never_holds_it() -> None:
    secret = "the-hidden-answer"
    task = Task("7", "ask", {"answer": secret}, {}, "train")

    line = encode_line(a_trajectory(task=task), has_reference=False)

    assert secret.encode() not in line
    assert decode_line(line).task.reference is None


@pytest.mark.parametrize("field", ["attempt", "environment", "timing", "task", "failure"])
def test_a_field_that_a_later_writer_adds_is_passed_over(field: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    if document[field] is None:
        document[field] = {"type": "X", "boundary": "model", "message": "m", "traceback": ""}
    document[field]["added_later"] = 1
    document["added_later"] = {"x": 1}

    assert decode_line(json.dumps(document).encode()).attempt == a_trajectory().attempt


def test_messages_of_every_role_come_back() -> None:
    from strop.types import Part, ToolCall

    messages = (
        Message("system", ""),
        Message("user", (Part("text", "a"), Part("image", url="data:x", media_type="image/png"))),
        Message("assistant", "", (ToolCall("1", "f", "{bad"),), reasoning="hm"),
        Message("tool", "x", tool_call_id="1", name="f"),
        Message("user", (), name="ada"),
    )
    task = Task("7", messages, None, {}, "train")

    assert decode_line(encode_line(a_trajectory(task=task))).task.prompt == messages
