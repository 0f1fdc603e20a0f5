"""What a bare installation costs: distributions, megabytes, modules that an import loads."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

DISTRIBUTIONS = 28
MEGABYTES = 36
NOT_OURS = ("pip", "setuptools", "_distutils_hack", "distutils-precedence.pth", "pkg_resources")

LIST_MODULES = "import sys, json; {}; print(json.dumps(sorted(sys.modules)))"


def _loaded(statement: str) -> set[str]:
    command = [sys.executable, "-c", LIST_MODULES.format(statement)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    modules: set[str] = set(json.loads(output))
    return modules


def test_a_bare_installation_is_small(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", str(ROOT)]
    subprocess.run(install, check=True, stdin=subprocess.DEVNULL)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    ours = [path for path in packages.iterdir() if not path.name.startswith(NOT_OURS)]
    files = [file for path in ours for file in (path, *path.rglob("*")) if file.is_file()]
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    distributions = sorted(path.name for path in ours if path.suffix == ".dist-info")
    print(f"{len(distributions)} distributions, {megabytes:.1f} MB")
    assert len(distributions) <= DISTRIBUTIONS, distributions
    assert megabytes <= MEGABYTES


@pytest.mark.parametrize(
    "statement", ["import strop", "from strop import Environment, Task, TaskSet, reward"]
)
@pytest.mark.parametrize(
    "module", ["pydantic", "httpx", "rich", "typer", "click", "packaging", "strop_hub", "fastapi"]
)
def test_importing_the_sdk_loads_nothing_that_authors_do_not_need(
    statement: str, module: str
) -> None:
    assert module not in _loaded(statement)


def test_importing_strop_alone_loads_none_of_its_modules() -> None:
    ours = {name for name in _loaded("import strop") if name.startswith("strop.")}
    assert not ours


@pytest.mark.parametrize("module", ["pydantic", "httpx", "rich.console", "strop_hub", "asyncio"])
def test_the_help_of_the_command_line_loads_no_command_group(module: str) -> None:
    code = (
        "import contextlib, io, sys; sys.argv = ['strop', '--help']\n"
        "from strop.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    )
    assert module not in _loaded(f"exec({code!r})")


def test_importing_the_sdk_starts_nothing() -> None:
    check = (
        "import logging, signal, threading; before = signal.getsignal(signal.SIGINT); "
        "from strop import Environment, Task, TaskSet, reward; "
        "assert threading.active_count() == 1; assert not logging.getLogger().handlers; "
        "assert signal.getsignal(signal.SIGINT) is before"
    )
    _loaded(check)
