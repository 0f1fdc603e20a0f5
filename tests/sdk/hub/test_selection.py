"""What is shipped is what git would not ignore, whether or not the folder is in a repository."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.errors import PackageError
from strop.hub.source import list_source


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def write(folder: Path, *paths: str, **ignore_files: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


def listed(folder: Path) -> set[str]:
    return {member.path for member in list_source(folder)}


IGNORES = {
    "folders": ("logs/\n", {"logs/a", "x/logs/b", "keep/logs"}, {"keep/logs"}),
    "negation": ("*.tmp\n!keep.tmp\n", {"a.tmp", "keep.tmp", "d/b.tmp"}, {"keep.tmp"}),
    "negated folder": (
        "data/*\n!data/keep/\n",
        {"data/a", "data/keep/b", "data/other/c"},
        {"data/keep/b"},
    ),
    "folder ignored whole": ("data/\n!data/keep\n", {"data/keep", "a"}, {"a"}),
    "anchored": ("/a\nb/c\n", {"a", "d/a", "b/c", "e/b/c"}, {"d/a", "e/b/c"}),
    "double star": ("**/cache/*.bin\n", {"cache/x.bin", "a/b/cache/y.bin", "z.bin"}, {"z.bin"}),
    "trailing space": ("a.txt \nb.txt\\ \n", {"a.txt", "b.txt", "b.txt "}, {"b.txt", "b.txt "}),
    "carriage returns": ("a.txt\r\nlogs/\r\n", {"a.txt", "logs/b", "c"}, {"c", "a.txt", "logs/b"}),
    "comments": ("# a\n\\#b\n\\!c\n", {"a", "#b", "!c"}, {"a"}),
    "classes": ("[ab].txt\n", {"a.txt", "b.txt", "c.txt"}, {"c.txt"}),
}


@pytest.mark.parametrize("is_repository", [True, False])
@pytest.mark.parametrize(("rules", "paths", "_kept"), IGNORES.values(), ids=IGNORES)
def test_ignore_files_mean_what_they_mean_to_git(
    tmp_path: Path, rules: str, paths: set[str], _kept: set[str], is_repository: bool
) -> None:
    folder = write(tmp_path / "maze", *(path for path in paths if not path.endswith(" ")))
    (folder / ".gitignore").write_bytes(rules.encode())
    truth = write(tmp_path / "truth", *(path for path in paths if not path.endswith(" ")))
    (truth / ".gitignore").write_bytes(rules.encode())
    git(truth, "init", "-q")
    if is_repository:
        git(folder, "init", "-q")

    expected = set(git(truth, "ls-files", "-co", "--exclude-standard", "-z").split("\0")) - {""}

    assert listed(folder) == expected


def test_nested_ignore_files_hold_below_themselves(tmp_path: Path) -> None:
    folder = write(tmp_path, "a.log", "d/a.log", "d/b.log", "d/e/b.log")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "d" / ".gitignore").write_text("!b.log\n")

    assert listed(folder) == {".gitignore", "d/.gitignore", "d/b.log", "d/e/b.log"}


def test_tracked_files_are_shipped_though_ignored_and_deleted_ones_are_not(tmp_path: Path) -> None:
    folder = write(tmp_path, "kept.log", "gone.txt", "d/gone.txt", "moved/x", "other.log")
    git(folder, "init", "-q")
    git(folder, "add", "kept.log", "gone.txt", "d", "moved")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "gone.txt").unlink()
    (folder / "d" / "gone.txt").unlink()
    (folder / "d").rmdir()
    (folder / "moved" / "x").unlink()
    write(folder, "moved/x/y")

    assert listed(folder) == {".gitignore", "kept.log", "moved/x/y"}


def test_a_tracked_folder_that_became_a_link_is_a_link(tmp_path: Path) -> None:
    folder = write(tmp_path, "d/x", "e/x")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    (folder / "d" / "x").unlink()
    (folder / "d").rmdir()
    (folder / "d").symlink_to("e")

    assert listed(folder) == {"d", "e/x"}


def test_files_in_conflict_are_listed_once(tmp_path: Path) -> None:
    folder = write(tmp_path, "a")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    for branch in ("one", "two"):
        git(folder, "checkout", "-q", "-b", branch, "main")
        (folder / "a").write_text(branch)
        git(folder, "commit", "-qam", branch)
    subprocess.run(["git", "merge", "one"], cwd=folder, check=False, capture_output=True)

    assert [member.path for member in list_source(folder)] == ["a"]


def test_a_folder_inside_a_repository_obeys_the_ignore_files_above_it(tmp_path: Path) -> None:
    write(tmp_path, "env/a.py", "env/b.log", "other.py")
    (tmp_path / ".gitignore").write_text("*.log\n")
    git(tmp_path, "init", "-q")

    assert listed(tmp_path / "env") == {"a.py"}


def test_a_folder_that_a_repository_ignores_as_a_whole_stands_for_itself(tmp_path: Path) -> None:
    write(tmp_path, "scratch/env/a.py", "scratch/env/b.log")
    (tmp_path / ".gitignore").write_text("scratch/\n")
    (tmp_path / "scratch/env/.gitignore").write_text("*.log\n")
    git(tmp_path, "init", "-q")

    assert listed(tmp_path / "scratch" / "env") == {".gitignore", "a.py"}


def test_bytecode_that_nobody_committed_is_never_shipped(tmp_path: Path) -> None:
    write(tmp_path, "a/__pycache__/a.pyc", "a/__pycache__/note.txt", "b/__pycache__/b.pyc", "c.pyc")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "b")

    assert listed(tmp_path) == {"a/__pycache__/note.txt", "b/__pycache__/b.pyc", "c.pyc"}


def test_the_folders_repository_is_neither_shipped_nor_changed(tmp_path: Path) -> None:
    write(tmp_path, "a")

    assert listed(tmp_path) == {"a"}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("is_registered", [True, False])
def test_a_repository_inside_is_refused_by_name(tmp_path: Path, is_registered: bool) -> None:
    inner = write(tmp_path / "maze" / "vendored", "a")
    git(inner, "init", "-q")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "x")
    if is_registered:
        git(tmp_path / "maze", "init", "-q")
        git(tmp_path / "maze", "add", "vendored")

    with pytest.raises(PackageError, match=r"'vendored/?' is a git repository of its own"):
        list_source(tmp_path / "maze")


def test_a_repository_inside_that_is_ignored_is_no_fault(tmp_path: Path) -> None:
    git(write(tmp_path / "vendored", "a"), "init", "-q")
    (tmp_path / ".gitignore").write_text("vendored/\n")

    assert listed(tmp_path) == {".gitignore"}


def test_variables_of_a_git_hook_do_not_lead_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write(tmp_path / "other", "secret")
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))

    assert listed(write(tmp_path / "maze", "a")) == {"a"}


def test_without_git_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PackageError, match="git is not on the PATH"):
        list_source(tmp_path)


def test_gits_own_failure_is_passed_on(tmp_path: Path) -> None:
    write(tmp_path, "a")
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "index").write_bytes(b"broken")

    with pytest.raises(PackageError, match=r"git cannot list the files .*index"):
        list_source(tmp_path)


def test_a_broken_repository_is_not_taken_for_none(tmp_path: Path) -> None:
    write(tmp_path, "a")
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "config").write_text("[broken")

    with pytest.raises(PackageError, match=r"git cannot list the files .*config"):
        list_source(tmp_path)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="is no folder"):
        list_source(tmp_path / "absent")


def test_a_bare_repository_around_does_not_matter(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", ".")
    write(tmp_path / "hooks" / "env", "a")

    assert listed(tmp_path / "hooks" / "env") == {"a"}


PARTS = st.sampled_from(["a", "b", "logs", "data", "keep", "x.tmp", "keep.tmp", ".hidden"])
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
PATTERNS = st.lists(
    st.builds(
        lambda sign, anchor, pattern, end: sign + anchor + pattern + end,
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "/", "**/"]),
        st.one_of(PATHS, st.sampled_from(["*", "*.tmp", "data/*", "data/**", "?", "[ab]"])),
        st.sampled_from(["\n", "/\n", "\r\n", " \n"]),
    ),
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(
    paths=st.sets(PATHS, max_size=8),
    ignores=st.dictionaries(st.sampled_from(["", "a/", "data/"]), PATTERNS, max_size=2),
    tracked=st.sets(PATHS, max_size=3),
    is_repository=st.booleans(),
)
def test_any_tree_is_listed_as_git_lists_it(
    tmp_path_factory: pytest.TempPathFactory,
    paths: set[str],
    ignores: dict[str, list[str]],
    tracked: set[str],
    is_repository: bool,
) -> None:
    folder, truth = tmp_path_factory.mktemp("maze"), tmp_path_factory.mktemp("truth")
    for place in (folder, truth):
        for path in sorted(paths):
            parents = [place / parent for parent in Path(path).parents]
            if not (place / path).exists() and not any(parent.is_file() for parent in parents):
                write(place, path)
        for where, patterns in ignores.items():
            if not any((place / part).is_file() for part in (where.rstrip("/") or ".",)):
                (place / where).mkdir(exist_ok=True)
                (place / where / ".gitignore").write_bytes("".join(patterns).encode())
    git(truth, "init", "-q")
    if is_repository:
        git(folder, "init", "-q")
        for place in (folder, truth):
            present = [path for path in sorted(tracked) if (place / path).is_file()]
            git(place, "add", "-f", "--", *present) if present else None

    expected = set(git(truth, "ls-files", "-co", "--exclude-standard", "-z").split("\0")) - {""}

    assert listed(folder) == expected
