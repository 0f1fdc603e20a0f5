"""Loading beside broken packages, with odd settings, from odd folders."""

import enum
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop import load, run_sync
from strop.errors import EnvironmentLoadError, ManifestError, SettingsError
from strop.hub.load import installed_names, load_project
from strop.hub.settings import check_settings, recorded_settings
from strop.models.scripted import ScriptedModel
from strop.trajectory_json import decode_line, encode_line
from tests.sdk.hub.environments import write_environment
from tests.sdk.published import MODULE
from tests.sdk.test_load import place, record, site  # noqa: F401 - a fixture

GROUP = b"[strop.environments]\n"
METADATA = b"Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n"


def break_beside(folder: Path, **files: bytes) -> Path:
    dist_info = folder / "broken-1.0.dist-info"
    dist_info.mkdir()
    for name, content in files.items():
        (dist_info / name.replace("__", ".")).write_bytes(content)
    return dist_info


UNREADABLE = {
    "listing without a value": {"METADATA": METADATA, "entry_points__txt": GROUP + b"nonsense\n"},
    "listing in another encoding": {"METADATA": METADATA, "entry_points__txt": b"\xff\xfe\x00"},
    "metadata in another encoding": {"METADATA": b"Name: \xff\n"},
}
HARMLESS: dict[str, dict[str, bytes]] = {
    "nothing": {},
    "empty metadata": {"METADATA": b""},
    "metadata without a name": {"METADATA": b"Version: 1.0\n"},
    "listing without a group": {"METADATA": METADATA, "entry_points__txt": b"x = y\n"},
    "an empty listing": {"METADATA": METADATA, "entry_points__txt": b""},
    "a broken record": {"METADATA": METADATA, "strop-install__json": b"{"},
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_package_that_cannot_be_read_is_told_and_the_others_load(case: str, site: Path) -> None:  # noqa: F811
    place(site)
    broken = break_beside(site, **UNREADABLE[case])

    with pytest.warns(UserWarning, match=r"broken-1\.0\.dist-info cannot be read.*passed over"):
        names = installed_names()
    assert "maze" in names
    assert "broken" not in names
    with pytest.warns(UserWarning, match="passed over"):
        assert load("maze").identity.name == "maze"
    assert broken.is_dir()


@pytest.mark.parametrize("case", HARMLESS)
def test_a_package_that_offers_nothing_is_passed_over(case: str, site: Path) -> None:  # noqa: F811
    place(site)
    break_beside(site, **HARMLESS[case])

    assert load("maze").identity.name == "maze"
    with pytest.raises(EnvironmentLoadError, match="broken is not installed here"):
        load("broken")


@pytest.mark.parametrize(
    "value",
    ["maze", "maze:", "maze:missing", "maze:ANSWER", "missing:load", "ma ze:load", ":x", "a:b:c"],
)
def test_an_entry_point_that_leads_nowhere_is_named(value: str, site: Path) -> None:  # noqa: F811
    dist_info = place(site)
    (dist_info / "entry_points.txt").write_text(f"[strop.environments]\nmaze = {value}\n")

    with pytest.raises(EnvironmentLoadError, match="maze") as caught:
        load("maze")
    assert value in str(caught.value)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise RecursionError", "RecursionError"),
        ("return None", "returned NoneType, not an Environment"),
        ("return 'x'", "returned str, not an Environment"),
        ("yield 1", "returned generator, not an Environment"),
    ],
)
def test_a_function_that_makes_no_environment_is_named(body: str, said: str, site: Path) -> None:  # noqa: F811
    place(site, text=f"def load_environment():\n    {body}\n")

    with pytest.raises(EnvironmentLoadError, match=f"maze's `load_environment` .*{said}"):
        load("maze")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("import missing_module_of_nobody", "ModuleNotFoundError"),
        ("def load_environment(:", "SyntaxError"),
        ("\x00", "SyntaxError|ValueError"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(text: str, said: str, site: Path) -> None:  # noqa: F811
    place(site, text=text)

    with pytest.raises(EnvironmentLoadError, match=rf"cannot be imported from `maze.*{said}"):
        load("maze")


def test_a_version_that_is_none_is_another_than_was_asked_for(site: Path) -> None:  # noqa: F811
    dist_info = place(site)
    metadata = dist_info / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 0.1.0", "Version: one"))

    for selector in ("@0.1.0", "@~=0.1", "@>0"):
        with pytest.raises(EnvironmentLoadError, match="maze one is installed"):
            load(f"ada/maze{selector}")
    with pytest.warns(UserWarning, match="unknown owner"):
        assert load("ada/maze").identity.version == "one"


@pytest.mark.parametrize(
    "content", ["", "null", "[]", "{}", '{"owner": "ada"}', "\x00", '{"hub":' * 1000]
)
def test_a_record_that_cannot_be_read_proves_nothing(content: str, site: Path) -> None:  # noqa: F811
    dist_info = place(site)
    record(dist_info)
    (dist_info / "strop-install.json").write_text(content)

    assert load("maze").identity.state == "unknown owner"


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int = 0
    tags: tuple[str, ...] = ()


def load_odd(
    folder: Path,
    day: date = date(2026, 1, 2),
    names: frozenset[str] = frozenset(),
    colour: Colour = Colour.RED,
    point: Point = Point(),  # noqa: B008 - frozen in effect
    level: Literal[1, 2] = 1,
    share: float = 0.5,
    raw: bytes = b"",
    **more: Any,
) -> None: ...


def test_settings_of_every_type_are_recorded_as_json_that_gives_them_back() -> None:
    given = {
        "folder": "/tmp/a b",
        "day": "2026-03-04",
        "names": '["a"]',
        "colour": "red",
        "point": '{"x": 3, "tags": ["t"]}',
        "level": "2",
        "raw": b"\xff\x00",
    }

    values = check_settings(load_odd, given, where="odd")
    recorded = recorded_settings(values)

    assert values["folder"] == Path("/tmp/a b")
    assert values["point"] == Point(3, ("t",))
    assert json.loads(json.dumps(recorded)) == recorded
    assert recorded["folder"] == "/tmp/a b"
    assert (recorded["day"], recorded["names"], recorded["colour"]) == ("2026-03-04", ["a"], "red")
    assert recorded["point"] == {"x": 3, "tags": ["t"]}
    again = check_settings(load_odd, {k: v for k, v in recorded.items() if k != "raw"}, where="odd")
    assert {k: v for k, v in again.items() if k != "raw"} == {
        k: v for k, v in values.items() if k != "raw"
    }


ODD_VALUES: list[Any] = [object(), len, 1j, {1, 2}, {1: 2}, float("inf"), 10**30, "\ud800", b"\xff"]


@pytest.mark.parametrize("value", ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_any_value_of_a_setting_can_be_written_into_a_trajectory(value: Any) -> None:
    recorded = recorded_settings({"value": value})

    assert json.loads(json.dumps(recorded)) == recorded


def test_a_setting_that_is_a_path_does_not_stop_a_run_at_its_first_trajectory(site: Path) -> None:  # noqa: F811
    text = MODULE.format(answer="42").replace("size: int = 1", "path: 'Path', size: int = 1")
    place(site, text="from pathlib import Path\n" + text)

    environment = load("maze", path="/tmp/tasks.jsonl", size="2")
    task = environment.tasks["train"][0]
    trajectory = run_sync(environment.rollout(task, ScriptedModel.constant("42")))

    assert trajectory.reward == 1.0
    found = decode_line(encode_line(trajectory))
    assert found.settings == {"path": "/tmp/tasks.jsonl", "size": 2}


def test_settings_stand_in_the_order_of_the_signature_then_as_they_were_given() -> None:
    extra = {name: name for name in "zyxwvutsrq"}

    values = check_settings(load_odd, extra | {"folder": "/"}, where="odd")

    assert list(values)[-10:] == list("zyxwvutsrq")
    assert next(iter(values)) == "folder"


@given(st.text(max_size=20))
def test_any_text_is_a_setting_or_is_refused_by_name(text: str) -> None:
    def load_one(size: int = 1, sizes: list[int] | None = None) -> None: ...

    for name in ("size", "sizes"):
        try:
            values = check_settings(load_one, {name: text}, where="maze")
        except SettingsError as error:
            found = str(error)
        else:
            found = f"`{name}`"
            assert values[name] is None or isinstance(values[name], int | list)
        assert f"`{name}`" in found


@pytest.mark.parametrize("text", ["[" * 10_000, "9" * 5000, '"' * 1000, "{" * 1000, "\x00"])
def test_a_hostile_setting_is_refused_shortly(text: str) -> None:
    def load_one(sizes: list[int]) -> None: ...

    with pytest.raises(SettingsError, match="`sizes`") as caught:
        check_settings(load_one, {"sizes": text}, where="maze")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ["with space", "ünï-\U0001f600", "-dash", "a'b\"c", "dist"])
def test_a_project_loads_from_any_folder(name: str, tmp_path: Path) -> None:
    folder = write_environment(tmp_path / name, code=MODULE.format(answer="42"))
    code = f"""
import sys
from pathlib import Path
from strop.hub.load import load_project
environment = load_project(Path({str(folder)!r}), size="3")
print(len(environment.tasks["train"]), environment.identity.full_name)
"""
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )

    # A command line in the locale C cannot hold such a name at all.
    if not name.isascii():
        finished = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
    assert finished.stdout == "3 maze-env\n", finished.stderr


@pytest.mark.parametrize("kind", ["file", "absent", "empty", "link to nothing", "folder for it"])
def test_a_folder_that_is_no_project_is_named(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    if kind == "file":
        folder.write_text("")
    elif kind in ("empty", "folder for it"):
        folder.mkdir()
    elif kind == "link to nothing":
        folder.symlink_to(tmp_path / "nothing")
    if kind == "folder for it":
        (folder / "pyproject.toml").mkdir()

    with pytest.raises(ManifestError, match="project"):
        load_project(folder)
