"""From push to pull, through a real hub."""

from pathlib import Path

import pytest

from tests.sdk.cli.command import strop
from tests.sdk.cli.conftest import Author
from tests.sdk.loopback import unused_address


def push(author: Author, project: Path, *more: str) -> dict[str, object]:
    pushed = author.run("env", "push", project, "--no-isolation", "--json", *more)
    assert pushed.code == 0, pushed.stdout + pushed.stderr
    document: dict[str, object] = pushed.document
    return document


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


def test_a_dry_run_lists_what_would_be_shipped_and_asks_nobody(project: Path) -> None:
    shown = strop("env", "push", project, "--dry-run", STROP_HUB=unused_address())
    as_json = strop("env", "push", project, "--dry-run", "--json").document

    assert "Nothing was sent." in shown.stdout
    assert {"path": "README.md", "size_bytes": (project / "README.md").stat().st_size} in as_json[
        "files"
    ]
    assert (as_json["name"], as_json["version"]) == ("maze-env", "0.1.0")


def test_a_push_is_listed_shown_and_pulled_exactly(
    author: Author, project: Path, tmp_path: Path
) -> None:
    pushed = push(author, project)
    name = f"{author.name}/maze-env"

    pulled = author.run("env", "pull", f"{name}@~=0.1", "back", cwd=tmp_path)

    assert pushed["outcome"] == "published"
    assert pushed["install"] == f"strop env install {name}@0.1.0"
    assert pushed["url"] == f"{author.hub.url}/{name}"
    assert pulled.code == 0, pulled.stderr
    assert tree(tmp_path / "back") == tree(project)
    assert f"{name}  " in author.run("env", "list", "maze").stdout
    assert "settings   size" in author.run("env", "info", f"{name}@0.1.0").stdout
    assert author.run("env", "info", name, "--json").document["latest_version"] == "0.1.0"


def test_the_same_tree_again_is_already_published_without_a_build(
    author: Author, project: Path
) -> None:
    first = push(author, project)
    again = author.run("env", "push", project)

    assert again.code == 0, again.stderr
    assert "is already published" in again.stdout
    assert str(first["version"]["digest"]) in again.stdout  # type: ignore[index]
    assert "Building" not in again.stderr


def test_another_tree_at_the_version_is_told_to_raise_it(author: Author, project: Path) -> None:
    first = push(author, project)
    (project / "README.md").write_text("# Changed\n")

    refused = author.run("env", "push", project, "--json")

    assert refused.error["code"] == "version_exists"
    assert "Raise `version` in pyproject.toml" in refused.error["message"]
    assert str(first["version"]["digest"]) in refused.error["message"]  # type: ignore[index]


def test_a_secret_is_refused_by_name_unless_allowed(author: Author, project: Path) -> None:
    (project / ".gitignore").write_text("__pycache__/\n")
    (project / ".env").write_text("KEY=value\n")

    refused = author.run("env", "push", project, "--json")

    assert refused.error["code"] == "secret_found"
    assert ".env" in refused.error["message"]
    assert push(author, project, "--allow-secret", ".env")["outcome"] == "published"


def test_a_private_environment_is_hidden_from_others(author: Author, project: Path) -> None:
    push(author, project, "--private")
    name = f"{author.name}/maze-env"

    assert author.run("env", "info", name, "--json").document["is_private"] is True
    stranger = strop("env", "info", name, "--hub", author.hub.url, "--json")
    assert stranger.error["code"] == "not_found"


def test_somebody_elses_name_is_refused(author: Author, project: Path) -> None:
    other, _ = author.hub.new_user()

    refused = author.run("env", "push", project, "--owner", other, "--no-isolation", "--json")

    assert refused.code == 1
    assert other in refused.error["message"]


def test_a_push_without_a_token_leads_to_login(author: Author, project: Path) -> None:
    refused = strop("env", "push", project, "--hub", author.hub.url, "--json")

    assert refused.error["code"] == "config"
    assert f"strop login {author.hub.url}" in refused.error["message"]


def test_a_pull_leaves_what_is_in_the_way(author: Author, project: Path, tmp_path: Path) -> None:
    push(author, project)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").write_text("mine")

    refused = author.run("env", "pull", f"{author.name}/maze-env", tmp_path / "taken", "--json")

    assert refused.error["code"] == "config"
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["mine"]


@pytest.mark.parametrize("command", ["pull", "info", "versions", "install"])
def test_what_is_not_there_is_named(command: str, author: Author, tmp_path: Path) -> None:
    refused = author.run("env", command, "nobody/nothing", "--json", cwd=tmp_path)

    assert refused.error["code"] == "not_found"
    assert list(tmp_path.iterdir()) == []


def test_a_yanked_version_is_passed_over_until_it_is_let_back(
    author: Author, project: Path
) -> None:
    push(author, project)
    name = f"{author.name}/maze-env"

    yanked = author.run("env", "yank", f"{name}@0.1.0", "--reason", "leaky", "--json")

    assert yanked.document["yank_reason"] == "leaky"
    assert "yanked: leaky" in author.run("env", "versions", name).stdout
    assert author.run("env", "pull", name, "--json").code == 1
    assert "is not yanked" in author.run("env", "yank", f"{name}@0.1.0", "--undo").stdout
    assert author.run("env", "info", name, "--json").document["latest_version"] == "0.1.0"
