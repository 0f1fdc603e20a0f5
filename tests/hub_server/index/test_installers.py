"""pip, as it is now, and uv read the open index."""

import os
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

import pytest
from virtualenv.seed.wheels.embed import get_embed_wheel

from tests.hub_server.author import Author, ask

UV = str(Path(sys.executable).with_name("uv"))


def run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    own = {"UV_NO_CONFIG": "0", "PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": ""}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    return subprocess.run(
        command, env=kept | own, cwd=cwd, capture_output=True, text=True, timeout=120
    )


def uv_install(author: Author, target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    index = f"{author.hub.url}/owners/{author.owner}/simple/"
    options = ["--no-config", "--no-cache", "--no-deps", "--index-url", index]
    place = ["--python", sys.executable, "--target", str(target)]
    return run(UV, "pip", "install", *options, *place, *arguments)


def test_a_current_pip_installs_by_name_and_sees_a_yank(
    author: Author, name: str, tmp_path: Path
) -> None:
    author.publish(name, "1.0", "1.1", files={"maze_module.py": "X = 1\n"})
    author.yank(name, "1.1", "leaky")
    wheel = get_embed_wheel("pip", "3.11")
    assert wheel is not None
    index = f"{author.hub.url}/owners/{author.owner}/simple/"

    finished = run(
        *(sys.executable, f"{wheel.path}/pip", "install", "--no-deps", "--no-cache-dir"),
        *("--index-url", index, "--target", str(tmp_path / "site"), name),
    )

    assert finished.returncode == 0, finished.stderr
    assert list((tmp_path / "site").glob("*-1.0.dist-info"))


@pytest.fixture(params=["20.3.4", "22.0.4"])
def old_pip(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A pip of earlier years, to be run as it is; it comes from the configured package index."""
    place = tmp_path / "pip"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(place)]
    finished = subprocess.run(
        [*command, f"pip=={request.param}"], capture_output=True, text=True, timeout=300
    )
    assert finished.returncode == 0, finished.stderr
    (wheel,) = place.iterdir()
    return f"{wheel}/pip"


@pytest.mark.slow
@pytest.mark.parametrize("door", ["/owners/{owner}/simple/", "/auth/owners/{owner}/simple/"])
def test_an_old_pip_installs_passes_over_a_yank_and_checks_digests(
    author: Author, name: str, tmp_path: Path, old_pip: str, door: str
) -> None:
    (first, _) = author.publish(name, "1.0", "1.1+git.5", files={"maze_module.py": "X = 1\n"})
    author.yank(name, "1.1+git.5", "leaky grader")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"{name}==1.0 --hash=sha256:{first['digest']}\n")
    address = author.hub.url.replace("://", f"://__token__:{author.reader()}@")
    index = address + door.format(owner=author.owner)
    options = ["--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--index-url", index]

    def install(*wanted: str) -> subprocess.CompletedProcess[str]:
        target = ["--target", str(tmp_path / uuid.uuid4().hex)]
        return run(sys.executable, old_pip, "install", *options, *target, *wanted)

    newest, pinned = install(name), install(f"{name}==1.1+git.5")
    checked = install("-r", str(requirements))
    requirements.write_text(f"{name}==1.0 --hash=sha256:{'0' * 64}\n")
    forged = install("-r", str(requirements))

    assert newest.returncode == pinned.returncode == checked.returncode == 0, newest.stderr
    assert "leaky grader" not in newest.stdout + newest.stderr
    assert "leaky grader" in pinned.stdout + pinned.stderr
    assert forged.returncode != 0


def test_uv_installs_and_honours_the_time_of_an_upload(
    author: Author, name: str, tmp_path: Path
) -> None:
    author.publish(name, "1.0+git.1")

    before = uv_install(author, tmp_path / "a", "--exclude-newer", "2020-01-01T00:00:00Z", name)
    after = uv_install(author, tmp_path / "b", "--exclude-newer", "2100-01-01T00:00:00Z", name)

    assert before.returncode != 0
    assert after.returncode == 0, after.stderr
    assert list((tmp_path / "b").glob("*-1.0+git.1.dist-info"))


def test_uv_locks_the_digest_that_the_hub_states(author: Author, name: str, tmp_path: Path) -> None:
    (version,) = author.publish(name, manifest={"requires-python": ">=3.11"})
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "user"\nversion = "1"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["{name}"]\n'
        f'[[tool.uv.index]]\nurl = "{author.hub.url}/simple/"\ndefault = true\n'
    )

    finished = run(UV, "lock", "--no-cache", "--python", sys.executable, cwd=tmp_path)

    assert finished.returncode == 0, finished.stderr
    lock = tomllib.loads((tmp_path / "uv.lock").read_text())
    (package,) = [each for each in lock["package"] if each["name"] == name]
    (wheel,) = package["wheels"]
    assert wheel["hash"] == f"sha256:{version['digest']}"
    assert "upload-time" in wheel


def test_uv_locks_a_private_package_by_a_token_that_the_lock_does_not_hold(
    author: Author, name: str, tmp_path: Path
) -> None:
    (version,) = author.publish(name, visibility="private", manifest={"requires-python": ">=3.11"})
    token = author.reader()
    index = f"{author.hub.url}/auth/owners/{author.owner}/simple/"
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "user"\nversion = "1"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["{name}"]\n'
        f'[[tool.uv.index]]\nurl = "{index.replace("://", f"://__token__:{token}@")}"\n'
        f"default = true\n"
    )
    command = [UV, "lock", "--no-cache", "--python", sys.executable]

    before = run(*command, "--exclude-newer", "2020-01-01T00:00:00Z", cwd=tmp_path)
    after = run(*command, "--exclude-newer", "2100-01-01T00:00:00Z", cwd=tmp_path)

    assert before.returncode != 0
    assert after.returncode == 0, after.stderr
    lock = (tmp_path / "uv.lock").read_text()
    assert f"sha256:{version['digest']}" in lock
    assert token not in lock


def test_an_interrupted_download_goes_on_where_it_was(author: Author, name: str) -> None:
    (version,) = author.publish(name)
    wheel = next(file for file in version["files"] if file["kind"] == "wheel")
    url = f"/owners/{author.owner}/files/{name}/{wheel['filename']}"
    whole = ask(author.hub, "GET", url)
    tag = whole.headers["etag"]

    rest = ask(author.hub, "GET", url, range="bytes=100-", if_range=tag)
    changed = ask(author.hub, "GET", url, range="bytes=100-", if_range='"other"')

    assert (rest.status_code, rest.content) == (206, whole.content[100:])
    assert (changed.status_code, changed.content) == (200, whole.content)
