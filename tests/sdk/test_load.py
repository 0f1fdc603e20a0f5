"""Loading says what it loads, and never installs."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strop import Environment, StropError, load
from strop.errors import EnvironmentLoadError, InvalidRefError, SettingsError
from strop.hub.installing.record import InstallRecord, inspect_installation, write_install_record
from strop.hub.load import installed_names
from tests.factories import a_wheel
from tests.sdk.published import MODULE

DIGEST = "ab" * 32


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


def place(site: Path, name: str = "maze", text: str | None = None, version: str = "0.1.0") -> Path:
    """Lay an environment out as an installer does; gives its metadata's folder."""
    module = name.replace("-", "_")
    files = {f"{module}.py": text or MODULE.format(answer="42")}
    wheel = a_wheel(site.parent / "wheels", name=name, version=version, files=files)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site / f"{module}-{version}.dist-info"


def record(dist_info: Path, owner: str = "ada") -> None:
    name, version = dist_info.name.removesuffix(".dist-info").split("-")
    values = InstallRecord("http://hub.example", owner, name, version, DIGEST)
    write_install_record(dist_info, values)


@contextmanager
def refused(error: type[StropError], said: str) -> Iterator[None]:
    with pytest.raises(error, match=said):
        yield


def test_a_name_loads_what_is_installed_with_its_settings(site: Path) -> None:
    place(site)

    environment = load("Maze", size="2")

    assert isinstance(environment, Environment)
    assert environment.settings == {"size": 2}
    assert len(environment.tasks["train"]) == 2
    identity = environment.identity
    assert (identity.name, identity.version, identity.state) == ("maze", "0.1.0", "unknown owner")
    assert (identity.owner, identity.digest) == (None, None)


def test_a_recorded_installation_gives_owner_and_digest(site: Path) -> None:
    record(place(site))

    for asked in ("maze", "ada/maze", "Ada/MAZE@~=0.1", f"ada/maze@sha256:{DIGEST[:12]}"):
        identity = load(asked).identity
        assert identity.full_name == "ada/maze"
        assert (identity.digest, identity.state) == (DIGEST, "matches")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("grace/maze", "ada/maze@0.1.0 is installed.*strop env uninstall maze"),
        ("ada/maze@0.2.0", r"maze 0\.1\.0 is installed. Run `strop env install ada/maze@0\.2\.0`"),
        ("ada/maze@>=1", "strop env install ada/maze@>=1"),
        ("ada/maze@sha256:000000000000", "strop env install"),
    ],
)
def test_another_owner_version_or_digest_is_refused(asked: str, said: str, site: Path) -> None:
    record(place(site))

    with refused(EnvironmentLoadError, said):
        load(asked)


def test_altered_files_are_refused_by_reference_and_stamped_by_name(site: Path) -> None:
    record(place(site))
    (site / "maze.py").write_text(MODULE.format(answer="43"))

    with refused(EnvironmentLoadError, r"differs.*maze\.py was altered.*strop env install"):
        load("ada/maze")
    identity = load("maze").identity
    assert (identity.state, identity.digest) == ("differs", None)


def test_an_altered_or_missing_listing_differs(site: Path) -> None:
    dist_info = place(site)
    record(dist_info)
    listing = dist_info / "RECORD"

    listing.write_text(listing.read_text() + "more.py,,\n")
    assert inspect_installation(dist_info).difference == "RECORD was altered"
    listing.unlink()
    assert inspect_installation(dist_info).difference == "RECORD is missing"


def test_an_unknown_owner_loads_with_a_warning_that_mends_it(site: Path) -> None:
    place(site)

    with pytest.warns(UserWarning, match="unknown owner.*strop env install --replace ada/maze"):
        assert load("ada/maze").identity.state == "unknown owner"


def test_an_editable_installation_loads_with_a_warning(site: Path) -> None:
    dist_info = place(site)
    (dist_info / "direct_url.json").write_text(
        '{"url": "file:///x", "dir_info": {"editable": true}}'
    )

    with pytest.warns(UserWarning, match="editable"):
        assert load("ada/maze").identity.state == "editable"
    assert load("maze").identity.owner is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"hub": 1}'])
def test_a_record_that_cannot_be_read_is_no_record(content: str, site: Path) -> None:
    dist_info = place(site)
    (dist_info / "strop-install.json").write_text(content)

    assert inspect_installation(dist_info).state == "unknown owner"


def test_writing_a_record_again_lists_it_once(site: Path) -> None:
    dist_info = place(site)
    record(dist_info)
    record(dist_info, owner="grace")

    assert (dist_info / "RECORD").read_text().count("strop-install.json") == 1
    assert inspect_installation(dist_info).record == InstallRecord(
        "http://hub.example",
        "grace",
        "maze",
        "0.1.0",
        DIGEST,
        inspect_installation(dist_info).record.record_sha256,  # type: ignore[union-attr]
    )


def test_what_is_not_installed_is_told_with_what_is(site: Path) -> None:
    place(site)

    assert "maze" in installed_names()
    with refused(EnvironmentLoadError, r"maze.*strop env install ada/absent@1\.0"):
        load("ada/absent@1.0")
    with refused(EnvironmentLoadError, "strop env install OWNER/absent"):
        load("absent")


def test_two_packages_of_one_name_are_refused(site: Path) -> None:
    place(site)
    other = place(site, "labyrinth")
    (other / "entry_points.txt").write_text(
        "[strop.environments]\nmaze = labyrinth:load_environment\n"
    )

    with refused(EnvironmentLoadError, "labyrinth and maze. Uninstall all but one"):
        load("maze")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere", "cannot be imported.*No module named 'nowhere'"),
        ("raise SystemExit(3)", "cannot be imported.*SystemExit: 3"),
        ("load_environment = 3", "is no function"),
        ("def load_environment(): return 3", "returned int, not an Environment"),
        ("def load_environment(): raise KeyError('x')", "raised KeyError: 'x'"),
    ],
)
def test_a_broken_package_is_named_with_its_fault(text: str, said: str, site: Path) -> None:
    place(site, text=text)

    with refused(EnvironmentLoadError, said):
        load("maze")


def test_settings_that_do_not_fit_are_refused_before_anything_is_made(site: Path) -> None:
    place(site)

    with refused(SettingsError, r"maze does not take these settings:\n.*`depth` is unknown"):
        load("maze", depth=2)


@pytest.mark.parametrize("text", ["", "..", "a/b/c", "ada/", "ada/maze@", "ma ze"])
def test_what_is_neither_name_nor_reference_is_refused(text: str) -> None:
    with refused(InvalidRefError, "no|name"):
        load(text)


def test_loading_knows_nothing_of_installing() -> None:
    program = "import sys, strop.hub.load as _; print('httpx' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.stdout.strip() == "False"
