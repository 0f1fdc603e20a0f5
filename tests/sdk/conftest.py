"""A real hub, and virtual environments that are ready in no time."""

import sysconfig
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub_server.running_hub import RunningHub, run_hub

MakeTarget = Callable[..., Path]


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A real hub process, shared by this folder's tests; each makes users of its own."""
    with run_hub(tmp_path_factory.mktemp("sdk-hub") / "data") as running:
        yield running


@pytest.fixture
def make_target(tmp_path: Path) -> MakeTarget:
    """Makes a virtual environment that sees this one's packages, or all of them but `strop`."""
    packages = Path(sysconfig.get_path("purelib"))

    def make(name: str = "target", *, has_sdk: bool = True) -> Path:
        folder = tmp_path / name
        venv.create(folder, symlinks=True, with_pip=False)
        (site,) = folder.glob("lib/python*/site-packages")
        seen = packages
        if not has_sdk:
            seen = folder / "dependencies"
            seen.mkdir()
            for entry in packages.iterdir():
                if "strop" not in entry.name:
                    (seen / entry.name).symlink_to(entry)
        (site / "inherited.pth").write_text(f"import site; site.addsitedir({str(seen)!r})\n")
        return folder

    return make
