"""Token ids become text through the tokenizer.json of a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from strop.errors import ConfigError
from strop.review.vocabulary import read_vocabulary
from strop.trajectory_file import TrajectoryWriter
from tests.sdk.cli.command import strop
from tests.sdk.trajectories import a_trajectory, prompt_segment, sampled_segment

BYTE_LEVEL = {
    "model": {"type": "BPE", "vocab": {"Hello": 0, "Ġworld": 1, "Ċ": 2, "Ã©": 3, "Ã": 4}},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [{"id": 9, "content": "<|im_end|>"}],
}
PIECES = {
    "model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁the", -1.0], ["<0x0A>", -2.0]]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}]},
}


def vocabulary_file(folder: Path, document: Any) -> Path:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document))
    return path


def test_byte_level_tokens_are_read(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(vocabulary_file(tmp_path, BYTE_LEVEL))

    assert [vocabulary.text(number) for number in range(5)] == [
        "Hello",
        " world",
        "\n",
        "é",
        "\ufffd",
    ]
    assert vocabulary.text(9) == "<|im_end|>"


def test_pieces_and_byte_fallback_are_read_from_a_folder(tmp_path: Path) -> None:
    vocabulary_file(tmp_path, PIECES)
    vocabulary = read_vocabulary(tmp_path)

    assert [vocabulary.text(number) for number in range(3)] == ["<unk>", " the", "\n"]


def test_unknown_tokens_keep_their_number(tmp_path: Path) -> None:
    assert read_vocabulary(vocabulary_file(tmp_path, BYTE_LEVEL)).text(77) == "⟨77⟩"


@pytest.mark.parametrize("document", [{}, [], {"model": None}, {"model": {"vocab": {"a": "b"}}}])
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, document: Any) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        read_vocabulary(vocabulary_file(tmp_path, document))


def test_the_viewer_shows_tokens_as_text(tmp_path: Path) -> None:
    tokenizer = vocabulary_file(tmp_path, BYTE_LEVEL)
    path = tmp_path / "t.jsonl"
    with TrajectoryWriter(path) as writer:
        writer.write(a_trajectory(prompt_segment(None, 5), sampled_segment(0, 0, 1, 9)))

    finished = strop("eval", "view", path, "--tokenizer", tokenizer)

    assert "Hello world<|im_end|>" in finished.stdout
