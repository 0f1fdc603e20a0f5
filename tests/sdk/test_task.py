"""Tasks are plain data, and task sets load nothing before its turn."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import Message, Part, Task, TaskSet, ToolCall
from strop.errors import SettingsError, UnwritableError
from strop.testing.policies import json_equal
from strop.types import JSON

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def make(index: int, rng: random.Random) -> Task:
    number = rng.randrange(10**9)
    return Task(str(index), f"Say {number}", number)


def test_a_string_prompt_is_one_user_message() -> None:
    assert Task("1", "Hello").prompt == (Message("user", "Hello"),)


@pytest.mark.parametrize(
    "prompt",
    [
        ["Hello"],
        [Message("system", "Be kind."), "Hello"],
        [{"role": "user", "content": "Hello"}],
        [Message("user", None)],  # type: ignore[arg-type]
        (Message("user", ("Hello",)),),  # type: ignore[arg-type]
    ],
)
def test_a_prompt_that_holds_no_messages_is_refused(prompt: Any) -> None:
    with pytest.raises(TypeError, match=r"prompt of the task '1' holds .*, which is no Message"):
        Task("1", prompt)


@given(reference=JSON_VALUES, metadata=st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_a_task_comes_back_from_json_exactly(
    reference: object, metadata: dict[str, object]
) -> None:
    task = Task("k\ud800", "p\u2028\x00", reference, metadata, "train")  # type: ignore[arg-type]

    again = Task.from_json(json.loads(json.dumps(task.to_json())))

    assert again.digest == task.digest
    assert json_equal(again.to_json(), task.to_json())


def test_messages_of_every_form_come_back() -> None:
    prompt = [
        Message("system", "Be brief."),
        Message("user", (Part("text", text="See:"), Part("image", url="data:image/png;base64,AA"))),
        Message("assistant", "", (ToolCall("1", "look", '{"at": "it"}'),), reasoning="hm"),
        Message("tool", "a cat", tool_call_id="1", name="look"),
    ]
    task = Task("1", prompt)

    assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task


def test_big_integers_and_missing_values_survive() -> None:
    metadata: dict[str, JSON] = {
        "big": 2**200,
        "none": None,
        "empty": {},
        "mixed": [1, 1.0, True, "1"],
    }

    again = Task.from_json(json.loads(json.dumps(Task("1", "x", None, metadata).to_json())))

    assert json_equal(dict(again.metadata), metadata)


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    one = Task("1", "x", {"a": 1, "b": 2})
    other = Task("1", "x", {"b": 2, "a": 1})

    assert one.digest == other.digest != Task("1", "x", {"a": 1, "b": 3}).digest


def test_generated_tasks_are_a_function_of_their_index() -> None:
    tasks = TaskSet.generate(make).named("train")

    assert [task.key for task in islice(tasks, 3)] == ["0", "1", "2"]
    assert tasks[1_000_000] == tasks.get("1000000")
    assert list(islice(tasks, 5))[4] == tasks[4]


def test_splits_and_seeds_give_other_tasks() -> None:
    tasks = TaskSet.generate(make)
    variants = [tasks.named("train"), tasks.named("eval"), TaskSet.generate(make, seed=1)]

    assert len({each[0].reference for each in variants}) == 3


def test_generated_tasks_are_the_same_in_another_process() -> None:
    code = (
        "from tests.sdk.test_task import make\n"
        "from strop import TaskSet\n"
        "print(TaskSet.generate(make).named('train')[5].digest)"
    )

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert printed.strip() == TaskSet.generate(make).named("train")[5].digest


def test_an_infinite_set_has_no_length_and_cannot_be_shuffled() -> None:
    tasks = TaskSet.generate(make)

    assert tasks.is_infinite
    with pytest.raises(TypeError, match="no length"):
        len(tasks)
    with pytest.raises(ValueError, match="cannot be shuffled"):
        tasks.shuffled(0)


def test_a_sized_generated_set_ends() -> None:
    tasks = TaskSet.generate(make, 3)

    assert len(tasks) == len(list(tasks)) == 3
    with pytest.raises(IndexError):
        tasks[3]
    with pytest.raises(KeyError):
        tasks.get("3")


@pytest.mark.parametrize("key", ["-1", "01", "x", "", "\u0661"])
def test_only_a_plain_index_is_the_key_of_a_generated_task(key: str) -> None:
    with pytest.raises(KeyError):
        TaskSet.generate(make).get(key)


def test_a_lazy_set_loads_only_what_is_asked_for() -> None:
    loaded = []

    def load() -> Iterator[Task]:
        for index in range(1_000):
            loaded.append(index)
            yield Task(str(index), "x")

    tasks = TaskSet(load)

    assert tasks[2].key == "2"
    assert tasks.get("4").key == "4"
    assert max(loaded) == 4
    assert [task.key for task in islice(tasks, 2)] == ["0", "1"]


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("start", [0, 5])
def test_a_key_that_comes_twice_is_refused_when_it_is_drawn(is_lazy: bool, start: int) -> None:
    listed = [Task(str(n % 1_007), "x") for n in range(2_000)]
    tasks = TaskSet((lambda: iter(listed)) if is_lazy else listed, split="eval")

    draws = tasks.draws(start)

    assert [task.key for task, _ in islice(draws, 1_007)] == [
        str(n % 1_007) for n in range(start, start + 1_007)
    ]
    told = f"tasks {start} and {start + 1_007} of the split 'eval' have one key, '{start}'"
    with pytest.raises(SettingsError, match=told):
        next(draws)


def test_keys_are_told_apart_where_their_hashes_are_not() -> None:
    tasks = TaskSet([Task(_Colliding(text), "x") for text in "aba"])

    draws = tasks.draws()

    assert [task.key for task, _ in islice(draws, 2)] == ["a", "b"]
    with pytest.raises(SettingsError, match="tasks 0 and 2"):
        next(draws)


class _Colliding(str):
    __slots__ = ()

    def __hash__(self) -> int:
        return 7


@pytest.mark.parametrize("kind", ["list", "lazy", "generated", "infinite"])
@pytest.mark.parametrize("part", [slice(0, 2), slice(1, 6, 2), slice(2, 2)])
def test_a_slice_is_a_set_of_its_tasks_and_loads_no_other(kind: str, part: slice) -> None:
    made: list[int] = []

    def note(index: int) -> Task:
        made.append(index)
        return Task(str(index), f"task {index}")

    sets = {
        "list": TaskSet([Task(str(n), f"task {n}") for n in range(8)]),
        "lazy": TaskSet(lambda: map(note, range(8))),
        "generated": TaskSet.generate(lambda index, rng: note(index), 8),
        "infinite": TaskSet.generate(lambda index, rng: note(index)),
    }
    chosen = sets[kind].named("train")[part]

    assert [task.key for task in chosen] == [str(n) for n in range(8)[part]]
    assert {task.split for task in chosen} <= {"train"}
    assert max(made, default=0) < 6


def test_a_slice_from_the_end_needs_a_length() -> None:
    assert [t.key for t in TaskSet.generate(make, 5)[-2:]] == ["3", "4"]
    assert [t.key for t in TaskSet([Task("a", ""), Task("b", "")])[::-1]] == ["b", "a"]
    for endless in (slice(-2, None), slice(3, None), slice(0, 4, -1)):
        with pytest.raises(ValueError, match="Give the slice an end"):
            TaskSet.generate(make)[endless]


def test_a_number_that_no_json_reader_takes_is_refused_with_its_cause() -> None:
    huge = Task("1", "x", reference=10**5000)

    with pytest.raises(UnwritableError, match=r"more than 4300 digits.*hex"):
        _ = huge.digest
    assert Task("1", "x", reference=10**4000).digest


def test_a_one_shot_iterator_is_refused() -> None:
    with pytest.raises(TypeError, match="a function that returns a fresh iterable"):
        TaskSet(iter([Task("1", "x")]))  # type: ignore[arg-type]


def test_a_key_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        TaskSet([Task("1", "x")]).get("2")
    with pytest.raises(IndexError):
        TaskSet(lambda: [Task("1", "x")])[1]


def test_shuffling_keeps_the_tasks_and_repeats_for_a_seed() -> None:
    tasks = TaskSet([Task(str(i), "x") for i in range(50)]).named("eval")

    shuffled = [task.key for task in tasks.shuffled(3)]

    assert shuffled == [task.key for task in tasks.shuffled(3)]
    assert sorted(shuffled) == sorted(task.key for task in tasks) != shuffled
    assert {task.split for task in tasks.shuffled(3)} == {"eval"}


def test_naming_a_set_stamps_the_split_on_its_tasks() -> None:
    tasks = TaskSet([Task("1", "x", split="odd")]).named("eval")

    assert tasks[0].split == next(iter(tasks)).split == tasks.get("1").split == "eval"
