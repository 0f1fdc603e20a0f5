"""What an environment pulls in is counted from what is installed, by a real installer."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from strop.errors import ManifestError
from strop.hub.manifest import read_requirements
from strop.testing.weight import MOST_BYTES, MOST_DISTRIBUTIONS, Weight, weigh
from tests.factories import a_wheel

WEIGH = """
import json, sys
from dataclasses import asdict
from strop.testing.weight import weigh
found = {}
for asked in json.loads(sys.argv[1]):
    weight = weigh(asked)
    found[" ".join(asked)] = {**asdict(weight), "told": weight.finding().message}
print(json.dumps(found))
"""
HEAVY = "x = '" + "y" * 3_000_000 + "'\n"
PACKAGES = {
    "heavy": ["shared>=1"],
    "light": ["shared", "heavy", "pydantic", "httpx>=0.1", "strop"],
    "shared": [],
    "stranger": [],
    "base": ["more; extra == 'big'", "never; python_version < '3'"],
    "more": ["deep; extra == 'x'"],
    "deep": [],
    "lacking": ["absent-thing>=2", "stranger>=3"],
    "one": ["two[a]"],
    "two": ["one", "one[b]; extra == 'a'"],
}
ASKED = [
    ["light", "heavy"],
    ["heavy", "strop>=0.1", "packaging"],
    [],
    ["base"],
    ["base[big]"],
    ["base; python_version < '3'"],
    ["base[big]", "more[x]"],
    ["lacking", "Also_Absent"],
    ["one"],
    ["pointed"],
]
EDITABLE = """
[project]
name = "pointed"
version = "1.0"
[build-system]
requires = []
build-backend = "hatchling.build"
[tool.hatch.build]
dev-mode-dirs = ["."]
[tool.hatch.build.targets.wheel]
include = ["pointed.py"]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages that pip has installed."""
    folder = tmp_path_factory.mktemp("site")
    wheels = [
        a_wheel(
            folder / "wheels" / name,
            name=name,
            version="1.0",
            files={f"{name}.py": HEAVY if name == "heavy" else "x = 1\n"},
            manifest={"dependencies": dependencies},
            is_foreign=True,
        )
        for name, dependencies in PACKAGES.items()
    ]
    source = folder / "source"
    source.mkdir()
    (source / "pyproject.toml").write_text(EDITABLE)
    (source / "pointed.py").write_text("x = 1\n")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-compile"]
    target = ["--target", str(folder / "installed")]
    packages = [*map(str, wheels), "--editable", str(source)]
    command = [sys.executable, "-m", "pip", "install", *options, *target, *packages]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    return folder / "installed"


@pytest.fixture(scope="module")
def weights(site: Path) -> dict[str, dict[str, Any]]:
    """What a process that sees the folder finds, by what it was asked for."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    command = [sys.executable, "-c", WEIGH, json.dumps(ASKED)]
    result = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    found: dict[str, dict[str, Any]] = json.loads(result.stdout)
    return found


def test_the_closure_is_counted_once_with_what_lies_on_the_disk(
    site: Path, weights: dict[str, dict[str, Any]]
) -> None:
    weight = weights["light heavy"]

    assert weight["sizes"].keys() == {"heavy", "light", "shared"}
    assert weight["missing"] == weight["unmeasured"] == []
    files = [file for file in site.rglob("*heavy*") if file.is_file()]
    files += [file for folder in site.glob("heavy-*") for file in folder.iterdir()]
    on_disk = sum(file.stat().st_size for file in files)
    assert weight["sizes"]["heavy"] == on_disk > 3_000_000
    assert "needs 3 distributions" in weight["told"]
    assert f"(heavy {on_disk / 1e6:.1f} MB, " in weight["told"]


def test_what_strop_needs_itself_is_not_counted(weights: dict[str, dict[str, Any]]) -> None:
    assert weights["heavy strop>=0.1 packaging"]["sizes"].keys() == {"heavy", "shared"}
    assert weights[""]["sizes"] == {}


def test_extras_and_markers_count_where_they_are_asked_for(
    weights: dict[str, dict[str, Any]],
) -> None:
    assert weights["base"]["sizes"].keys() == {"base"}
    assert weights["base[big]"]["sizes"].keys() == {"base", "more"}
    assert weights["base; python_version < '3'"]["sizes"] == {}
    assert weights["base[big] more[x]"]["sizes"].keys() == {"base", "more", "deep"}


def test_what_is_missing_or_of_another_version_is_named(
    weights: dict[str, dict[str, Any]],
) -> None:
    weight = weights["lacking Also_Absent"]

    assert weight["sizes"].keys() == {"lacking", "stranger"}
    assert weight["missing"] == ["absent-thing>=2", "also-absent", "stranger>=3 (1.0 is here)"]
    assert "Not here, so not counted: absent-thing>=2" in weight["told"]


def test_a_circle_of_dependencies_comes_to_an_end(weights: dict[str, dict[str, Any]]) -> None:
    assert weights["one"]["sizes"].keys() == {"one", "two"}


def test_an_editable_package_counts_and_is_said_to_be_unmeasured(
    weights: dict[str, dict[str, Any]],
) -> None:
    weight = weights["pointed"]

    assert weight["sizes"] == {"pointed": 0}
    assert weight["unmeasured"] == ["pointed"]
    assert "not measured: pointed" in weight["told"]


@pytest.mark.parametrize(
    ("sizes", "verdict", "told"),
    [
        ({}, "ok", "needs 0 distributions, 0.0 MB"),
        ({"a": MOST_BYTES}, "ok", "500.0 MB"),
        ({"a": MOST_BYTES, "b": 1}, "warning", "more than 40 or 500.0 MB"),
        ({f"d{n}": 1 for n in range(MOST_DISTRIBUTIONS)}, "ok", "needs 40 distributions"),
        ({f"d{n}": 1 for n in range(MOST_DISTRIBUTIONS + 1)}, "warning", "into an extra"),
    ],
)
def test_what_is_heavy_is_warned_of(sizes: Mapping[str, int], verdict: str, told: str) -> None:
    finding = Weight(sizes).finding()

    assert finding.verdict == verdict
    assert told in finding.message


def test_the_interpreter_that_tests_is_weighed_too() -> None:
    weight = weigh(["pytest", "strop"])

    assert "pytest" in weight.sizes
    assert weight.sizes["pytest"] > 100_000
    assert "pydantic" not in weight.sizes


PROJECT = """
[project]
name = "maze-env"
{version}
description = "Find the exit."
{dependencies}

[project.optional-dependencies]
Big_One = ["heavy>=1"]

[project.entry-points."strop.environments"]
maze-env = "maze_env:load_environment"

[tool.strop]
category = "logic"
reward-range = [0, 1]
deterministic = true
sandbox = "none"
requires = ["ada/base-env@~=1.0"]
"""


def project(folder: Path, version: str, dependencies: str) -> Path:
    text = PROJECT.format(version=version, dependencies=dependencies)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_requirements_are_the_projects_its_environments_and_extras_that_are_asked_for(
    tmp_path: Path,
) -> None:
    folder = project(tmp_path, 'version = "0.1.0"', 'dependencies = ["strop>=0.1", "light"]')

    assert read_requirements(folder) == ["strop>=0.1", "light", "base-env"]
    assert read_requirements(folder, ["big-one"]) == ["strop>=0.1", "light", "heavy>=1", "base-env"]
    with pytest.raises(ManifestError, match="has no extra 'small'; it has big-one"):
        read_requirements(folder, ["small"])


def test_dynamic_dependencies_are_read_where_the_project_is_installed(tmp_path: Path) -> None:
    dynamic = 'version = "0.1.0"\ndynamic = ["dependencies"]'
    folder = project(tmp_path, dynamic, "")
    assert read_requirements(folder) is None

    text = (folder / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(text.replace("maze-env", "pytest"))

    requirements = read_requirements(folder)
    assert requirements is not None
    assert any(each.startswith("pluggy") for each in requirements)
