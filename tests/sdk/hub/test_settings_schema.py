"""An environment's settings become a JSON schema, read in a child process."""

from pathlib import Path
from typing import Any

import pytest

from strop.errors import BuildError, ManifestError
from strop.hub.building.settings import schema_of, settings_schema
from strop.hub.building.settings_child import argument_texts, describe
from tests.sdk.hub.environments import write_environment
from tests.waiting import wait_until


def with_code(folder: Path, code: str) -> Path:
    return write_environment(folder, code=code)


def schema(folder: Path, signature: str, imports: str = "") -> dict[str, Any]:
    code = f"{imports}\ndef load_environment({signature}): ...\n"
    return settings_schema(with_code(folder, code))


def test_types_defaults_and_descriptions_come_from_the_signature(tmp_path: Path) -> None:
    assert settings_schema(write_environment(tmp_path)) == {
        "type": "object",
        "properties": {
            "size": {
                "type": "integer",
                "default": 4,
                "description": "Squares on each side; at least 2.",
            },
            "level": {
                "type": "string",
                "enum": ["easy", "hard"],
                "default": "easy",
                "description": "How hard it is.",
            },
        },
        "required": [],
        "additionalProperties": False,
    }


def test_a_source_folder_is_looked_into(tmp_path: Path) -> None:
    folder = write_environment(tmp_path)
    (folder / "src").mkdir()
    (folder / "maze_env").rename(folder / "src" / "maze_env")

    assert set(settings_schema(folder)["properties"]) == {"size", "level"}


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("a: int", {"type": "integer"}),
        ("a: float = 1", {"type": "number", "default": 1.0}),
        ("a: bool = True", {"type": "boolean", "default": True}),
        (
            "a: str | None = None",
            {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        ),
        ("a: list[int] = [1]", {"type": "array", "items": {"type": "integer"}, "default": [1]}),
        ("a: tuple[int, ...] = ()", {"type": "array", "items": {"type": "integer"}, "default": []}),
        ("a: dict[str, int] = {}", {"additionalProperties": {"type": "integer"}}),
        ("*, a: Literal[1, 2] = 2", {"enum": [1, 2], "default": 2}),
        ("a: Color = Color.RED", {"$ref": "#/$defs/Color", "default": "red"}),
        ("a: 'Path' = Path('x')", {"format": "path", "type": "string", "default": "x"}),
        ("a: Annotated[int, Ge(1)] = 2", {"minimum": 1}),
    ],
)
def test_each_kind_of_type_has_its_schema(
    tmp_path: Path, signature: str, expected: dict[str, Any]
) -> None:
    imports = (
        "import enum\nfrom pathlib import Path\nfrom typing import Annotated, Literal\n"
        "from annotated_types import Ge\nclass Color(enum.Enum): RED = 'red'\n"
    )
    found = schema(tmp_path, signature, imports)

    assert expected.items() <= found["properties"]["a"].items()
    assert found["required"] == ([] if "=" in signature else ["a"])
    assert ("$defs" in found) == ("$ref" in expected)


def test_everything_that_is_no_setting_is_named_at_once(tmp_path: Path) -> None:
    code = """
class Odd: ...
def load_environment(
    gone, /, plain, size: int = "x", odd: Odd = None, f: float = float("nan"), *a, **k
): ...
"""
    with pytest.raises(ManifestError) as caught:
        settings_schema(with_code(tmp_path, code))

    assert [problem.split("`")[1] for problem in caught.value.problems] == [
        "gone",
        "plain",
        "odd",
        "a",
        "k",
        "size",
        "f",
    ]
    assert "`plain` has no type. Annotate it" in str(caught.value)
    assert "`size` has the default 'x', which is not of its type" in str(caught.value)


def test_annotations_that_cannot_be_read_are_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="annotations cannot be read: NameError"):
        schema(tmp_path, "a: 'Nowhere' = 1")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nowhere_to_be_found", "No module named 'nowhere_to_be_found'"),
        ("x = 1", "has no attribute 'load_environment'"),
        ("import sys; print('bye'); sys.exit(0)", "bye"),
        ("import os; os._exit(3)", "exit status 3"),
        ("load_environment = 1", "is not a callable"),
    ],
)
def test_a_package_that_cannot_be_imported_says_why(
    tmp_path: Path, code: str, message: str
) -> None:
    with pytest.raises(BuildError, match=message) as caught:
        settings_schema(with_code(tmp_path, code))

    assert "pip install -e" in str(caught.value)


def test_an_import_that_never_ends_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(note)!r}, "w").write(str(child.pid))
print("downloading the world", flush=True)
time.sleep(600)
"""
    folder = with_code(tmp_path / "maze", code)

    # Long enough for an interpreter to start in.
    with pytest.raises(BuildError, match=r"took more than 15 s(.|\n)*downloading the world"):
        settings_schema(folder, timeout_s=15)
    wait_until(lambda: _has_ended(int(note.read_text())))


def _has_ended(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_what_the_package_prints_and_where_it_stands_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "json.py"
    trap.write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    code = "print('{}')\nimport os; os.chdir('/')\ndef load_environment(a: int): ...\n"

    assert schema_of([with_code(tmp_path / "m", code)], "maze_env:load_environment")["required"]


def test_importing_leaves_no_bytecode_behind(tmp_path: Path) -> None:
    settings_schema(write_environment(tmp_path))

    assert not list(tmp_path.rglob("__pycache__"))


def test_argument_texts_follow_the_google_style() -> None:
    docstring = """Do it.

    Args:
        one: First: with colon.
        two (int, optional): Second,
            on two lines.

        *rest: Others.
        not an argument

    Returns:
        three: Nothing.
    """
    import inspect

    assert argument_texts(inspect.cleandoc(docstring)) == {
        "one": "First: with colon.",
        "two": "Second, on two lines.",
        "rest": "Others. not an argument",
    }
    assert argument_texts("") == {}


def test_a_description_without_a_docstring_is_none() -> None:
    def load_environment(size: int = 1) -> None: ...

    schema, problems = describe(load_environment)

    assert problems == []
    assert schema["properties"] == {"size": {"type": "integer", "default": 1}}
