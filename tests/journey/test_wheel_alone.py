"""A hub from the built wheel alone, outside the checkout: it creates its own database."""

import json
import urllib.request
from pathlib import Path

import pytest

from demo.hub import create_hub, serve_hub

pytestmark = pytest.mark.xdist_group("journey")


def test_a_hub_starts_from_the_wheel_alone(
    operator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert create_hub(tmp_path, operator)
    with serve_hub(tmp_path, operator) as address:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{address}/api/v1/environments/strop/strop") as reply:
            shown = json.load(reply)
    assert shown["latest"]["version"].startswith("0.1.0")


def test_the_wheel_carries_migrations_templates_and_the_scaffold(operator: Path) -> None:
    (packages,) = operator.parents[1].glob("lib/python*/site-packages")
    assert list(packages.glob("strop_hub/migrations/versions/*.py"))
    assert list(packages.glob("strop_hub/web/templates/*.html"))
    assert list(packages.glob("strop/scaffold/template/**/*"))
    assert (packages / "strop" / "py.typed").is_file()
