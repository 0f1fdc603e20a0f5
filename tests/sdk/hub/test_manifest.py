"""A manifest says what it must, and everything that is wrong with one is named at once."""

from pathlib import Path
from typing import Any

import pytest

from strop.errors import ManifestError
from strop.hub.manifest import (
    UNBUILT_VERSION,
    Manifest,
    parse_manifest,
    read_document,
    read_project,
    write_document,
)
from tests.sdk.hub.environments import write_environment

GOOD: dict[str, Any] = {
    "name": "maze-env",
    "version": "0.1",
    "summary": "Find the exit",
    "category": "logic",
    "reward-range": [-1, 1.5],
    "deterministic": False,
    "sandbox": "container",
    "entry-point": "maze_env.load:make.it",
}


def problems_of(folder: Path) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        read_project(folder)
    assert caught.value.where.startswith(str(folder))
    return caught.value.problems


def test_a_project_is_read_whole(tmp_path: Path) -> None:
    manifest = read_project(write_environment(tmp_path))

    assert manifest == Manifest(
        name="maze-env",
        version="0.1.0",
        summary="Find the exit",
        category="logic",
        tags=["multi-turn"],
        reward_range=(0.0, 1.0),
        deterministic=True,
        requires_python=">=3.11",
        dependencies=["strop>=0.1"],
        license="MIT",
        authors=["Ada <ada@example.org>", "Bob"],
        entry_point="maze_env:load_environment",
        urls={"Source": "https://example.org/maze"},
    )


def test_a_manifest_survives_its_document() -> None:
    manifest = parse_manifest(GOOD, "x")

    document = write_document(manifest, {"type": "object"})

    assert read_document(document, "x") == (manifest, {"type": "object"})
    assert document == write_document(manifest, {"type": "object"})


def test_names_and_versions_are_brought_into_their_normal_form() -> None:
    manifest = parse_manifest(GOOD | {"name": "Maze_.Env", "version": "v1.0-RC.1"}, "x")

    assert (manifest.name, manifest.version) == ("maze-env", "1.0rc1")


def test_every_missing_field_is_named_with_an_example(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")

    problems = problems_of(tmp_path)

    assert [problem.split("`")[1] for problem in problems] == [
        "project.name",
        "project.version",
        "project.description",
        'project.entry-points."strop.environments"',
        "tool.strop.category",
        "tool.strop.reward-range",
        "tool.strop.deterministic",
        "tool.strop.sandbox",
    ]
    assert all(" is missing. Write " in problem for problem in problems)


def test_unknown_fields_and_wrong_values_are_named_together(tmp_path: Path) -> None:
    edits = {
        'category = "logic"': 'category = "maths"\ncatgory = "logic"\nsumary = 1',
        "deterministic = true": 'deterministic = "yes"',
        '"0.1.0"': '"one"',
        "[0, 1]": "[1, 0]",
        'license = "MIT"\n': "license = 3\n",
    }

    problems = problems_of(write_environment(tmp_path, edits=edits))

    assert [problem.split("`")[1] for problem in problems] == [
        "tool.strop.catgory",
        "tool.strop.sumary",
        "project.version",
        "tool.strop.category",
        "tool.strop.reward-range",
        "tool.strop.deterministic",
        "project.license",
    ]
    assert "'maths': Input should be 'math', 'code'" in problems[3]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", "-maze", "is no name"),
        ("name", 7, "valid string"),
        ("reward-range", [0, True], "two numbers"),
        ("reward-range", [0, 1, 2], "two numbers"),
        ("reward-range", "01", "two numbers"),
        ("reward-range", [0, float("nan")], "two finite numbers"),
        ("reward-range", [0, float("inf")], "two finite numbers"),
        ("reward-range", [0, 10**400], "two finite numbers"),
        ("reward-range", [0, 0], "two finite numbers"),
        ("tags", ["Two Words"], "'Two Words' is no tag"),
        ("tags", ["a", "a"], "'a' stands twice"),
        ("tags", [f"t{number}" for number in range(21)], "at most 20"),
        ("tags", "a", "valid list"),
        ("secrets", ["A", "A"], "'A' stands twice"),
        ("requires", ["ada"], "'ada' names no environment"),
        ("requires", ["ada/x@~=1.0", "Ada/X"], "'ada/x' stands twice"),
        ("requires-python", "three", "no version range"),
        ("dependencies", ["httpx>=1", "a b c"], "'a b c' is no requirement"),
        ("entry-point", "maze_env", "must be `module:function`"),
        ("entry-point", "maze-env:load", "must be `module:function`"),
        ("summary", "two\nlines", "one line"),
        ("summary", "x" * 513, "at most 512"),
        ("summary", "\ud800", "one line"),
        ("dependencies", ["httpx; os_name == '\ud800'"], "is no requirement"),
        ("urls", {"a": "https://x/\n"}, "one line"),
        ("license", "a\0b", "one line"),
        ("authors", ["a\x1b[31m"], "one line"),
        ("urls", {"Evil": "javascript:alert(1)"}, "Evil: only http and https"),
        ("platform", 1, "valid boolean"),
        ("sandbox", "docker", "'none', 'process' or 'container'"),
    ],
)
def test_each_field_has_its_rule(key: str, value: Any, message: str) -> None:
    with pytest.raises(ManifestError, match=message) as caught:
        parse_manifest(GOOD | {key: value}, "x")

    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(f"`{key}")


def test_a_secret_given_instead_of_its_name_is_not_repeated() -> None:
    with pytest.raises(ManifestError, match="Give the name, never the value") as caught:
        parse_manifest(GOOD | {"secrets": ["sk-live-123"]}, "x")

    assert "sk-live-123" not in str(caught.value)


def test_ranges_tags_and_digests_of_other_environments_are_fine() -> None:
    requires = ["ada/base-env@~=1.0", "ada/b@latest", "ada/c", f"ada/d@sha256:{'a' * 12}"]

    assert parse_manifest(GOOD | {"requires": requires}, "x").requires == requires


def test_a_dynamic_version_stands_open_until_the_wheel_is_built(tmp_path: Path) -> None:
    edits = {
        'version = "0.1.0"\ndescription = "Find the exit"': 'dynamic = ["version", "description"]'
    }
    folder = write_environment(tmp_path, edits=edits)

    assert read_project(folder).version == UNBUILT_VERSION
    assert read_project(folder, version="2.0").version == "2.0"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("maze-env =", "other-env =", "names 'other-env', but `project.name` is 'maze-env'"),
        ("maze-env =", "'not a name' =", "names 'not a name'"),
        ("maze-env = ", 'b = "c:d"\nmaze-env = ', "has 2 entries: 'b', 'maze-env'"),
    ],
)
def test_the_entry_point_bears_the_projects_name(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert message in "\n".join(problems_of(write_environment(tmp_path, edits={old: new})))


def test_a_differently_spelled_entry_point_is_the_same_name(tmp_path: Path) -> None:
    folder = write_environment(tmp_path, edits={"maze-env =": "Maze_Env ="})

    assert read_project(folder).name == "maze-env"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[project", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"project = 1\n[tool]\nstrop = 2", "`tool.strop` must be a table"),
        (b"project = 1\ntool = 2", "`project` must be a table"),
        (b"[project]\nentry-points = 1", "`project.entry-points` must be a table"),
        (
            b"[project.entry-points]\n'strop.environments' = 1",
            'strop.environments"` must be a table',
        ),
    ],
)
def test_a_project_file_of_another_form_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)

    assert message in "\n".join(problems_of(tmp_path))


def test_a_folder_without_a_project_is_no_environment(tmp_path: Path) -> None:
    assert "is no environment: it has no pyproject.toml" in problems_of(tmp_path)[0]
    assert "is no environment" in problems_of(tmp_path / "absent")[0]


@pytest.mark.parametrize(
    ("licence", "expected"),
    [('{ text = "MIT License\\n" }', "MIT License"), ("{ file = 'LICENSE' }", None)],
)
def test_older_licence_tables_are_understood(
    tmp_path: Path, licence: str, expected: str | None
) -> None:
    folder = write_environment(tmp_path, edits={'license = "MIT"': f"license = {licence}"})

    assert read_project(folder).license == expected
