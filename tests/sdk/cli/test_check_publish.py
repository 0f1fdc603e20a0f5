"""The result of a check comes to the page of the version that it is about, through a real hub."""

import re
from pathlib import Path

import pytest

from strop_hub import admin
from tests.sdk.cli.command import strop
from tests.sdk.cli.conftest import Author


def push(author: Author, project: Path) -> str:
    pushed = author.run("env", "push", project, "--no-isolation", "--json")
    assert pushed.code == 0, pushed.stdout + pushed.stderr
    return str(pushed.document["version"]["digest"])


def test_what_a_check_finds_is_shown_by_the_hub_the_command_and_the_page(
    author: Author, project: Path
) -> None:
    name = f"{author.name}/maze-env"
    digest = push(author, project)
    before = author.run("env", "info", f"{name}@0.1.0")

    checked = author.run("env", "check", project, "--publish", "--json")

    assert checked.code == 0, checked.stdout + checked.stderr
    assert checked.document["published"] == f"{name}@0.1.0"
    assert "check      not checked" in before.stdout
    version = author.run("env", "info", f"{name}@0.1.0", "--json").document
    check = version["check"]
    assert check["digest"] == version["digest"] == digest
    assert check["reported_by"] == author.name
    keys = ("check", "verdict", "message", "reward")
    assert [tuple(each[key] for key in keys) for each in check["findings"]] == [
        tuple(each[key] for key in keys) for each in checked.document["findings"]
    ]
    assert check["measures"] == checked.document["measures"]
    shown = author.run("env", "info", name).stdout
    assert re.search(rf"check +passed: .*\d+ ok.* \(reported by {author.name}, 20", shown), shown
    assert re.search(r"dependencies +0 beyond Strop, 0 B installed", shown)
    page = author.hub.get(f"/{name}").text
    assert '<h2 id="check">Check</h2>' in page
    assert f"Reported by {author.name}, and not tried by this hub" in page


def test_a_check_that_fails_is_reported_too_without_names_of_the_machine(
    author: Author, project: Path
) -> None:
    (module,) = project.glob("*/__init__.py")
    left = project.resolve() / "left.txt"
    module.write_text(f"{module.read_text()}\nopen({str(left)!r}, 'a').close()\n")
    (project / ".gitignore").write_text("left.txt\n__pycache__/\n")
    push(author, project)

    checked = author.run("env", "check", project, "--publish")

    assert checked.code == 1, checked.stderr
    assert str(left) in checked.stdout
    assert f"The page of {author.name}/maze-env@0.1.0 shows it." in checked.stdout
    version = author.run("env", "info", f"{author.name}/maze-env@0.1.0", "--json").document
    assert version["check"]["is_ok"] is False
    (found,) = [each for each in version["check"]["findings"] if each["check"] == "files"]
    assert "./left.txt" in found["message"]
    assert str(project.resolve()) not in str(version["check"])
    shown = author.run("env", "info", f"{author.name}/maze-env@0.1.0").stdout
    assert re.search(r"check +failed: 1 failed", shown), shown
    assert re.search(r"failed +files\n", shown), shown


def test_only_what_was_pushed_can_be_reported_and_nothing_is_checked_before(
    author: Author, project: Path
) -> None:
    absent = author.run("env", "check", project, "--publish", "--json")
    push(author, project)
    (project / "README.md").write_text("# Changed\n")
    changed = author.run("env", "check", project, "--publish", "--json")
    anonymous = strop("env", "check", project, "--publish", "--json", STROP_HUB=author.hub.url)

    for refused in (absent, changed):
        assert "Push it first" in refused.error["message"]
        assert f"No version of {author.name}/maze-env" in refused.error["message"]
        assert "Checking" not in refused.stderr
    assert "needs a token" in anonymous.error["message"]


@pytest.mark.slow
def test_a_tree_that_changes_during_its_check_is_not_reported(
    author: Author, project: Path
) -> None:
    (module,) = project.glob("*/__init__.py")
    readme = project.resolve() / "README.md"
    # A push imports it as well, for its settings.
    spoiling = (
        f"if 'strop-check-' in str(os.getenv('TMPDIR')): open({str(readme)!r}, 'a').write('x')"
    )
    module.write_text(f"{module.read_text()}\nimport os\n{spoiling}\n")
    push(author, project)

    checked = author.run("env", "check", project, "--publish", "--json")

    assert "has changed during the check" in checked.error["message"]
    version = author.run("env", "info", f"{author.name}/maze-env@0.1.0", "--json").document
    assert version["check"] is None


@pytest.mark.slow
def test_an_organisations_version_is_reported_by_its_member(author: Author, project: Path) -> None:
    team = admin.organisation_add(author.hub.settings, f"team-of-{author.name}", author.name)
    pushed = author.run("env", "push", project, "--no-isolation", "--owner", team)
    assert pushed.code == 0, pushed.stderr
    assert "not checked: run `strop env check --publish`" in pushed.stderr

    own = author.run("env", "check", project, "--publish", "--json")
    checked = author.run("env", "check", project, "--publish", "--owner", team, "--json")

    assert "Push it first" in own.error["message"]
    assert checked.document["published"] == f"{team}/maze-env@0.1.0"
    version = author.run("env", "info", f"{team}/maze-env@0.1.0", "--json").document
    assert version["check"]["reported_by"] == author.name


@pytest.mark.slow
def test_an_extra_is_weighed_where_it_is_asked_for(project: Path) -> None:
    path = project / "pyproject.toml"
    text = path.read_text()
    assert "[project.entry-points" in text
    extra = '[project.optional-dependencies]\nbig = ["pytest"]\n\n[project.entry-points'
    path.write_text(text.replace("[project.entry-points", extra, 1))

    plain = strop("env", "check", project, "--json").document
    heavy = strop("env", "check", project, "--extra", "big").stdout
    wrong = strop("env", "check", project, "--extra", "small", "--json")

    assert plain["measures"]["dependency_count"] == 0
    assert re.search(r"dependencies +[1-9]\d* beyond Strop, .* MB installed", heavy), heavy
    assert "has no extra 'small'; it has big" in wrong.error["message"]
