"""A hub can be started from the built wheel alone, outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The contents of this project's wheel, as an installer lays them out."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_carries_the_migrations_and_makes_a_hub(unpacked: Path, tmp_path: Path) -> None:
    assert (unpacked / "strop_hub" / "migrations" / "env.py").is_file()
    program = (
        "import strop_hub, strop_hub.migration as m; "
        "from strop.cli import main; print(strop_hub.__file__, m.script_folder()); "
        f"main(['hub', 'init', '--data', {str(tmp_path / 'hub')!r}, '--admin', 'ada', '--no-sdk'])"
    )
    # What is on PYTHONPATH comes before the checkout that the environment points at.
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split()[:2] == [
        str(unpacked / "strop_hub" / "__init__.py"),
        str(unpacked / "strop_hub" / "migrations"),
    ]
    assert (tmp_path / "hub" / "hub.sqlite3").is_file()
