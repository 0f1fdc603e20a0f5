"""The made-up land, and rows of data sets."""

import importlib.util
import json
import random
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from deep_research_env import load_environment
from deep_research_env.answer import answer_key
from deep_research_env.world import HOPS, World, world_of

from strop import Task
from strop.errors import ConfigError

TWOWIKI = {
    "_id": "q1",
    "question": "Where was the author of B born?",
    "answer": "Ulm",
    "context": [
        ["B", ["B is by A.", " It is long."]],
        ["A", ["A was born in Ulm."]],
        ["C", ["C."]],
    ],
    "supporting_facts": [["B", 0], ["A", 0], ["A", 0]],
}
COLUMNS = TWOWIKI | {
    "context": {"title": ["B", "A"], "sentences": [["B is by A."], ["A was born in Ulm."]]},
    "supporting_facts": {"title": ["B", "A"], "sent_id": [0, 0]},
}
STRATEGY = {
    "qid": "s1",
    "term": "Ulm",
    "description": "A town",
    "question": "Is Ulm a town?",
    "answer": True,
    "facts": ["Ulm has walls."],
}


def write(folder: Path, **files: Any) -> str:
    for name, rows in files.items():
        (folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    return str(folder)


def answer_by_reading(world: World, task: Task) -> str:
    """Follows the relations of a question through the texts of the pages alone."""
    support = [str(page) for page in task.metadata["support"]]  # type: ignore[union-attr]
    for page, following in pairwise(support):
        assert following in world.pages[page], (task.prompt[0].text, page)
    assert str(task.reference) in world.pages[support[-1]]
    return str(task.reference)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("hops", HOPS)
def test_every_question_can_be_answered_from_its_pages(seed: int, hops: int) -> None:
    splits = load_environment(seed=seed, hops=hops).tasks
    for task in [*splits["eval"], *islice(splits["train"], 100)]:
        assert answer_by_reading(world_of(seed), task)
        support = task.metadata["support"]
        assert isinstance(support, list)
        assert len(support) == int(task.key) % hops + 1
        assert str(support[0]) in task.prompt[0].text
        assert not any(str(page) in task.prompt[0].text for page in support[1:])
        assert str(task.reference) not in task.prompt[0].text


def test_a_relation_leads_to_one_thing_only_and_every_name_to_one_page() -> None:
    for seed in range(5):
        world = World(seed)
        names = [name for kind in world.names.values() for name in kind]
        assert sorted(names) == sorted(world.pages)
        assert len(names) == len(set(names)) > 300
        for (name, _), other in world.facts.items():
            assert other in world.pages[name]


def test_another_seed_makes_another_land() -> None:
    first, second = world_of(0), world_of(1)
    assert len(set(first.pages) & set(second.pages)) < len(first.pages) / 2
    assert first.ask(random.Random(1), 3) != second.ask(random.Random(1), 3)
    assert World(1).pages == second.pages


def test_the_splits_never_share_a_question() -> None:
    splits = load_environment().tasks
    train = {task.prompt for task in islice(splits["train"], 1000)}
    assert train.isdisjoint({task.prompt for task in splits["eval"]})


@pytest.mark.parametrize("hops", [0, 6, -1])
def test_a_number_of_hops_that_does_not_exist_is_refused(hops: int) -> None:
    with pytest.raises(ValueError, match="Choose 1 to 5"):
        load_environment(hops=hops)


@pytest.mark.parametrize("row", [TWOWIKI, COLUMNS])
def test_a_row_of_2wikimultihop_brings_its_pages(tmp_path: Path, row: dict[str, Any]) -> None:
    [task] = load_environment("twowiki", write(tmp_path, dev=[row])).tasks["eval"]
    assert (task.key, task.reference) == ("q1", ["Ulm"])
    assert task.metadata == {"support": ["B", "A"]}


def test_a_corpus_adds_pages_and_a_question_without_its_pages_is_left_out(tmp_path: Path) -> None:
    bare = {key: value for key, value in TWOWIKI.items() if key != "context"}
    path = write(tmp_path, dev=[bare])
    assert list(load_environment("twowiki", path).tasks["eval"]) == []
    write(tmp_path, my_corpus=[{"title": name, "text": name} for name in "AB"])
    environment = load_environment("twowiki", path)
    assert list(environment.tasks) == ["eval"]
    assert len(list(environment.tasks["eval"])) == 1


def test_a_question_that_stands_in_two_files_is_kept_with_its_pages(tmp_path: Path) -> None:
    short = {"Question": TWOWIKI["question"], "answer": ["Ulm"], "id": "short"}
    path = write(tmp_path, questions=[short], questions_with_pages=[TWOWIKI])
    [task] = load_environment("twowiki", path).tasks["eval"]
    assert task.metadata == {"support": ["B", "A"]}


def test_a_question_whose_pages_nobody_knows_has_none_to_cite(tmp_path: Path) -> None:
    row = {"Question": "Who?", "answer": ["A", "An A"], "id": "x"}
    [task] = load_environment("twowiki", write(tmp_path, questions=[row])).tasks["eval"]
    assert (task.reference, task.metadata) == (["A", "An A"], {"support": []})


@pytest.mark.parametrize(("answer", "word"), [(True, "yes"), (False, "no")])
def test_the_facts_of_strategyqa_stand_on_the_page_of_their_term(
    tmp_path: Path, answer: bool, word: str
) -> None:
    other = STRATEGY | {"qid": "s2", "question": "Has Ulm walls?", "facts": "Walls are old."}
    path = write(tmp_path, train=[STRATEGY], dev=[other | {"answer": answer}])
    environment = load_environment("strategyqa", path)
    assert [next(iter(tasks)).key for tasks in environment.tasks.values()] == ["s2", "s1"]
    task = environment.tasks["eval"][0]
    assert (task.reference, task.metadata) == ([word], {"support": ["Ulm"]})


def test_rows_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, dev=[{"question": "?"}])
    environment = load_environment("twowiki", path)
    with pytest.raises(ValueError, match="row 0: no column 'answer'"):
        list(environment.tasks["eval"])


def test_settings_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match="no folder of files"):
        load_environment("twowiki", str(tmp_path))
    with pytest.raises(ValueError, match="Say which data set"):
        load_environment(path=str(tmp_path))
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="BRAVE_API_KEY"):
        load_environment(provider="brave")


@pytest.mark.skipif(importlib.util.find_spec("datasets") is not None, reason="the extra is there")
def test_without_the_extra_a_data_set_by_name_is_refused_at_once() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'deep-research-env\[hf\]'"):
        load_environment("twowiki")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("The  Last Bridge.", "last bridge"),
        ("an A", "an a"),
        ("J.R.R. Tolkien", "j r r tolkien"),
        ("\u201cX\u201d\u2014Y", "x y"),
        ("3 November 1929", "3 november 1929"),
        ("", ""),
        ("!", "!"),
    ],
)
def test_answers_are_compared_without_what_does_not_matter(text: str, key: str) -> None:
    assert answer_key(text) == key
