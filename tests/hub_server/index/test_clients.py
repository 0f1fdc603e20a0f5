"""Real packaging clients read the open index."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pypi_simple import ACCEPT_HTML_ONLY, ACCEPT_JSON_ONLY, PyPISimple

from tests.hub_server.author import Author


def pip(author: Author, command: str, *arguments: str, index: str = "") -> str:
    """Run pip against an author's index, or another door of the hub; gives all it printed."""
    url = f"{author.hub.url}{index or f'/owners/{author.owner}/simple/'}"
    options = ["--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--index-url", url]
    finished = subprocess.run(
        [sys.executable, "-m", "pip", command, *options, *arguments],
        env=os.environ | {"PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout + finished.stderr


def test_pip_installs_the_newest_version_by_name(author: Author, name: str, tmp_path: Path) -> None:
    author.publish(name, "0.9", "0.10", "1.0rc1", files={"maze_module.py": "X = 1\n"})

    pip(author, "install", "--target", str(tmp_path / "site"), name)

    assert (tmp_path / "site" / "maze_module.py").read_text() == "X = 1\n"
    assert list((tmp_path / "site").glob("*-0.10.dist-info"))


def test_pip_downloads_a_pinned_yanked_version_with_its_reason(
    author: Author, name: str, tmp_path: Path
) -> None:
    author.publish(name, "1.0", "1.1+git.5")
    author.yank(name, "1.1+git.5", "leaky grader")

    newest = pip(author, "download", "--dest", str(tmp_path / "a"), name, index="/simple/")
    pinned = pip(author, "download", "--dest", str(tmp_path / "b"), f"{name}==1.1+git.5")

    assert "leaky grader" not in newest
    assert "leaky grader" in pinned
    assert [path.name.split("-")[1] for path in (tmp_path / "a").iterdir()] == ["1.0"]
    assert [path.name.split("-")[1] for path in (tmp_path / "b").iterdir()] == ["1.1+git.5"]


def test_pip_checks_the_digest_that_the_hub_states(
    author: Author, name: str, tmp_path: Path
) -> None:
    (version,) = author.publish(name)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"{name}==0.1.0 --hash=sha256:{version['digest']}\n")

    pip(author, "download", "--dest", str(tmp_path / "a"), "-r", str(requirements))


def test_pip_passes_over_what_the_python_excludes(
    author: Author, name: str, tmp_path: Path
) -> None:
    author.publish(name, "1.0", manifest={"requires-python": ">=3.11"})
    author.publish(name, "2.0", manifest={"requires-python": ">=4"})

    pip(author, "download", "--dest", str(tmp_path / "a"), name)

    assert [path.name.split("-")[1] for path in (tmp_path / "a").iterdir()] == ["1.0"]


@pytest.mark.parametrize("accept", [ACCEPT_JSON_ONLY, ACCEPT_HTML_ONLY])
def test_a_strict_client_reads_both_forms_alike(
    author: Author, name: str, tmp_path: Path, accept: str
) -> None:
    (version,) = author.publish(name, manifest={"requires-python": ">=3.11"})
    author.yank(name, "0.1.0", "leaky <grader>")

    with PyPISimple(f"{author.hub.url}/simple/", accept=accept) as client:
        page = client.get_project_page(name)
        (package,) = page.packages
        metadata = client.get_package_metadata(package)
        client.download_package(package, tmp_path / "maze.whl")
        assert name in client.get_index_page().projects

    assert page.repository_version == "1.4"
    assert package.digests == {"sha256": version["digest"]}
    assert (package.requires_python, package.yanked_reason) == (">=3.11", "leaky <grader>")
    assert f"Name: {name}\n" in metadata
