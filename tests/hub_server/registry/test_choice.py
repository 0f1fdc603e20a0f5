"""Which version a reference means."""

from dataclasses import replace

import pytest
from packaging.version import Version

from strop.hub.refs import EnvRef
from strop.hub.wire import EnvironmentStatus
from strop_hub.publish.order import sort_key
from strop_hub.registry.candidates import Candidate, Shelf
from strop_hub.registry.choice import (
    UnresolvableError,
    Wanted,
    choose,
    refuse_quarantined_shelf,
    warnings_about,
)


def a_candidate(
    text: str, *, reason: str | None = None, python: str | None = None, digest: str = ""
) -> Candidate:
    number = Version(text)
    return Candidate(
        id=abs(hash(text)),
        environment_id=1,
        text=text,
        sort_key=sort_key(number),
        is_prerelease=number.is_prerelease,
        digest=digest.ljust(64, "0"),
        requires_python=python,
        is_yanked=reason is not None,
        yank_reason=reason,
    )


def chosen(reference: str, *candidates: Candidate, python: str | None = None, **_: object) -> str:
    references = tuple(EnvRef.parse(f"ada/maze@{part}") for part in reference.split(" & "))
    newest_first = sorted(candidates, key=lambda found: found.sort_key, reverse=True)
    return choose(Wanted(references, python), newest_first).text


def several(*texts: str) -> list[Candidate]:
    return [a_candidate(text) for text in texts]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("latest", "1.10.0"),
        ("1.9", "1.9.0"),
        ("~=1.9.0", "1.9.1"),
        ("<1.9", "1.2.0"),
        ("==1.9.*", "1.9.1"),
        (">=1,!=1.10.0", "1.9.1"),
        ("2.0rc1", "2.0rc1"),
        ("==2.0rc1", "2.0rc1"),
        (">=2.0rc1", "2.0rc1"),
        (">=1", "1.10.0"),
        ("<2 & !=1.10.0", "1.9.1"),
    ],
)
def test_the_newest_version_that_fits_is_chosen(reference: str, expected: str) -> None:
    candidates = several("1.2.0", "1.9.0", "1.9.1", "1.10.0", "2.0rc1")

    assert chosen(reference, *candidates) == expected


@pytest.mark.parametrize("reference", ["latest", ">=1", "<3"])
def test_a_pre_release_is_chosen_when_nothing_else_is_left(reference: str) -> None:
    assert chosen(reference, *several("2.0b1", "2.0rc1")) == "2.0rc1"


@pytest.mark.parametrize("reference", ["latest", ">=1", "==1.*"])
def test_yanked_versions_are_passed_over(reference: str) -> None:
    assert chosen(reference, a_candidate("1.0"), a_candidate("1.1", reason="leak")) == "1.0"


@pytest.mark.parametrize("reference", ["1.1", "==1.1", "===1.1", "sha256:abcabcabcabc"])
def test_a_yanked_version_is_chosen_when_named_exactly(reference: str) -> None:
    yanked = a_candidate("1.1", reason="leak", digest="abcabcabcabc")

    assert chosen(reference, a_candidate("1.0"), yanked) == "1.1"
    assert "yanked: leak" in warnings_about(yanked, "ada/maze", Shelf(1, None))[0]


def test_a_range_of_yanked_versions_says_why_and_how_to_have_one_nevertheless() -> None:
    with pytest.raises(UnresolvableError, match=r"1\.1 \(leak\).*ada/maze@1\.1`") as error:
        chosen(">=1.1", a_candidate("1.0"), a_candidate("1.1", reason="leak"))

    assert error.value.code == "version_yanked"


def test_versions_that_the_python_excludes_are_passed_over() -> None:
    candidates = [a_candidate("1.0", python=">=3.11"), a_candidate("2.0", python=">=3.13")]

    assert chosen("latest", *candidates, python="3.11.7") == "1.0"
    assert chosen("latest", *candidates, python="3.13.0") == "2.0"
    assert chosen("latest", *candidates) == "2.0"


def test_a_named_version_that_the_python_excludes_is_refused_with_both_versions() -> None:
    with pytest.raises(UnresolvableError, match=r">=3\.13, and this is 3\.11\.7") as error:
        chosen("2.0", a_candidate("2.0", python=">=3.13"), python="3.11.7")

    assert error.value.code == "python_excluded"


def test_a_requires_python_that_cannot_be_read_excludes_nothing() -> None:
    assert chosen("latest", a_candidate("1.0", python="banana"), python="3.11") == "1.0"


def test_a_digest_that_fits_two_versions_is_refused_with_both() -> None:
    candidates = [a_candidate("1.0", digest="abcabcabcabc1"), a_candidate("1.1", digest="a" * 64)]
    twin = a_candidate("1.2", digest="abcabcabcabc2")

    assert chosen("sha256:abcabcabcabc", *candidates) == "1.0"
    with pytest.raises(UnresolvableError, match=r"1\.2 .*1\.0 .*more digits") as error:
        chosen("sha256:abcabcabcabc", *candidates, twin)
    assert error.value.code == "digest_ambiguous"


def test_what_nothing_fits_names_the_newest_versions() -> None:
    with pytest.raises(UnresolvableError, match=r"newest are 1\.1, 1\.0") as error:
        chosen("~=3.0", *several("1.0", "1.1"))

    assert error.value.code == "version_not_found"


def test_a_tag_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnresolvableError, match="no tag `stable`"):
        chosen("stable", *several("1.0"))


def quarantined(text: str, reason: str = "leaky") -> Candidate:
    return replace(a_candidate(text), is_quarantined=True, quarantine_reason=reason)


def test_a_quarantined_version_is_passed_over() -> None:
    assert chosen("latest", a_candidate("1.0"), quarantined("1.1")) == "1.0"
    assert chosen(">=1", a_candidate("1.0"), quarantined("1.1")) == "1.0"


@pytest.mark.parametrize("reference", ["1.1", "==1.1", ">1.0"])
def test_where_only_a_quarantined_version_fits_its_reason_is_told(reference: str) -> None:
    with pytest.raises(UnresolvableError, match=r"`ada/maze@1\.1` is quarantined: leaky") as error:
        chosen(reference, a_candidate("1.0"), quarantined("1.1"))

    assert error.value.code == "version_quarantined"


@pytest.mark.parametrize("status", [EnvironmentStatus.DEPRECATED, EnvironmentStatus.ARCHIVED])
def test_an_environment_warns_of_its_standing(status: EnvironmentStatus) -> None:
    shelf = Shelf(1, None, status, "use labyrinth")

    refuse_quarantined_shelf(shelf, "ada/maze")
    assert warnings_about(a_candidate("1.0"), "ada/maze", shelf) == [
        f"`ada/maze` is {status}: use labyrinth."
    ]


def test_a_quarantined_environment_has_no_version_to_choose() -> None:
    shelf = Shelf(1, None, EnvironmentStatus.QUARANTINED, "steals secrets")

    with pytest.raises(UnresolvableError, match="steals secrets") as error:
        refuse_quarantined_shelf(shelf, "ada/maze")
    assert error.value.code == "environment_quarantined"


def test_a_tag_stands_for_the_version_that_it_points_to() -> None:
    shelf = Shelf(1, None, tags={"stable": "1.0"})

    assert str(shelf.untagged(EnvRef.parse("ada/maze@stable"))) == "ada/maze@1.0"
    for reference in ("ada/maze@nightly", "ada/maze@latest", "ada/maze@>=1"):
        assert shelf.untagged(EnvRef.parse(reference)) == EnvRef.parse(reference)
