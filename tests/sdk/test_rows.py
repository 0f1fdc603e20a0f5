"""Rows of files become tasks, and whatever is wrong with one is said with its place."""

import gzip
import importlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strop
from strop import Task
from strop.errors import RowError, SettingsError, StropError
from strop.rows import KnownSet, Row, Rows, open_rows, read_tasks, task_sets

PACKAGE = "some-env"
ROWS: list[dict[str, Any]] = [{"q": "1+1?", "a": 2}, {"q": "2+2?", "a": 4}]
NAMED: Any = {"columns": {"question": "q", "answer": "a"}, "names": ("question", "answer", "key")}


def to_task(row: Row) -> Task:
    return Task(row.key, row.text("question"), row.text("answer"))


def lines_of(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet_of(rows: list[dict[str, Any]], path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pylist(rows)
    importlib.import_module("pyarrow.parquet").write_table(table, path, row_group_size=100)


def rows_of(path: Path, **settings: Any) -> list[Row]:
    return [row for rows in open_rows(str(path), package=PACKAGE, **settings) for row in rows]


def tasks_of(path: Path, **settings: Any) -> list[Task]:
    return list(read_tasks(open_rows(str(path), package=PACKAGE, **settings), to_task))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.jsonl", lines_of(*ROWS)),
        ("r.ndjson", lines_of(*ROWS)),
        ("R.JSONL", lines_of(*ROWS)),
        ("r.jsonl.gz", gzip.compress(lines_of(*ROWS))),
        ("r.jsonl", b"\xef\xbb\xbf" + lines_of(*ROWS)),
        ("r.jsonl", lines_of(*ROWS).replace(b"\n", b"\r\n\r\n \n")),
        ("r.jsonl", lines_of(*ROWS).rstrip(b"\n")),
        ("r.json", json.dumps(ROWS, indent=1).encode()),
        ("r.json", b"\n " + json.dumps(ROWS).encode()),
        ("r.json", json.dumps({"canary": "x", "examples": ROWS}).encode()),
        ("r.json", json.dumps({"version": 1, "data": ROWS}).encode()),
        ("r.json", lines_of(*ROWS)),
        ("r.json.gz", gzip.compress(json.dumps(ROWS).encode())),
    ],
)
def test_the_usual_files_of_rows_are_read(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert [(t.key, t.prompt[0].text, t.reference) for t in tasks_of(path, **NAMED)] == [
        ("0", "1+1?", "2"),
        ("1", "2+2?", "4"),
    ]


def test_a_json_file_may_be_one_row(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(lines_of(ROWS[0]))
    assert [task.reference for task in tasks_of(tmp_path / "r.json", **NAMED)] == ["2"]


def test_parquet_is_read_like_lines(tmp_path: Path) -> None:
    rows = [{"q": f"{n}?", "a": n, "l": [str(n)]} for n in range(250)]
    parquet_of(rows, tmp_path / "r.parquet")
    assert [task.reference for task in tasks_of(tmp_path / "r.parquet", **NAMED)] == [
        str(n) for n in range(250)
    ]
    assert rows_of(tmp_path / "r.parquet")[7].texts("l") == ["7"]


@settings(max_examples=30)
@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3), max_size=4))
def test_lines_give_back_what_was_written(rows: list[dict[str, str]]) -> None:
    kept = [row for row in rows if row]
    read = Rows("eval", "r", "r.jsonl", lambda: iter(kept))
    assert [{name: row[name] for name in kept[row.index]} for row in read] == kept


@pytest.mark.parametrize(
    ("files", "splits"),
    [
        (["train", "test"], {"train": ["train"], "eval": ["test"]}),
        (["my_train", "rows"], {"train": ["my_train"], "eval": ["rows"]}),
        (["train-00000-of-00002"], {"train": ["train-00000-of-00002"]}),
        (["2ppl_train", "num1000train"], {"train": ["2ppl_train", "num1000train"]}),
        (
            ["constraints", "restrained", "latest"],
            {"eval": ["constraints", "latest", "restrained"]},
        ),
        (["train", "dev"], {"train": ["train"], "eval": ["dev"]}),
        (["dev", "test"], {"eval": ["test"], "validation": ["dev"]}),
        (["validation"], {"eval": ["validation"]}),
        (["dev", "my_corpus"], {"eval": ["dev"], "corpus": ["my_corpus"]}),
    ],
)
def test_the_words_of_a_files_name_decide_on_its_split(
    tmp_path: Path, files: list[str], splits: dict[str, list[str]]
) -> None:
    for name in files:
        (tmp_path / f"{name}.jsonl").write_bytes(lines_of(*ROWS))
    (tmp_path / "README.md").write_text("No rows.")
    (tmp_path / "more.jsonl").mkdir()
    found = open_rows(str(tmp_path), package=PACKAGE, **NAMED)
    assert {s: [r.name for r in found if r.split == s] for s in splits} == splits
    sets = task_sets(found, to_task)
    assert {split: len(list(tasks)) for split, tasks in sets.items()} == {
        split: 2 * len(names) for split, names in splits.items()
    }
    assert next(iter(sets)) == ("train" if "train" in splits else "eval") or len(sets) == 2


def test_keys_are_indexes_with_the_files_name_among_several(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(lines_of(*ROWS))
    assert [t.key for t in tasks_of(tmp_path, **NAMED)] == ["a-0", "a-1", "b-0", "b-1"]
    assert [t.key for t in tasks_of(tmp_path / "b.jsonl", **NAMED)] == ["0", "1"]


def test_a_column_may_be_the_key(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines_of(ROWS[0] | {"id": 17}, ROWS[1] | {"id": "x/1"}))
    columns = {**NAMED["columns"], "key": "id"}
    assert [t.key for t in tasks_of(path, **{**NAMED, "columns": columns})] == ["17", "x/1"]
    path.write_bytes(lines_of(ROWS[0] | {"key": "k"}, ROWS[1]))
    assert [t.key for t in tasks_of(path, **NAMED)] == ["k", "1"]


def test_two_rows_of_one_key_are_refused_unless_they_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first, other = ({**row, "key": "k"} for row in ROWS)
    path.write_bytes(lines_of(first, first))
    assert [task.reference for task in tasks_of(path, **NAMED)] == ["2"]
    path.write_bytes(lines_of(first, other))
    with pytest.raises(RowError, match=r"r\.jsonl, row 1: an earlier row.* has the key 'k'"):
        tasks_of(path, **NAMED)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{\n", "cannot be read: line 1: "),
        (b'{"q": 1, "a": 1}\n\n[1\n', "cannot be read: line 3: "),
        (b'{"q": 1, "q": 2}\n', "line 1: 'q' stands twice in one object"),
        (b'{"x": {"y": 1, "y": 2}}\n', "line 1: 'y' stands twice in one object"),
        (b"7\n", "row 0: no object, but 7"),
        (b"null\n", "row 0: no object, but None"),
        (b'["q", "a"]\n', "row 0: no object"),
        (b'{"q": "\xff"}\n', "line 1: 'utf-8' codec can't decode"),
        (b'{"q": "a\x00"}\n', "line 1: Invalid control character"),
        (b"[" * 200_000 + b"\n", "line 1: "),
        (b'{"q": ' + b"9" * 5_000 + b"}\n", "line 1: Exceeds the limit"),
        (b"{}\n", r"row 0: no column 'q'; it has: none"),
        (b'{"Q": "?", "A": 1}\n', r"row 0: no column 'q'; it has: 'Q', 'A'"),
        (b'{"\\ud800": 1}\n', r"row 0: no column 'q'; it has: '\\ud800'"),
        (b'{"q": null, "a": 1}\n', "row 0: column 'question' is no text and no number, but None"),
        (b'{"q": true, "a": 1}\n', "row 0: column 'question' is no text and no number, but True"),
        (b'{"q": ["?"], "a": 1}\n', "row 0: column 'question' is no text"),
        (b'{"q": "?", "a": {"b": 1}}\n', "row 0: column 'answer' is no text"),
        (b'{"q": "?", "a": NaN}\n', "row 0: column 'answer' is no text and no number, but nan"),
        (b'{"q": "?", "a": 1e999}\n', "but inf"),
        (b'{"q": "?", "a": ""}\n', "row 0: column 'answer' is blank"),
        (b'{"q": "\\u00a0\\u2028", "a": 1}\n', "row 0: column 'question' is blank"),
        (b'{"q": "\\ud83d", "a": 1}\n', r"row 0: column 'question' is no Unicode: '\\ud83d'"),
    ],
)
def test_a_hostile_row_is_named_and_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(RowError, match=problem) as caught:
        tasks_of(path, **NAMED)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1_000
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.json", b""),
        ("r.json", b"[1, 2"),
        ("r.json", b"[" * 200_000),
        ("r.json", b'[{"q": 1}] x'),
        ("r.jsonl.gz", b"no gzip"),
        ("r.jsonl.gz", gzip.compress(lines_of(*ROWS))[:-12]),
        ("r.jsonl.gz", gzip.compress(lines_of(*ROWS))[:14] + b"\xff" * 40),
        ("r.parquet", b"PAR1 no Parquet PAR1"),
        ("r.parquet", b""),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RowError, match=r"cannot be read: |no object"):
        tasks_of(tmp_path / name, **NAMED)


def test_odd_but_good_unicode_stays_as_it_is(tmp_path: Path) -> None:
    texts = ["a\u2028b\x85c\x0bd", "e\u0301 \u200f\u202eabc", "\U0001f600", "\x00a", "\ufeffx"]
    path = tmp_path / "r.jsonl"
    lines = [json.dumps({"q": each, "a": 1}, ensure_ascii=each == "\x00a") for each in texts]
    path.write_bytes("\n".join(lines).encode())
    assert [task.prompt[0].text for task in tasks_of(path, **NAMED)] == texts


def test_rows_before_a_bad_one_are_given(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines_of(*ROWS) + b"no JSON\n")
    tasks = task_sets(open_rows(str(path), package=PACKAGE, **NAMED), to_task)["eval"]
    assert [task.key for task in islice(tasks, 2)] == ["0", "1"]
    with pytest.raises(RowError, match="line 3"):
        list(tasks)


def test_each_pass_reads_anew(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines_of(*ROWS))
    tasks = task_sets(open_rows(str(path), package=PACKAGE, **NAMED), to_task)["eval"]
    assert len(list(tasks)) == len(list(tasks)) == 2
    path.write_bytes(lines_of(ROWS[0]))
    assert len(list(tasks)) == 1
    path.unlink()
    with pytest.raises(RowError, match="cannot be read"):
        list(tasks)


READ_ALL = """
import sys
from strop.rows import open_rows

def most_kib():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])

[rows] = open_rows(sys.argv[1], package="p")
count = 0
for row in rows:
    count += 1
    if count == 1_000:
        before = most_kib()
print(count, most_kib() - before)
"""
LONG_COUNT = 20_000
LONG_TEXT = "?" * 1_000


def write_long(path: Path) -> None:
    """A file of 20 MB, as far as it is not compressed."""
    rows = ({"q": LONG_TEXT, "a": number} for number in range(LONG_COUNT))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines_of(*rows), 1))
    else:
        path.write_bytes(lines_of(*rows))


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz"])
def test_a_long_file_is_never_in_memory_as_a_whole(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"r.{kind}"
    write_long(path)
    printed = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(path)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    count, grown_kib = map(int, printed.split())
    assert count == LONG_COUNT
    assert grown_kib < 16_000


READ_PARQUET = """
import sys, tracemalloc
import pyarrow
from strop.rows import open_rows

[rows] = open_rows(sys.argv[1], package="p")
reading = iter(rows)
next(reading)
tracemalloc.start()
count = 1 + sum(1 for _ in reading)
print(count, pyarrow.default_memory_pool().max_memory(), tracemalloc.get_traced_memory()[1])
"""


def write_groups(path: Path, count: int) -> None:
    """Row groups of 100 rows and 100 KB, of which no compression makes less than half."""
    text = random.Random(0).randbytes(50_000 * count).hex()
    starts = range(0, len(text), 1_000)
    parquet_of([{"q": text[n : n + 1_000], "a": n} for n in starts], path)


def test_parquet_is_held_row_group_by_row_group(tmp_path: Path) -> None:
    write_groups(tmp_path / "r.parquet", 200)
    printed = subprocess.run(
        [sys.executable, "-c", READ_PARQUET, str(tmp_path / "r.parquet")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    # What Arrow and Python count themselves: neither knows of what an allocator keeps.
    count, arrow_bytes, python_bytes = map(int, printed.split())
    assert count == 20_000
    assert max(arrow_bytes, python_bytes) < 5_000_000


def test_row_groups_before_a_bad_one_are_given(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    write_groups(path, 30)
    last = importlib.import_module("pyarrow.parquet").read_metadata(path).row_group(29)
    with path.open("r+b") as file:
        for column in map(last.column, range(last.num_columns)):
            file.seek(column.dictionary_page_offset or column.data_page_offset)
            file.write(b"\xff" * 64)
    read: list[int] = []
    with pytest.raises(RowError, match="cannot be read: "):
        read.extend(row["a"] for rows in open_rows(str(path), package=PACKAGE) for row in rows)
    assert read == list(range(0, 2_900_000, 1_000))


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    asked: list[int] = []

    def read() -> Iterator[dict[str, Any]]:
        for number in range(10):
            asked.append(number)
            yield {"question": "?", "answer": number}

    tasks = task_sets([Rows("train", "r", "r", read)], to_task)["train"]
    assert asked == []
    assert tasks[1].key == "1"
    assert asked == [0, 1]


def only_row(values: dict[str, Any]) -> Row:
    [row] = Rows("eval", "r", "r.jsonl", lambda: [values])
    return row


@pytest.mark.parametrize(
    ("value", "texts"),
    [(["a", "b"], ["a", "b"]), ([], []), ((1, 2.5), ["1", "2.5"]), ('["a", "b"]', ["a", "b"])],
)
def test_lists_of_texts_come_as_lists_and_as_json(value: Any, texts: list[str]) -> None:
    assert only_row({"t": value}).texts("t") == texts


@pytest.mark.parametrize("value", [None, 7, "a", '{"a": 1}', '"a"', ["a", None], [["a"]], [""], {}])
def test_what_is_no_list_of_texts_is_refused(value: Any) -> None:
    with pytest.raises(RowError, match=r"r\.jsonl, row 0: column 't' is "):
        only_row({"t": value}).texts("t")


def test_columns_that_may_be_missing_are_asked_for_with_get() -> None:
    row = only_row({"a": 1, "b": None})
    assert (row.get("a"), row.get("b", 2), row.get("c"), row.get("c", 3)) == (1, None, None, 3)
    assert ("a" in row, "c" in row) == (True, False)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda row: row["q"]["x"], "row 0: string indices must be"),
        (lambda row: row["a"].x, "row 0: AttributeError: 'int' object"),
        (lambda row: dict[str, int]()["y"], "row 0: KeyError: 'y'"),
        (lambda row: 1 / 0, "row 0: ZeroDivisionError"),
        (lambda row: int("x"), "row 0: invalid literal"),
        (lambda row: compile("(", "x", "eval"), "row 0: SyntaxError"),
    ],
)
def test_what_goes_wrong_in_making_a_task_is_told_with_the_row(fault: Any, told: str) -> None:
    rows = Rows("eval", "r", "r.jsonl", lambda: ROWS)
    with pytest.raises(RowError, match=told):
        list(read_tasks([rows], fault))


def test_rows_may_be_left_out() -> None:
    rows = Rows("eval", "r", "r.jsonl", lambda: ROWS)
    made = read_tasks([rows], lambda row: Task(row.key, "?") if row.index else None)
    assert [task.key for task in made] == ["1"]


def test_settings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Which rows"):
        open_rows(None, package=PACKAGE)
    with pytest.raises(SettingsError, match=r"names 'x'\. It maps a, b"):
        open_rows("r.jsonl", package=PACKAGE, columns={"x": "y"}, names=("a", "b"))
    with pytest.raises(SettingsError, match="nothing, in this data set"):
        open_rows("r.jsonl", package=PACKAGE, columns={"x": "y"})
    for name in ("r.jsonl", "r.parquet"):
        (tmp_path / name).touch()
    with pytest.raises(SettingsError, match="2 files 'r' of several kinds"):
        open_rows(str(tmp_path), package=PACKAGE)


@pytest.mark.parametrize("name", ["", "nowhere", "notes.txt"])
def test_a_path_without_rows_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"no folder of files.*hf://owner/name"):
        open_rows(str(tmp_path / name), package=PACKAGE)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("open_rows('hf://a/b', package='some-env')", "pip install 'some-env[hf]'"),
        (
            "open_rows(None, KnownSet('hf://a/b'), package='some-env')",
            "pip install 'some-env[hf]'",
        ),
        ("open_rows(sys.argv[1], package='some-env')", "pip install 'some-env[parquet]'"),
    ],
)
def test_without_an_extra_its_name_is_told_at_once(tmp_path: Path, call: str, advice: str) -> None:
    path = tmp_path / "r.parquet"
    path.touch()
    # Without the packages of this environment.
    code = f"import sys\nsys.path.insert(0, {str(Path(strop.__file__).parents[1])!r})\n"
    code += f"from strop.rows import KnownSet, open_rows\n{call}"
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(path)], capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert "ModuleNotFoundError: " in ended.stderr
    assert advice in ended.stderr


def test_a_row_error_is_one_of_the_sdks_and_a_value_error() -> None:
    assert issubclass(RowError, StropError)
    assert issubclass(RowError, ValueError)
    assert KnownSet("hf://a/b").splits == {}
