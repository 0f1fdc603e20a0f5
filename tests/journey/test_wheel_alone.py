"""A hub from the built wheel alone, outside the checkout: it creates its own database."""

import json
import subprocess
import urllib.request
import venv
from pathlib import Path

import pytest

from demo.hub import create_hub, serve_hub

pytestmark = pytest.mark.xdist_group("journey")


@pytest.fixture(scope="module")
def strop(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install 'strop[hub]'` from the wheel, in a virtual environment of its own."""
    folder = tmp_path_factory.mktemp("operator")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", f"strop[hub] @ {wheel.as_uri()}"]
    subprocess.run(install, check=True, cwd=folder, stdin=subprocess.DEVNULL)
    return python.with_name("strop")


def test_a_hub_starts_from_the_wheel_alone(
    strop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert create_hub(tmp_path, strop)
    with serve_hub(tmp_path, strop) as address:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{address}/api/v1/environments/strop/strop") as reply:
            shown = json.load(reply)
    assert shown["latest"]["version"].startswith("0.1.0")


def test_the_wheel_carries_migrations_templates_and_the_scaffold(strop: Path) -> None:
    (packages,) = strop.parents[1].glob("lib/python*/site-packages")
    assert list(packages.glob("strop_hub/migrations/versions/*.py"))
    assert list(packages.glob("strop_hub/web/templates/*.html"))
    assert list(packages.glob("strop/scaffold/template/**/*"))
    assert (packages / "strop" / "py.typed").is_file()
