"""A folder becomes a wheel and a source archive: the same every time, and never by half."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from strop.errors import BuildError, ManifestError, PackageError, SecretFoundError
from strop.hub.archive import check_wheel
from strop.hub.manifest import read_project
from strop.hub.package import Package, add_manifest, build_wheel, pack
from strop.hub.source import extract_source_archive, list_source, tree_digest
from strop.hub.wire import VersionKind
from tests.sdk.hub.environments import write_environment

BACKEND = '''\
"""A backend of its own, in the tree."""
import zipfile
from hatchling.build import build_wheel as _build
def build_wheel(out, config_settings=None, metadata_directory=None):
    {body}
'''


def pack_here(folder: Path, out: Path, *allowed: str) -> Package:
    return pack(folder, out, isolated=False, allowed_secrets=allowed)


def with_backend(folder: Path, body: str) -> Path:
    edits = {'"hatchling.build"': '"backend"\nbackend-path = ["."]'}
    return write_environment(folder, edits=edits, files={"backend.py": BACKEND.format(body=body)})


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_folder_becomes_wheel_and_source(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze")

    package = pack_here(folder, tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "maze_env-0.1.0-py3-none-any.whl",
        "maze_env-0.1.0.source.tar.gz",
    ]
    assert package.manifest == check_wheel(package.wheel).manifest
    assert package.manifest.entry_point == "maze_env:load_environment"
    assert package.settings_schema is not None
    assert package.wheel_sha256 == sha256(package.wheel)
    assert package.source_sha256 == sha256(package.source)
    assert package.tree_digest == tree_digest(folder, list_source(folder))
    assert package.members == tuple(list_source(folder))
    facts = check_wheel(package.wheel)
    assert (facts.kind, facts.sha256) == (VersionKind.STROP, package.wheel_sha256)
    assert facts.readme == "# Maze\n\nFind the exit.\n"
    extract_source_archive(package.source, tmp_path / "back")
    assert tree_digest(tmp_path / "back", list_source(tmp_path / "back")) == package.tree_digest


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    one = pack_here(write_environment(tmp_path / "one"), tmp_path / "out1")
    two_folder = write_environment(tmp_path / "two")
    for path in two_folder.rglob("*"):
        os.utime(path, (1e9, 1e9))
        path.chmod(0o700 if path.is_dir() else 0o600)
    two = pack_here(two_folder, tmp_path / "out2")

    assert (one.wheel_sha256, one.source_sha256) == (two.wheel_sha256, two.source_sha256)


def test_the_authors_folder_is_only_read(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze")
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}

    pack_here(folder, tmp_path / "out")

    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]} == before


def test_what_git_ignores_does_not_reach_the_wheel(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze", files={"maze_env/notes.txt": "private"})
    (folder / "maze_env" / ".gitignore").write_text("notes.txt\n")

    package = pack_here(folder, tmp_path / "out")

    assert "maze_env/notes.txt" not in zipfile.ZipFile(package.wheel).namelist()


def test_pip_installs_the_wheel_and_python_loads_it(tmp_path: Path) -> None:
    wheel = build_wheel(write_environment(tmp_path / "maze"), tmp_path / "out", isolated=False)

    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "site", wheel], check=True)
    code = (
        "import importlib.metadata as m, json; d = m.distribution('maze-env');"
        "print(json.loads(d.read_text('strop.json'))['manifest']['category']);"
        "print([e.load().__name__ for e in d.entry_points])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        check=True,
        capture_output=True,
        text=True,
    )

    assert answer.stdout.split("\n")[:2] == ["logic", "['load_environment']"]


def test_a_dynamic_version_comes_from_the_built_wheel(tmp_path: Path) -> None:
    edits = {'version = "0.1.0"': 'dynamic = ["version"]', "[tool.strop]": "[tool.strop]"}
    folder = write_environment(tmp_path / "maze", edits=edits)
    (folder / "maze_env" / "__about__.py").write_text('__version__ = "3.1"\n')
    with (folder / "pyproject.toml").open("a") as stream:
        stream.write('[tool.hatch.version]\npath = "maze_env/__about__.py"\n')

    package = pack_here(folder, tmp_path / "out")

    assert package.wheel.name == "maze_env-3.1-py3-none-any.whl"
    assert package.manifest.version == "3.1"


def test_the_wrapper_backend_describes_the_wheel_itself(tmp_path: Path) -> None:
    plain = build_wheel(write_environment(tmp_path / "plain"), tmp_path / "a", isolated=False)
    edits = {"hatchling.build": "strop.build"}
    folder = write_environment(tmp_path / "wrapped", edits=edits)

    wrapped = build_wheel(folder, tmp_path / "b", isolated=False)

    assert sha256(wrapped) == sha256(plain)


def test_any_build_frontend_gets_the_manifest_from_the_wrapper(tmp_path: Path) -> None:
    edits = {"hatchling.build": "strop.build", '["hatchling"]': '["strop"]'}
    folder = write_environment(tmp_path / "maze", edits=edits)
    build = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check"]

    subprocess.run([*build, "--outdir", tmp_path / "out", folder], check=True, capture_output=True)

    wheel = tmp_path / "out" / "maze_env-0.1.0-py3-none-any.whl"
    assert check_wheel(wheel).kind is VersionKind.STROP
    assert (tmp_path / "out" / "maze_env-0.1.0.tar.gz").exists()


def test_the_wrapper_asks_for_what_importing_the_package_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import strop.build

    monkeypatch.chdir(write_environment(tmp_path))

    assert "strop>=0.1" in strop.build.get_requires_for_build_wheel()


def test_a_secret_stops_everything_unless_it_is_allowed(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze", files={".env": "", "a.txt": "npm_" + "a1B2" * 9})

    with pytest.raises(SecretFoundError) as caught:
        pack_here(folder, tmp_path / "out", "a.txt")
    assert ".env: a file for secrets" in str(caught.value)
    assert "a.txt" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert pack_here(folder, tmp_path / "out", "./a.txt", ".env").wheel.exists()


def test_a_secret_that_only_the_wheel_holds_is_found(tmp_path: Path) -> None:
    body = (
        "open('maze_env/made.py', 'w').write('npm_' + 'a1B2' * 9);"
        "return _build(out, config_settings, metadata_directory)"
    )

    with pytest.raises(SecretFoundError, match=r"maze_env/made.py:1: npm token"):
        pack_here(with_backend(tmp_path / "maze", body), tmp_path / "out")


@pytest.mark.parametrize("path", ["dist/maze_env-0.1.0-py3-none-any.whl", "x.egg-info/PKG-INFO"])
def test_outputs_of_earlier_builds_are_not_shipped_by_accident(tmp_path: Path, path: str) -> None:
    folder = write_environment(tmp_path / "maze", files={path: ""})

    with pytest.raises(PackageError, match="is the output of a build"):
        pack_here(folder, tmp_path / "out")
    (folder / ".gitignore").write_text("dist/\n*.egg-info/\n")
    pack_here(folder, folder / "dist")


def test_every_problem_of_the_manifest_is_named_before_anything_is_built(tmp_path: Path) -> None:
    edits = {'category = "logic"': "", "[0, 1]": "[1]"}

    for make in (pack_here, lambda a, b: build_wheel(a, b, isolated=False)):
        with pytest.raises(ManifestError) as caught:
            make(write_environment(tmp_path / "maze", edits=edits), tmp_path / "out")
        assert len(caught.value.problems) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('no compiler')", r"exit status 1(.|\n)*RuntimeError: no compiler"),
        ("return ''", "wrote 0 wheels"),
        ("n = _build(out); open(out + '/b.whl', 'w'); return n", "wrote 2 wheels"),
        ("open(out + '/a-1-py3-none-any.whl', 'w'); return ''", "without METADATA"),
        ("zipfile.ZipFile(out + '/a-1-py3-none-any.whl', 'w').close()", "without METADATA"),
    ],
)
def test_a_backend_that_fails_is_named_with_its_last_words(
    tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(BuildError, match=message):
        pack_here(with_backend(tmp_path / "maze", body), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_backend_that_is_missing_is_named_with_what_to_do(tmp_path: Path) -> None:
    edits = {"hatchling.build": "nowhere.api:backend"}

    with pytest.raises(BuildError, match=r"No module named 'nowhere'(.|\n)*pip install nowhere"):
        pack_here(write_environment(tmp_path / "maze", edits=edits), tmp_path / "out")


def test_a_wheel_that_breaks_a_rule_is_not_delivered(tmp_path: Path) -> None:
    body = (
        "n = _build(out); z = zipfile.ZipFile(out + '/' + n, 'a'); z.writestr('CON', '');"
        "z.close(); return n"
    )

    with pytest.raises(PackageError, match="reserved on Windows"):
        pack_here(with_backend(tmp_path / "maze", body), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_links_and_modes_reach_the_wheel(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze", files={"maze_env/run.sh": "#!/bin/sh\n"})
    (folder / "maze_env" / "run.sh").chmod(0o755)
    (folder / "maze_env" / "again.sh").symlink_to("run.sh")

    wheel = zipfile.ZipFile(pack_here(folder, tmp_path / "out").wheel)

    assert wheel.getinfo("maze_env/run.sh").external_attr >> 16 == 0o100755
    assert wheel.read("maze_env/again.sh") == b"#!/bin/sh\n"


def test_an_output_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze")
    (tmp_path / "taken").touch()

    with pytest.raises(PackageError, match="taken cannot be written"):
        pack_here(folder, tmp_path / "taken")


def test_a_manifest_can_be_added_again(tmp_path: Path) -> None:
    folder = write_environment(tmp_path / "maze")
    wheel = build_wheel(folder, tmp_path / "out", isolated=False)

    add_manifest(wheel, read_project(folder), {"type": "object"})

    facts = check_wheel(wheel)
    assert facts.settings_schema == {"type": "object"}
    assert [path.name for path in (tmp_path / "out").iterdir()] == [wheel.name]


def test_an_isolated_build_goes_through_uv_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_environment(tmp_path / "maze")
    plain = build_wheel(folder, tmp_path / "plain", isolated=False)
    program = tmp_path / "bin" / "uv"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/called\n'
        'while [ $# -gt 1 ]; do [ "$1" = --out-dir ] && out=$2; shift; done\n'
        f"cp {plain} $out\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    build_wheel(folder, tmp_path / "out")

    assert (tmp_path / "called").read_text().startswith("build --wheel --python")


def test_an_isolated_build_that_fails_tells_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = shutil.which("git")
    assert git is not None
    monkeypatch.setenv("PATH", str(Path(git).parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(BuildError, match=r"(hatchling|uv)(.|\n)*build without isolation"):
        build_wheel(write_environment(tmp_path / "maze"), tmp_path / "out")


BACKENDS = {
    "hatchling": ("hatchling", "hatchling.build", ""),
    "setuptools": ("setuptools>=77", "setuptools.build_meta", ""),
    "flit": ("flit_core>=3.12", "flit_core.buildapi", '[tool.flit.module]\nname = "maze_env"\n'),
    "poetry": ("poetry-core>=2", "poetry.core.masonry.api", ""),
    "pdm": ("pdm-backend", "pdm.backend", ""),
    "uv": ("uv_build", "uv_build", '[tool.uv.build-backend]\nmodule-root = ""\n'),
}


@pytest.mark.slow
@pytest.mark.parametrize(("requirement", "backend", "extra"), BACKENDS.values(), ids=BACKENDS)
def test_wheels_of_every_common_backend_are_packed_and_accepted(
    tmp_path: Path, requirement: str, backend: str, extra: str
) -> None:
    edits = {'"hatchling"': f'"{requirement}"', "hatchling.build": backend}
    folder = write_environment(tmp_path / "maze", edits=edits)
    with (folder / "pyproject.toml").open("a") as stream:
        stream.write(extra)

    one, two = pack(folder, tmp_path / "1"), pack(folder, tmp_path / "2")

    assert one.wheel_sha256 == two.wheel_sha256
    assert json.dumps(one.settings_schema) == json.dumps(two.settings_schema)
    assert one.manifest.dependencies == ["strop>=0.1"]


@pytest.mark.slow
def test_an_isolated_build_finds_the_wrapper_in_the_running_strop(tmp_path: Path) -> None:
    edits = {"hatchling.build": "strop.build", '["hatchling"]': '["strop", "hatchling"]'}

    package = pack(write_environment(tmp_path / "maze", edits=edits), tmp_path / "out")

    assert package.settings_schema is not None
