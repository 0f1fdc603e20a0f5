"""Many references to exact versions in one round trip."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hub_server.author import Author
from tests.hub_server.running_hub import RunningHub


@pytest.fixture
def author(hub: RunningHub, tmp_path: Path) -> Author:
    return Author.new(hub, tmp_path)


def versions_of(items: list[dict[str, Any]]) -> list[str]:
    return [item.get("version") or item["code"] for item in items]


def test_every_form_of_reference_resolves_in_order(author: Author) -> None:
    versions = author.publish("maze", "1.2.0", "1.2.5", "1.10.0", "2.0rc1")
    name = f"{author.owner}/maze"
    selectors = ["", "@latest", "@1.2", "@~=1.2.0", "@<1.10", "@>=2.0rc1", "@2.0.0rc1"]
    digest = versions[1]["digest"]

    items = author.resolve(*(name + selector for selector in selectors), f"{name}@sha256:{digest}")

    expected = ["1.10.0", "1.10.0", "1.2.0", "1.2.5", "1.2.5", "2.0rc1", "2.0rc1", "1.2.5"]
    assert versions_of(items) == expected
    assert [item["reference"] for item in items][2] == f"{name}@1.2"


def test_an_entry_has_all_that_an_installer_needs(author: Author) -> None:
    (version,) = author.publish("maze")

    (item,) = author.resolve(f"{author.owner}/maze")

    assert item["digest"] == item["wheel"]["sha256"] == version["digest"]
    assert item["manifest"] == version["manifest"]
    assert item["source"]["kind"] == "source"
    wheel = httpx.get(item["wheel"]["url"]).content
    assert len(wheel) == item["wheel"]["size_bytes"]


def test_a_reference_that_fails_does_not_hinder_the_others(author: Author) -> None:
    author.publish("maze", "1.0")
    name = f"{author.owner}/maze"

    items = author.resolve(
        "nonsense", f"{name}@9.9", f"{author.owner}/nowhere", name, f"{name}@tag"
    )

    expected = ["invalid_reference", "version_not_found", "not_found", "1.0", "version_not_found"]
    assert versions_of(items) == expected
    assert f"`{name}`" in items[1]["detail"]


def test_a_digest_prefix_must_be_long_enough_and_fit_one_version(author: Author) -> None:
    (version,) = author.publish("maze")
    name = f"{author.owner}/maze"

    items = author.resolve(
        f"{name}@sha256:{version['digest'][:12]}",
        f"{name}@sha256:{version['digest'][:11]}",
        f"{name}@sha256:{'0' * 64}",
    )

    assert versions_of(items) == ["0.1.0", "invalid_reference", "version_not_found"]


def test_a_digest_resolves_only_under_the_name_that_it_belongs_to(author: Author) -> None:
    (hidden,) = author.publish("hidden", visibility="private")
    author.publish("open")

    (item,) = author.resolve(f"{author.owner}/open@sha256:{hidden['digest']}")

    assert item["code"] == "version_not_found"


def test_a_yanked_version_resolves_only_when_named_and_with_a_warning(author: Author) -> None:
    author.publish("maze", "1.0", "1.1")
    author.yank("maze", "1.1", "leaky grader")
    name = f"{author.owner}/maze"

    newest, exact, in_range = author.resolve(name, f"{name}@1.1", f"{name}@>1.0")

    assert (newest["version"], newest["warnings"]) == ("1.0", [])
    assert exact["version"] == "1.1"
    assert "leaky grader" in exact["warnings"][0]
    assert in_range["code"] == "version_yanked"


def test_the_python_version_decides_what_is_passed_over(author: Author) -> None:
    author.publish("maze", "1.0", manifest={"requires-python": ">=3.11"})
    author.publish("maze", "1.5", manifest={"requires-python": ">=3.12"})
    author.publish("maze", "2.0", manifest={"requires-python": ">=3.13"})
    name = f"{author.owner}/maze"

    for python, expected in (("3.11.7", "1.0"), ("3.12.1", "1.5"), ("3.13.0", "2.0")):
        # The exact 1.0 in the same request must not become the best of what is left.
        items = author.resolve(f"{name}@1.0", name, f"{name}@~=1.0", python=python)
        assert versions_of(items)[1] == expected
    assert author.resolve(f"{name}@2.0", python="3.11")[0]["code"] == "python_excluded"


def test_a_python_version_that_is_none_is_the_callers_mistake(hub: RunningHub) -> None:
    with hub.client() as client:
        body = {"references": ["a/b"], "python_version": "snake"}
        response = client.post("/api/v1/resolve", json=body)

    assert response.status_code == 422
    assert "snake" in response.json()["detail"]


def test_private_environments_resolve_for_their_readers_alone(author: Author) -> None:
    author.publish("hidden", visibility="private")
    hidden, absent = (f"{author.owner}/{name}" for name in ("hidden", "absent"))

    ours, theirs = author.resolve(hidden, absent)

    assert ours["detail"].replace("hidden", "absent") == theirs["detail"]
    assert author.resolve(hidden, token=author.reader())[0]["version"] == "0.1.0"


def test_what_is_required_comes_with_it_flat_and_once(author: Author) -> None:
    owner = author.owner
    author.publish("base", "1.0", "1.5", "2.0")
    author.publish("left", manifest={"requires": [f"{owner}/base@~=1.0"]})
    author.publish("right", manifest={"requires": [f"{owner}/base@<1.5"]})
    author.publish("top", manifest={"requires": [f"{owner}/left", f"{owner}/right@latest"]})

    (item,) = author.resolve(f"{owner}/top")

    required = {entry["name"]: entry["version"] for entry in item["requires"]}
    assert required == {"base": "1.0", "left": "0.1.0", "right": "0.1.0"}
    assert all(entry["requires"] == [] for entry in item["requires"])


def test_requirements_in_a_circle_resolve(author: Author) -> None:
    author.publish("a", manifest={"requires": [f"{author.owner}/b"]})
    author.publish("b", manifest={"requires": [f"{author.owner}/a"]})

    (item,) = author.resolve(f"{author.owner}/a")

    assert [entry["name"] for entry in item["requires"]] == ["b"]


def test_requirements_that_nothing_fits_are_named_with_who_asks(author: Author) -> None:
    owner = author.owner
    author.publish("base", "1.0")
    author.publish("top", manifest={"requires": [f"{owner}/base@>=2"]})
    author.publish("gone", manifest={"requires": [f"{owner}/nowhere"]})

    short, absent = author.resolve(f"{owner}/top", f"{owner}/gone")

    assert short["code"] == absent["code"] == "requires_unresolved"
    assert f"{owner}/base@>=2" in short["detail"]
    assert f"{owner}/nowhere" in absent["detail"]


def test_a_warning_about_something_required_reaches_the_caller(author: Author) -> None:
    author.publish("base", "1.0")
    author.publish("top", manifest={"requires": [f"{author.owner}/base@1.0"]})
    author.yank("base", "1.0", "stale")

    (item,) = author.resolve(f"{author.owner}/top")

    assert "stale" in item["warnings"][0]


def test_the_same_request_has_the_same_answer(author: Author) -> None:
    author.publish("maze", "1.0", "1.1")
    references = [f"{author.owner}/maze", "x", f"{author.owner}/maze@<1.1"]

    assert author.resolve(*references) == author.resolve(*references)


@pytest.mark.parametrize("count", [0, 501])
def test_none_and_too_many_references_are_refused(hub: RunningHub, count: int) -> None:
    with hub.client() as client:
        response = client.post("/api/v1/resolve", json={"references": ["a/b"] * count})

    assert response.status_code == 422


def test_five_hundred_missing_names_are_answered(author: Author) -> None:
    items = author.resolve(*(f"{author.owner}/env-{number}" for number in range(500)))

    assert {item["code"] for item in items} == {"not_found"}
