"""The graph of an episode holds exactly the tokens that the engine saw."""

import random
from array import array

from strop.recorder import Recorder
from strop.trajectory import Segment, path_indexes
from strop.types import Completion, Message

SEAT = "policy"


def completion(text: str, prompt: list[int] | None, sampled: list[int] | None) -> Completion:
    return Completion(
        Message("assistant", text),
        prompt_token_ids=None if prompt is None else array("i", prompt),
        token_ids=None if sampled is None else array("i", sampled),
        logprobs=None if sampled is None else array("f", [-1.0] * len(sampled)),
    )


def user(text: str) -> Message:
    return Message("user", text)


def tokens_on_path(segments: tuple[Segment, ...], leaf: int) -> list[int]:
    path = [segments[index] for index in path_indexes(segments, leaf)]
    return [token for segment in path for token in segment.token_ids or ()]


def test_a_prompt_that_grows_is_one_path() -> None:
    recorder = Recorder()
    recorder.observe(SEAT, [user("a")])
    recorder.commit(SEAT, completion("b", [1, 2], [3]))
    recorder.observe(SEAT, [user("c")])
    recorder.commit(SEAT, completion("d", [1, 2, 3, 9, 4], [5, 6]))

    segments = recorder.close()

    assert [segment.kind for segment in segments] == ["messages", "completion"] * 2
    assert [segment.parent for segment in segments] == [None, 0, 1, 2]
    assert [list(segment.token_ids or ()) for segment in segments] == [[1, 2], [3], [9, 4], [5, 6]]
    assert recorder.fork_count == 0


def test_tokens_that_an_engine_adds_alone_are_a_segment_without_messages() -> None:
    recorder = Recorder()
    recorder.observe(SEAT, [user("a")])
    recorder.commit(SEAT, completion("b", [1], [2]))
    recorder.commit(SEAT, completion("c", [1, 2, 7], [3]))

    segments = recorder.close()

    assert segments[2].messages == ()
    assert list(segments[2].token_ids or ()) == [7]
    assert tokens_on_path(segments, 3) == [1, 2, 7, 3]


def test_a_retokenised_history_forks_at_the_last_segment_that_agrees() -> None:
    recorder = Recorder()
    recorder.observe(SEAT, [user("a")])
    recorder.commit(SEAT, completion("b", [1, 2], [3, 4]))
    recorder.observe(SEAT, [user("c")])
    recorder.commit(SEAT, completion("d", [1, 2, 34, 5], [6]))

    segments = recorder.close()

    assert recorder.fork_count == 1
    assert segments[2].parent == 0
    assert [message.text for message in segments[2].messages] == ["b", "c"]
    assert tokens_on_path(segments, 1) == [1, 2, 3, 4]
    assert tokens_on_path(segments, 3) == [1, 2, 34, 5, 6]


def test_tokens_after_a_turn_without_them_start_a_path_of_their_own() -> None:
    recorder = Recorder()
    recorder.observe(SEAT, [user("a")])
    recorder.commit(SEAT, completion("b", None, None))
    recorder.observe(SEAT, [user("c")])
    recorder.commit(SEAT, completion("d", [1, 2, 3], [4]))

    segments = recorder.close()

    assert recorder.fork_count == 1
    assert segments[2].parent is None
    assert tokens_on_path(segments, 3) == [1, 2, 3, 4]


def test_turns_without_tokens_make_one_path_without_forks() -> None:
    recorder = Recorder()
    for turn in range(3):
        recorder.observe(SEAT, [user(str(turn))])
        recorder.commit(SEAT, completion("x", None, None))

    segments = recorder.close()

    assert [segment.parent for segment in segments] == [None, 0, 1, 2, 3, 4]
    assert recorder.fork_count == 0


def test_a_last_observation_is_kept() -> None:
    recorder = Recorder()
    recorder.observe(SEAT, [user("a")])
    recorder.commit(SEAT, completion("b", None, None))
    recorder.observe(SEAT, [user("farewell")])

    assert recorder.close()[-1].messages == (user("farewell"),)
    assert len(recorder.close()) == 3


def test_a_folded_context_forks_where_it_differs() -> None:
    recorder = Recorder()
    recorder.observe(SEAT, [user("a")])
    recorder.commit(SEAT, completion("b", [1], [2]))
    recorder.observe(SEAT, [user("c")])
    recorder.commit(SEAT, completion("d", [1, 2, 3], [4]))
    recorder.rebase(SEAT, [user("a"), Message("assistant", "b"), user("summary")])
    recorder.commit(SEAT, completion("e", [1, 2, 8], [9]))

    segments = recorder.close()

    assert segments[4].parent == 1
    assert segments[4].messages == (user("summary"),)
    assert tokens_on_path(segments, 5) == [1, 2, 8, 9]
    assert recorder.fork_count == 0


def test_a_new_context_starts_at_a_root() -> None:
    recorder = Recorder()
    recorder.observe(SEAT, [user("a")])
    recorder.commit(SEAT, completion("b", [1], [2]))
    recorder.rebase(SEAT, [user("other")])
    recorder.commit(SEAT, completion("c", [5], [6]))

    assert [segment.parent for segment in recorder.close()] == [None, 0, None, 2]


def test_seats_have_paths_of_their_own() -> None:
    recorder = Recorder()
    for seat in ("white", "black"):
        recorder.observe(seat, [user(seat)])
        recorder.commit(seat, completion("move", [1], [2]))

    segments = recorder.close()

    assert [segment.seat for segment in segments] == ["white", "white", "black", "black"]
    assert [segment.parent for segment in segments] == [None, 0, None, 2]


def test_any_history_keeps_every_prompt_and_completion_exactly() -> None:
    dice = random.Random(5)
    for _ in range(200):
        recorder = Recorder()
        seen: list[list[int]] = []
        history: list[int] = []
        for turn in range(6):
            recorder.observe(SEAT, [user(str(turn))])
            if dice.random() < 0.3:
                history = [*history[: dice.randint(0, len(history))], dice.randrange(3)]
            prompt = history + [dice.randrange(9) for _ in range(dice.randint(1, 3))]
            sampled = [dice.randrange(9) for _ in range(dice.randint(0, 3))]
            recorder.commit(SEAT, completion("x", prompt, sampled))
            history = prompt + sampled
            seen.append(history)
        segments = recorder.close()
        ends = [i for i, segment in enumerate(segments) if segment.kind == "completion"]
        assert [tokens_on_path(segments, end) for end in ends] == seen
