"""The author's tree goes into an archive and comes back exactly."""

import errno
import os
import random
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop.errors import PackageError
from strop.hub.rules.limits import Limits
from strop.hub.source import (
    SourceMember,
    copy_source,
    extract_source_archive,
    list_source,
    read_source_archive,
    tree_digest,
    write_source_archive,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tree with everything that may be in one."""
    folder = tmp_path / "maze"
    (folder / "deep" / ("n" * 120)).mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[project]\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o775)
    (folder / "empty").touch()
    (folder / "trailing space inside .txt").write_text("x")
    (folder / "größe.txt").write_text("ü")
    (folder / "deep" / ("n" * 120) / "data.bin").write_bytes(os.urandom(300_000))
    (folder / "deep" / "link").symlink_to("../run.sh")
    (folder / "to-folder").symlink_to("deep")
    (folder / "to-link").symlink_to("to-folder/link")
    os.link(folder / "empty", folder / "hard")
    return folder


def snapshot(folder: Path) -> dict[str, tuple[str, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", 0, os.readlink(path).encode())
        elif path.is_file():
            found[name] = ("file", stat.S_IMODE(path.stat().st_mode) & 0o100, path.read_bytes())
    return found


def archive_of(folder: Path, target: Path) -> Path:
    write_source_archive(folder, list_source(folder), target)
    return target


def test_a_tree_comes_back_exactly(folder: Path, tmp_path: Path) -> None:
    archive = archive_of(folder, tmp_path / "maze.tar.gz")
    members = list_source(folder)

    facts = read_source_archive(archive)
    extract_source_archive(archive, tmp_path / "back")

    assert snapshot(tmp_path / "back") == snapshot(folder)
    assert facts.tree_digest == tree_digest(folder, members)
    assert facts.tree_digest == tree_digest(tmp_path / "back", list_source(tmp_path / "back"))
    assert facts.member_count == len(members) == 10
    assert facts.unpacked_bytes == sum(member.size_bytes for member in members)


def test_other_tools_read_the_archive_too(folder: Path, tmp_path: Path) -> None:
    archive = archive_of(folder, tmp_path / "maze.tar.gz")
    (tmp_path / "gnu").mkdir()

    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path / "gnu"], check=True)

    assert snapshot(tmp_path / "gnu") == snapshot(folder)


def test_the_archive_depends_on_nothing_but_the_tree(folder: Path, tmp_path: Path) -> None:
    first = archive_of(folder, tmp_path / "one.tar.gz").read_bytes()
    for path in folder.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1, 1))
    (folder / "run.sh").chmod(0o700)
    (folder / "empty").chmod(0o600)

    assert archive_of(folder, tmp_path / "another name.tar.gz").read_bytes() == first


def test_the_digest_has_the_documented_form(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")

    members = list_source(tmp_path)

    assert members == [SourceMember("a", "100644", 1)]
    # sha256 of [["a","100644","2d71…4881"]], computed with sha256sum.
    assert tree_digest(tmp_path, members) == (
        "58c3012e9e5e9e7f3d8d9c8484ebf6339866dc72416e68654e38437f570cec76"
    )


@pytest.mark.parametrize("change", ["content", "mode", "name", "target"])
def test_every_change_of_the_tree_changes_the_digest(folder: Path, change: str) -> None:
    before = tree_digest(folder, list_source(folder))
    if change == "content":
        (folder / "empty").write_text("x")
    elif change == "mode":
        (folder / "run.sh").chmod(0o644)
    elif change == "name":
        (folder / "run.sh").rename(folder / "run2.sh")
        (folder / "deep" / "link").unlink()
        (folder / "deep" / "link").symlink_to("../run2.sh")
    else:
        (folder / "deep" / "link").unlink()
        (folder / "deep" / "link").symlink_to("../hard")

    assert tree_digest(folder, list_source(folder)) != before


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/etc/passwd", "is absolute"),
        ("../outside", "leads out of the tree"),
        ("..", "leads out of the tree|holds it"),
        ("nowhere", "leads to nothing"),
        ("ignored.txt", "leads to nothing"),
        ("self", "in a circle"),
        (".", "folder that holds it"),
    ],
)
def test_links_that_would_break_elsewhere_are_refused_by_name(
    tmp_path: Path, target: str, message: str
) -> None:
    folder = tmp_path / "maze"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (folder / ".gitignore").write_text("ignored.txt\n")
    (folder / "ignored.txt").touch()
    (folder / "self").symlink_to(target)

    with pytest.raises(PackageError, match=f"'self' -> .* ({message})"):
        list_source(folder)


@pytest.mark.parametrize("name", ["aux.txt", "a\\b", "line\nbreak", "ends.", "com1"])
def test_names_that_other_systems_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()

    with pytest.raises(PackageError, match="Rename or remove it"):
        list_source(tmp_path)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt"))).touch()

    with pytest.raises(PackageError, match=r"'\\xff.txt' is not UTF-8"):
        list_source(tmp_path)


def test_names_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    (tmp_path / "A.py").touch()

    with pytest.raises(PackageError, match=r"'A.py' and 'a.py' differ only in case"):
        list_source(tmp_path)


def test_pipes_and_sockets_are_refused_when_git_lists_them(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))

        # git passes over both where they are not tracked: nothing of them can be shipped.
        assert [member.path for member in list_source(tmp_path)] == ["a"]

    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "a"], cwd=tmp_path, check=True)
    (tmp_path / "a").unlink()
    os.mkfifo(tmp_path / "a")
    with pytest.raises(PackageError, match="'a' is a device, pipe or socket"):
        list_source(tmp_path)


def test_a_file_that_changes_meanwhile_is_noticed(folder: Path, tmp_path: Path) -> None:
    members = list_source(folder)
    (folder / "pyproject.toml").write_text("[project]\nname = 1\n")

    with pytest.raises(PackageError, match="changed meanwhile"):
        write_source_archive(folder, members, tmp_path / "x.tar.gz")
    with pytest.raises(PackageError, match="changed meanwhile"):
        copy_source(folder, members, tmp_path / "copy")


def test_a_file_that_vanishes_meanwhile_is_noticed(folder: Path, tmp_path: Path) -> None:
    members = list_source(folder)
    (folder / "pyproject.toml").unlink()

    with pytest.raises(PackageError, match=r"pyproject.toml' cannot be read"):
        write_source_archive(folder, members, tmp_path / "x.tar.gz")
    with pytest.raises(PackageError, match=r"pyproject.toml' cannot be copied"):
        copy_source(folder, members, tmp_path / "copy")


SMALL = Limits(unpacked_bytes=100_000)


def a_tree_with(folder: Path, content: bytes) -> list[SourceMember]:
    folder.mkdir()
    (folder / "data.bin").write_bytes(content)
    return list_source(folder)


def test_a_tree_beyond_the_limit_is_refused_by_packer_and_reader(tmp_path: Path) -> None:
    tree, archive = tmp_path / "tree", tmp_path / "x.tar.gz"
    members = a_tree_with(tree, bytes(100_001))

    with pytest.raises(PackageError, match="tree unpacks to more than"):
        write_source_archive(tree, members, archive, limits=SMALL)
    with pytest.raises(PackageError, match=r"x\.tar\.gz unpacks to more than"):
        read_source_archive(archive, limits=SMALL)


def test_a_large_tree_that_packs_to_more_than_half_is_taken_by_both(tmp_path: Path) -> None:
    tree, archive = tmp_path / "tree", tmp_path / "x.tar.gz"
    members = a_tree_with(tree, random.Random(1).randbytes(100_001))

    write_source_archive(tree, members, archive, limits=SMALL)

    assert read_source_archive(archive, limits=SMALL).unpacked_bytes == 100_001


def test_a_folder_with_contents_is_never_overwritten(folder: Path, tmp_path: Path) -> None:
    archive = archive_of(folder, tmp_path / "maze.tar.gz")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").touch()

    for place in (taken, taken / "mine"):
        with pytest.raises(PackageError, match="exists and is not an empty folder"):
            extract_source_archive(archive, place)
    assert [path.name for path in taken.iterdir()] == ["mine"]


def test_an_empty_folder_and_missing_parents_are_fine(folder: Path, tmp_path: Path) -> None:
    archive = archive_of(folder, tmp_path / "maze.tar.gz")
    (tmp_path / "empty").mkdir()

    extract_source_archive(archive, tmp_path / "empty")
    extract_source_archive(archive, tmp_path / "a" / "b")

    assert snapshot(tmp_path / "empty") == snapshot(tmp_path / "a" / "b") == snapshot(folder)


def test_a_full_disk_leaves_nothing_behind(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(folder, tmp_path / "maze.tar.gz")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "symlink", full)
    with pytest.raises(PackageError, match="No space left on device"):
        extract_source_archive(archive, tmp_path / "out" / "maze")
    assert list((tmp_path / "out").iterdir()) == []


NAMES = st.sampled_from(["a", "b", "ä", "c.txt", "d e", "x" * 130])
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.tuples(st.binary(max_size=600), st.booleans()),
    max_size=8,
)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tree=TREES)
def test_any_tree_comes_back(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, tuple[bytes, bool]]
) -> None:
    scratch = tmp_path_factory.mktemp("tree")
    folder = scratch / "maze"
    folder.mkdir()
    for path, (content, is_executable) in tree.items():
        parents = [folder / parent for parent in Path(path).parents]
        if (folder / path).is_dir() or any(parent.is_file() for parent in parents):
            continue
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        (folder / path).chmod(0o755 if is_executable else 0o644)

    extract_source_archive(archive_of(folder, scratch / "x.tar.gz"), scratch / "back")

    assert snapshot(scratch / "back") == snapshot(folder)
