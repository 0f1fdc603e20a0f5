"""The running Strop becomes a wheel: from a checkout reproducibly, else from its RECORD."""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from strop.errors import BuildError
from strop.hub.archive import check_wheel
from strop.hub.building import sdk
from strop.hub.package import build_sdk_wheel
from strop.hub.source import list_source, tree_digest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout with the shape of ours."""
    root = tmp_path / "checkout"
    for path, content in {
        "sdk/strop/__init__.py": "x = 1\n",
        "hub_server/strop_hub/__init__.py": "",
        "migrations/env.py": "",
        "README.md": "# Strop\n",
        "LICENSE": "Apache\n",
        "tests/test_x.py": "",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@pytest.fixture
def installed(checkout: Path, tmp_path: Path) -> Path:
    """Where pip has installed the wheel of that checkout."""
    wheel = sdk.build_checkout(checkout, tmp_path)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "site", wheel], check=True)
    return tmp_path / "site"


def distribution_in(site: Path) -> importlib.metadata.Distribution:
    return next(iter(importlib.metadata.Distribution.discover(name="strop", path=[str(site)])))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_version_names_the_tree_and_the_bytes_follow_from_it(
    checkout: Path, tmp_path: Path
) -> None:
    for name in ("1", "2", "3"):
        (tmp_path / name).mkdir()
    members = [member for member in list_source(checkout) if not member.path.startswith("tests/")]
    digest = tree_digest(checkout, members)

    one = sdk.build_checkout(checkout, tmp_path / "1")
    (checkout / "tests" / "test_x.py").write_text("changed")
    two = sdk.build_checkout(checkout, tmp_path / "2")
    (checkout / "sdk" / "strop" / "__init__.py").write_text("x = 2\n")
    three = sdk.build_checkout(checkout, tmp_path / "3")

    assert check_wheel(one).name == "strop"
    assert one.name == f"strop-0.1.0+{digest[:8]}-py3-none-any.whl"
    assert sha256(one) == sha256(two)
    assert one.name == two.name != three.name


def test_building_a_checkout_changes_nothing_in_it(checkout: Path, tmp_path: Path) -> None:
    before = tree_digest(checkout, list_source(checkout))

    sdk.build_checkout(checkout, tmp_path)

    assert tree_digest(checkout, list_source(checkout)) == before


def test_without_hatchling_a_checkout_says_what_to_install(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hatchling", None)

    with pytest.raises(BuildError, match="pip install hatchling"):
        sdk.build_checkout(checkout, tmp_path)


def test_a_checkout_without_a_version_line_is_refused(checkout: Path, tmp_path: Path) -> None:
    (checkout / "pyproject.toml").write_text('[project]\nname = "strop"\n')

    with pytest.raises(BuildError, match="no line"):
        sdk.build_checkout(checkout, tmp_path)


def test_a_checkout_is_told_from_an_installation(checkout: Path, tmp_path: Path) -> None:
    assert sdk.find_checkout(checkout / "sdk" / "strop") == checkout
    assert sdk.find_checkout(tmp_path / "lib" / "site-packages" / "strop") is None
    (checkout / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert sdk.find_checkout(checkout / "sdk" / "strop") is None


def test_an_installed_strop_is_packed_into_the_wheel_it_came_from(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    original = next(tmp_path.glob("strop-*.whl"))

    again = sdk.pack_installed(distribution_in(installed), tmp_path / "out")

    assert (again.name, sha256(again)) == (original.name, sha256(original))


def test_changed_and_missing_files_of_an_installation_are_named(
    installed: Path, tmp_path: Path
) -> None:
    (installed / "strop" / "__init__.py").write_text("x = 3\n")
    (installed / "strop_hub" / "__init__.py").unlink()

    with pytest.raises(BuildError, match=r"strop/__init__.py, strop_hub/__init__.py. Install"):
        sdk.pack_installed(distribution_in(installed), tmp_path)


def test_an_installation_without_its_record_is_refused(installed: Path, tmp_path: Path) -> None:
    next(installed.glob("*.dist-info")).joinpath("RECORD").unlink()

    with pytest.raises(BuildError, match="its RECORD"):
        sdk.pack_installed(distribution_in(installed), tmp_path)


def test_the_running_strop_installs_runs_and_packs_itself_again(tmp_path: Path) -> None:
    wheel = build_sdk_wheel(tmp_path / "out")
    assert check_wheel(wheel).name == "strop"

    # A virtual environment of its own: pip would remove the Strop that runs this test from ours.
    place = tmp_path / "venv"
    venv.create(place)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", wheel], check=True)
    # Its dependencies are ours; `.pth` files, and with them our own Strop, do not count there.
    environ = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
    code = (
        "import sys, pathlib; from strop.hub.package import build_sdk_wheel;"
        "print(build_sdk_wheel(pathlib.Path(sys.argv[1])))"
    )
    again = subprocess.run(
        [python, "-P", "-c", code, tmp_path / "again"],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    shown = subprocess.run(
        [place / "bin" / "strop", "--help"],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )

    assert sha256(Path(again.stdout.strip())) == sha256(wheel)
    assert "Usage" in shown.stdout
