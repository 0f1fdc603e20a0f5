"""Names, trees and manifests: any input is taken or refused, and what is taken is safe anywhere."""

import json
import os
import posixpath
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from strop.errors import ManifestError, PackageError
from strop.hub.manifest import (
    MANIFEST_NAME,
    parse_manifest,
    read_document,
    read_project,
    write_document,
)
from strop.hub.rules.names import NameSet, check_name, name_problem
from strop.hub.rules.tree import FILE, LINK, SourceMember, check_tree, digest_members
from strop.hub.source import (
    extract_source_archive,
    list_source,
    read_source_archive,
    tree_digest,
    write_source_archive,
)
from tests.factories import a_manifest
from tests.sdk.hub.environments import write_environment

PARTS = st.text(min_size=1, max_size=6) | st.sampled_from(
    ["..", ".", "CON", "aux.txt", "a", "A", "é", "e\u0301", "ß", "ss", "a.", "a ", "C:", "\\", "~"]
)
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
SAFE = st.lists(
    st.sampled_from(["a", "b", "data", "x.py", "größe", "\U0001f600", "with space", "-dash"]),
    min_size=1,
    max_size=3,
).map("/".join)


@given(NAMES)
def test_a_name_that_is_taken_stays_in_its_tree_on_every_system(name: str) -> None:
    if name_problem(name) is not None:
        with pytest.raises(PackageError):
            check_name(name, "tree")
        return
    assert posixpath.normpath(name) == name
    assert not posixpath.isabs(name)
    assert ".." not in name.split("/")
    assert not set(name) & set('\\\0\n\r"' if "\\" in name else "\\\0\n\r")
    assert name.encode("utf-8").decode("utf-8") == name
    assert all(part == part.rstrip(". ") for part in name.split("/"))


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "/a", "a/", "a//b", "./a", "a/.", "..", "../a", "a/../b", "a/.."),
        *("a\\b", "\\\\host\\share", "C:", "c:/a", "C:a", "a\nb", "a\x00", "\x7f", "a\u2028"),
        *("con", "CON", "nul.txt", "com1", "LPT9.tar.gz", "com¹", "aux ", "d/prn/x", "con ."),
        *("a.", "a ", "d./x", "x" * 256, "é" * 128, "/".join(["x" * 200] * 6), "\ud800"),
    ],
)
def test_a_name_that_some_system_could_not_keep_is_refused(name: str) -> None:
    with pytest.raises(PackageError, match=r"the member .* Rename or remove it"):
        check_name(name, "tree")


@pytest.mark.parametrize(
    "name",
    [
        *("a", "a/b", ".hidden", "..a", "a..b", "-x", "--help", "a b", "~", "$HOME", "a;b", "*"),
        *("console", "com10", "com", "lpt", "nulls.txt", "größe", "\U0001f600", "x" * 255, "#"),
    ],
)
def test_a_name_that_every_system_keeps_is_taken(name: str) -> None:
    check_name(name, "tree")


class Names(RuleBasedStateMachine):
    """A set of names beside a plain model of a file system that folds case and composition."""

    def __init__(self) -> None:
        super().__init__()
        self.names = NameSet("tree")
        self.files: list[str] = []

    @staticmethod
    def fold(path: str) -> str:
        return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())

    def meets(self, path: str) -> bool:
        for known in self.files:
            one, other = path.split("/"), known.split("/")
            for count in range(1, min(len(one), len(other)) + 1):
                mine, its = "/".join(one[:count]), "/".join(other[:count])
                if self.fold(mine) != self.fold(its):
                    break
                # Spelled otherwise, or one is a file where the other is a file or a folder.
                if mine != its or count in (len(one), len(other)):
                    return True
        return False

    @rule(
        parts=st.lists(
            st.sampled_from(["a", "A", "b", "é", "e\u0301", "É", "ß", "ss"]), min_size=1, max_size=3
        )
    )
    def add(self, parts: list[str]) -> None:
        path = "/".join(parts)
        if self.meets(path):
            with pytest.raises(PackageError):
                self.names.add(path)
            # What was refused may leave spellings behind; a refused set is never used on.
            self.names = NameSet("tree")
            for each in self.files:
                self.names.add(each)
        else:
            self.names.add(path)
            self.files.append(path)

    @invariant()
    def no_two_files_fold_to_one(self) -> None:
        assert len({self.fold(each) for each in self.files}) == len(self.files)


TestNames = Names.TestCase
TestNames.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


@given(st.dictionaries(SAFE, st.sampled_from(["a", "..", "../a", "/a", "b/../a", ".", "", "x.py"])))
def test_a_tree_of_links_that_is_taken_leads_nowhere_outside(links: dict[str, str]) -> None:
    members = [SourceMember("a", FILE, 1), SourceMember("x.py", FILE, 1)]
    members += [SourceMember(path, LINK, 0, target) for path, target in links.items()]
    try:
        check_tree(members, "tree")
    except PackageError:
        return
    for path, target in links.items():
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        assert not place.startswith("..")
        assert not posixpath.isabs(target)


@given(st.permutations([SourceMember(str(n), FILE, n) for n in range(5)]))
def test_a_digest_does_not_depend_on_the_order_of_members(members: list[SourceMember]) -> None:
    rows = [(member, "ab" * 32) for member in members]

    assert digest_members(rows) == digest_members(sorted(rows, key=lambda row: row[0].path))


CONTENTS = st.dictionaries(SAFE, st.binary(max_size=40) | st.just(bytes(100_000)), max_size=5)


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(CONTENTS, st.sampled_from([0o022, 0o077, 0o000]))
def test_every_tree_comes_back_from_its_archive_exactly(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes], mask: int
) -> None:
    root = tmp_path_factory.mktemp("tree")
    folder = root / "with space é"
    folder.mkdir()
    for path, content in contents.items():
        place = folder / path
        if any(parent.is_file() for parent in place.parents) or place.is_dir():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o755 if len(content) % 2 else 0o600)
    members = list_source(folder)
    digest = tree_digest(folder, members)

    write_source_archive(folder, members, root / "one.source.tar.gz")
    before = os.umask(mask)
    try:
        extract_source_archive(root / "one.source.tar.gz", root / "back")
    finally:
        os.umask(before)

    back = list_source(root / "back")
    assert tree_digest(root / "back", back) == digest
    assert [(m.path, m.mode) for m in back] == [(m.path, m.mode) for m in members]
    assert read_source_archive(root / "one.source.tar.gz").tree_digest == digest
    write_source_archive(root / "back", back, root / "two.source.tar.gz")
    one, two = ((root / f"{n}.source.tar.gz").read_bytes() for n in ("one", "two"))
    assert one == two
    assert sorted(each.name for each in root.iterdir()) == [
        "back",
        "one.source.tar.gz",
        "two.source.tar.gz",
        "with space é",
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = [*a_manifest(), "secrets", "requires", "platform", "urls", "license", "unknown"]


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_any_manifest_is_taken_or_refused_with_every_key_that_is_wrong(
    changes: dict[str, Any],
) -> None:
    document = a_manifest() | changes
    problems: list[str] = []
    try:
        manifest = parse_manifest(document, "strop.json")
    except ManifestError as error:
        problems = error.problems
    assert all(line.isprintable() for line in problems)
    assert ("unknown" in changes) == any("`unknown` is unknown" in line for line in problems)
    if problems:
        return
    again = parse_manifest(manifest.document(), "strop.json")
    assert again == manifest
    content = write_document(manifest, None)
    assert read_document(content, MANIFEST_NAME) == (manifest, None)
    assert write_document(again, None) == content


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_document_or_are_refused(content: bytes) -> None:
    with pytest.raises(ManifestError, match=MANIFEST_NAME):
        read_document(content, MANIFEST_NAME)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "9" * 5000),
        ("requires-python", ">=" + "9" * 5000),
        ("requires-python", ">=3.11\x00"),
        ("requires", ["ada/maze@" + "9" * 5000]),
        ("requires", ["ada/maze@,"]),
        ("requires", ["ada/maze", "Ada/MAZE@1"]),
        ("dependencies", ["x" * 600]),
        ("dependencies", ["x @ https://example.org/\n"]),
        ("reward-range", [0, 10**400]),
        ("reward-range", [1, 0]),
        ("reward-range", [True, False]),
        ("tags", ["a"] * 2),
        ("tags", [f"t{n}" for n in range(21)]),
        ("tags", ["A"]),
        ("secrets", ["strop_value-that-is-a-secret"]),
        ("entry-point", "maze"),
        ("entry-point", "maze:load; import os"),
        ("entry-point", "maze:load\n"),
        ("summary", "two\nlines"),
        ("summary", "x" * 600),
        ("summary", "\ud800"),
        ("urls", {"Home": "javascript:alert(1)"}),
        ("urls", {"Ho\nme": "https://example.org"}),
        ("name", "-maze"),
        ("name", "a" * 101),
        ("category", "games"),
        ("sandbox", "jail"),
        ("deterministic", "yes"),
        ("deterministic", 1),
    ],
)
def test_a_value_that_breaks_a_rule_is_named_shortly_and_secrets_are_not_shown(
    key: str, value: Any
) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(a_manifest() | {key: value}, "strop.json")

    (problem,) = caught.value.problems
    assert problem.startswith(f"`{key}")
    assert len(problem) < 1000
    assert "that-is-a-secret" not in problem


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"\x00", b"a = " + b"[" * 5000, b"[project", b"[project]\nname = 3\n"],
    ids=range(6),
)
def test_a_project_file_that_is_none_is_named(content: bytes, tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze")
    (folder / "pyproject.toml").write_bytes(content)

    with pytest.raises(ManifestError, match=r"pyproject\.toml"):
        read_project(folder)
