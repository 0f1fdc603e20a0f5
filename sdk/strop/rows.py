"""Rows of data sets as tasks: from files, folders or the Hugging Face hub (step: author)."""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeAlias

from strop.errors import RowError, SettingsError
from strop.task import Task, TaskSet

HUB = "hf://"
"""What the address of a set of the Hugging Face hub begins with."""
SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz", ".parquet")
"""Files that are read."""

Read: TypeAlias = Callable[[], Iterable[Any]]
MakeTask: TypeAlias = Callable[["Row"], Task | None]

_BATCH_ROWS = 1024
_WRAPPERS = ("examples", "data")
"""Where an object that is a whole file may have its rows."""
_SPLITS = {
    "corpus": r"corpus",
    "train": r"train|training",
    "validation": r"validation|valid|val|dev",
    "eval": r"test|eval",
}
"""By our names, the words by which files and hubs name them."""
_NO_COLUMNS: Mapping[str, str] = MappingProxyType({})
_UNREADABLE = (ValueError, OSError, EOFError, RuntimeError, zlib.error)
"""What readers of JSON, gzip, Parquet and the hub raise."""


@dataclass(frozen=True, slots=True)
class KnownSet:
    """Where a data set is on the Hugging Face hub, for those who give no path."""

    address: str
    """``hf://owner/name``, with ``@configuration`` where it has several, or ``@*`` for all."""
    splits: Mapping[str, str] = field(default_factory=dict)
    """From its splits, those that are read, to ours; empty asks the hub for their names."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """From our names of columns to the hub's, where these are others."""


class Row:
    """One row: its columns under our names, and where it stands.

    What is asked for and not there, or of another type, is a `RowError` that names the row.
    """

    __slots__ = ("_values", "index", "source")

    def __init__(self, values: Mapping[str, Any], source: Rows, index: int) -> None:
        self._values = values
        self.source = source
        """The file, or the split of a configuration, that it comes from."""
        self.index = index
        """Its place in the source, from 0."""

    def __getitem__(self, name: str) -> Any:
        column = self.source.columns.get(name, name)
        try:
            return self._values[column]
        except KeyError:
            listed = ", ".join(map(repr, self._values))
            raise self.error(f"no column {column!r}; it has: {listed or 'none':.300}") from None

    def __contains__(self, name: str) -> bool:
        return self.source.columns.get(name, name) in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """A column, or something else where there is none."""
        column = self.source.columns.get(name, name)
        return self._values.get(column, default)

    @property
    def key(self) -> str:
        """What its column ``key`` says; else its index, after the source's name among several."""
        is_told = "key" in self.source.columns or self.get("key") is not None
        return self.text("key") if is_told else f"{self.source.prefix}{self.index}"

    def text(self, name: str) -> str:
        """A column as a text that is not blank; numbers are written out.

        Raises:
            RowError: It is missing, blank, no text and no number, or no Unicode.
        """
        return self._text(name, self[name])

    def texts(self, name: str) -> list[str]:
        """A column that is a list of texts, or a text that holds one as JSON.

        Raises:
            RowError: It is missing or something else.
        """
        values = self[name]
        if isinstance(values, str):
            try:
                values = _parse(values)
            except ValueError as error:
                raise self.error(f"column {name!r} is no list: {error}") from error
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise self.error(f"column {name!r} is no list, but {values!r:.60}")
        return [self._text(name, value) for value in values]

    def error(self, problem: str) -> RowError:
        """What to raise about this row."""
        return RowError(f"{self.source.place}, row {self.index}: {problem}")

    def _text(self, name: str, value: Any) -> str:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(value, str) and not (is_number and math.isfinite(value)):
            raise self.error(f"column {name!r} is no text and no number, but {value!r:.60}")
        text = str(value)
        if not text.strip():
            raise self.error(f"column {name!r} is blank")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise self.error(f"column {name!r} is no Unicode: {text!a:.60}") from None
        return text


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one file, or of one split on a hub; read anew in each pass, and only then."""

    split: str
    """``train``, ``eval``, ``validation``, ``corpus``, or what the hub calls it."""
    name: str
    """The file's without its endings, or the configuration's."""
    place: str
    """For messages: the file's path, or the address."""
    read: Read
    columns: Mapping[str, str] = field(default_factory=dict)
    """From our names of columns to the names here, where these are others."""
    prefix: str = ""
    """Of its rows' keys: not empty where several sources make a split."""

    def __iter__(self) -> Iterator[Row]:
        """The rows, in order.

        Raises:
            RowError: One cannot be read, or has no columns.
        """
        for index, values in enumerate(self._values()):
            if not isinstance(values, Mapping):
                raise RowError(f"{self.place}, row {index}: no object, but {values!r:.60}")
            yield Row(values, self, index)

    def _values(self) -> Iterator[Any]:
        try:
            yield from self.read()
        except _UNREADABLE as error:
            raise RowError(f"{self.place} cannot be read: {error}") from error


def open_rows(
    path: str | None,
    known: KnownSet | None = None,
    *,
    package: str,
    columns: Mapping[str, str] = _NO_COLUMNS,
    names: Sequence[str] = (),
) -> list[Rows]:
    """Where the rows of a data set are, one item for each file or split; nothing is read yet.

    A file or folder gives the split ``train`` where a file's name says so in a word of its own
    (``my_train.jsonl``), likewise ``validation``, and ``corpus`` for what is no question, and else
    ``eval``. Who has no ``eval`` has his validation as that.

    Args:
        path: A file (`SUFFIXES`), a folder of them, ``hf://owner/name`` on the Hugging Face hub,
            with ``@configuration`` or ``@*`` for all of them, or None for a set that is known.
        known: What None means.
        package: The environment's distribution, whose extras ``hf`` and ``parquet`` messages name.
        columns: From our names of columns to the set's, where these are others.
        names: What `columns` may name.

    Raises:
        FileNotFoundError: The path holds no such file.
        ModuleNotFoundError: An extra is needed and not installed.
        SettingsError: There is no path and no known set, or no such column or configuration.
    """
    if unknown := sorted(set(columns) - set(names)):
        mapped = ", ".join(names) or "nothing, in this data set"
        raise SettingsError(f"columns names {unknown[0]!r}. It maps {mapped}.")
    if path is None and known is None:
        raise SettingsError(f"Which rows? Give path=…: a file, a folder, or {HUB}owner/name.")
    if path is None and known is not None:
        found = _hub_rows(known.address, known.splits, package)
        columns = {**known.columns, **columns}
    elif path is not None and path.startswith(HUB):
        found = _hub_rows(path, {}, package)
    else:
        found = _file_rows(Path(path or ""), package)
    if not any(rows.split == "eval" for rows in found):
        found = [replace(r, split="eval") if r.split == "validation" else r for r in found]
    counts = Counter(rows.split for rows in found)
    return [
        replace(rows, columns=columns, prefix=f"{rows.name}-" if counts[rows.split] > 1 else "")
        for rows in found
    ]


def task_sets(found: Iterable[Rows], make: MakeTask) -> dict[str, TaskSet]:
    """The tasks of every split, ``train`` first; rows are read when they are asked for.

    Args:
        found: What `open_rows` gave.
        make: From a row to its task, or to None where it is left out.
    """
    sources: dict[str, list[Rows]] = {}
    for rows in sorted(found, key=lambda rows: rows.split != "train"):
        sources.setdefault(rows.split, []).append(rows)
    return {split: TaskSet(partial(read_tasks, each, make)) for split, each in sources.items()}


def read_tasks(found: Iterable[Rows], make: MakeTask) -> Iterator[Task]:
    """The tasks of some rows, each made in its turn; what stands twice, word for word, is one task.

    Raises:
        RowError: A row is no task, or has the key of another one.
    """
    # Indexes differ by themselves, so that a long file without keys takes no memory.
    seen: dict[str, str] = {}
    for row in (row for rows in found for row in rows):
        try:
            task = make(row)
        except RowError:
            raise
        except (ArithmeticError, AttributeError, LookupError, SyntaxError) as error:
            raise row.error(f"{type(error).__name__}: {error}") from error
        except (TypeError, ValueError) as error:
            raise row.error(str(error)) from error
        if task is None:
            continue
        if task.key != f"{row.source.prefix}{row.index}":
            digest = task.digest
            if task.key in seen and seen[task.key] != digest:
                raise row.error(f"an earlier row, with other contents, has the key {task.key!r}")
            if seen.setdefault(task.key, digest) is not digest:
                continue
        yield task


def _file_rows(path: Path, package: str) -> list[Rows]:
    files = [path] if path.is_file() else sorted(p for p in path.glob("*") if p.is_file())
    files = [file for file in files if _ending(file)]
    if not files:
        raise FileNotFoundError(
            f"{path} is no file, and no folder of files, that end in {', '.join(SUFFIXES)}. Give "
            f"another path, or the address of a set of the Hugging Face hub: {HUB}owner/name."
        )
    [(stem, count)] = Counter(map(_stem, files)).most_common(1)
    if count > 1:
        raise SettingsError(
            f"{path} holds {count} files {stem!r} of several kinds. Give the path of one of them."
        )
    if any(_ending(file) == ".parquet" for file in files):
        _need("pyarrow", "Parquet files", package, "parquet")
    return [
        Rows(_split_of(_stem(file), "eval"), _stem(file), str(file), partial(read_file, file))
        for file in files
    ]


def _ending(file: Path) -> str:
    name = file.name.lower()
    return max((each for each in SUFFIXES if name.endswith(each)), key=len, default="")


def _stem(file: Path) -> str:
    return file.name[: len(file.name) - len(_ending(file))]


def _split_of(name: str, otherwise: str) -> str:
    for split, words in _SPLITS.items():
        if re.search(rf"(?<![a-z])(?:{words})(?![a-z])", name.lower()):
            return split
    return otherwise


def read_file(file: Path) -> Iterator[Any]:
    """The values of a file of rows, in order.

    JSON lines are read line by line, Parquet row group by row group. A ``.json`` file is held
    whole: a list of rows, an object that holds one as ``examples`` or ``data``, one row, or JSON
    lines.

    Raises:
        ValueError: It is not of its form; the line is named.
        OSError: It cannot be read.
    """
    if _ending(file) == ".parquet":
        # An extra: who reads lines does not need it.
        from pyarrow import parquet

        with parquet.ParquetFile(file) as opened:
            # Asked for all of them, Arrow would hold the whole file.
            for group in range(opened.num_row_groups):
                for batch in opened.iter_batches(_BATCH_ROWS, row_groups=[group]):
                    yield from batch.to_pylist()
        return
    with gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as opened:
        if _ending(file) in (".json", ".json.gz"):
            yield from _read_whole(opened.read())
        else:
            yield from _read_lines(opened)


def _read_whole(content: bytes) -> Iterator[Any]:
    try:
        whole = _parse(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Extra data"):
            raise
        yield from _read_lines(content.split(b"\n"))
        return
    held = [whole.get(name) for name in _WRAPPERS] if isinstance(whole, dict) else []
    lists = [each for each in [whole, *held] if isinstance(each, list)]
    yield from lists[0] if lists else [whole]


def _read_lines(lines: Iterable[bytes] | IO[bytes]) -> Iterator[Any]:
    for number, line in enumerate(lines, 1):
        try:
            # A text's own line breaks, of which Unicode has more than this one, end no row.
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if text.strip():
                yield _parse(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from error


def _parse(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{name!r} stands twice in one object")
    return made


def _hub_rows(address: str, splits: Mapping[str, str], package: str) -> list[Rows]:
    _need("datasets", "Data sets of the Hugging Face hub", package, "hf")
    from datasets import get_dataset_config_names, get_dataset_split_names, load_dataset

    repository, _, wanted = address.removeprefix(HUB).partition("@")
    names = [wanted] if wanted not in ("", "*") else sorted(get_dataset_config_names(repository))
    if not wanted and len(names) > 1:
        if "default" not in names:
            raise SettingsError(
                f"{address} has the configurations {', '.join(names)}. Choose one, as "
                f"{address}@{names[0]}, or all, as {address}@*."
            )
        names = ["default"]
    found = []
    for name in names:
        for split, ours in (
            splits or _our_splits(get_dataset_split_names(repository, name))
        ).items():
            read = partial(load_dataset, repository, name, split=split)
            found.append(Rows(ours, name, f"{HUB}{repository}@{name} {split}", read))
    return found


def _our_splits(theirs: Iterable[str]) -> dict[str, str]:
    """From a hub's splits to ours; those that would be one keep their names."""
    ours = {split: _split_of(split, split) for split in theirs}
    counts = Counter(ours.values())
    return {split: own if counts[own] == 1 else split for split, own in ours.items()}


def _need(module: str, what: str, package: str, extra: str) -> None:
    if find_spec(module) is None:
        raise ModuleNotFoundError(
            f"{what} need the extra: pip install '{package}[{extra}]'. Or give other rows: path=…",
            name=module,
        )
