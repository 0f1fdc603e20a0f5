"""Which version a reference means, against a model that simply tries every version."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from strop.hub.refs import EnvRef
from strop_hub.publish.order import sort_key
from strop_hub.registry.candidates import Candidate
from strop_hub.registry.choice import UnresolvableError, Wanted, choose

NUMBERS = [
    "0.1",
    "0.1.1",
    "0.9",
    "0.10",
    "1.0.dev1",
    "1.0a1",
    "1.0a2.dev1",
    "1.0b1",
    "1.0rc1",
    "1.0rc1.post1",
    "1.0",
    "1.0+local.1",
    "1.0+local.2",
    "1.0.post1.dev1",
    "1.0.post1",
    "1.1",
    "1.1a1",
    "2.0",
    "2.0.1",
    "10.0",
    "1!0.1",
    "1!0.1rc1",
    "2024.1.31",
]
PYTHONS = [None, "3.9.1", "3.11.7", "3.13.0rc1", "2.7"]
REQUIRED = [None, ">=3.11", "<3.12", "==3.11.*", ">=3.9,!=3.11.7", "~=3.11", ">=4"]
SELECTORS = [
    *(f"@{number}" for number in NUMBERS),
    *(f"@=={number}" for number in NUMBERS if "+" not in number),
    "",
    "@latest",
    "@>=1.0",
    "@>=1.0a1",
    "@<1.0",
    "@<=1.0",
    "@~=1.0",
    "@~=0.1",
    "@==1.*",
    "@==1.0.*",
    "@!=1.0",
    "@>1.0",
    "@>0.9,<2",
    "@===1.0",
    "@>=1!0",
    "@<1!0",
    "@>100",
    "@==1.0+local.1",
]


@dataclass(frozen=True)
class Shown:
    """A version as the model sees it."""

    number: Version
    needs: str | None
    is_yanked: bool


def candidate(key: int, shown: Shown) -> Candidate:
    text = str(shown.number)
    return Candidate(
        id=key,
        environment_id=1,
        text=text,
        sort_key=sort_key(shown.number),
        is_prerelease=shown.number.is_prerelease,
        digest=f"{key:064x}",
        requires_python=shown.needs,
        is_yanked=shown.is_yanked,
        yank_reason="bad" if shown.is_yanked else None,
    )


def is_meant(selector: str, number: Version) -> bool:
    if selector in ("", "@latest"):
        return True
    text = selector.removeprefix("@")
    if text[0] in "<>=!~":
        return SpecifierSet(text).contains(number, prereleases=True)
    return number == Version(text)


def names_one(selector: str) -> bool:
    text = selector.removeprefix("@")
    if text in ("", "latest"):
        return False
    if text[0] not in "<>=!~":
        return True
    clauses = text.split(",")
    return any(clause.startswith("==") and not clause.endswith(".*") for clause in clauses)


def model(selector: str, versions: Sequence[Shown], python: str | None) -> str:
    """The version that is meant, or the code of the refusal."""
    meant = [one for one in versions if is_meant(selector, one.number)]
    if not meant:
        return "version_not_found"
    usable = [one for one in meant if not one.is_yanked]
    if not usable and not names_one(selector):
        return "version_yanked"
    usable = usable or meant
    fitting = [
        one
        for one in usable
        if python is None
        or one.needs is None
        or SpecifierSet(one.needs).contains(python, prereleases=True)
    ]
    if not fitting:
        return "python_excluded"
    finals = [one for one in fitting if not one.number.is_prerelease]
    range_names_one = selector[1:2] in tuple("<>=!~") and any(
        Version(clause.lstrip("<>=!~").removesuffix(".*")).is_prerelease
        for clause in selector.removeprefix("@").split(",")
    )
    may_be_early = names_one(selector) and selector[1:2] not in tuple("<>=!~")
    if not finals or may_be_early or range_names_one:
        finals = fitting
    return str(max(one.number for one in finals))


def chosen(selector: str, versions: Sequence[Shown], python: str | None) -> str:
    shelf = [candidate(key, shown) for key, shown in enumerate(versions, 1)]
    shelf.sort(key=lambda found: found.sort_key, reverse=True)
    wanted = Wanted((EnvRef.parse(f"ada/maze{selector}"),), python)
    try:
        return choose(wanted, shelf).text
    except UnresolvableError as error:
        return error.code if "ada/maze" in error.detail else f"a message without the name: {error}"


SHELVES = st.lists(
    st.builds(
        Shown, st.sampled_from(NUMBERS).map(Version), st.sampled_from(REQUIRED), st.booleans()
    ),
    unique_by=lambda shown: shown.number,
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(SHELVES, st.sampled_from(SELECTORS), st.sampled_from(PYTHONS))
def test_a_reference_means_what_trying_every_version_finds(
    versions: list[Shown], selector: str, python: str | None
) -> None:
    assert chosen(selector, versions, python) == model(selector, versions, python)


@settings(max_examples=100, deadline=None)
@given(SHELVES, st.sampled_from(SELECTORS), st.sampled_from(PYTHONS), st.randoms())
def test_the_order_in_which_versions_came_decides_nothing(
    versions: list[Shown], selector: str, python: str | None, random: object
) -> None:
    shuffled = list(versions)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert chosen(selector, shuffled, python) == chosen(selector, versions, python)


@settings(max_examples=200, deadline=None)
@given(SHELVES, st.sampled_from(SELECTORS), st.sampled_from(SELECTORS))
def test_what_fits_two_references_fits_each(versions: list[Shown], first: str, second: str) -> None:
    shelf = [candidate(key, shown) for key, shown in enumerate(versions, 1)]
    shelf.sort(key=lambda found: found.sort_key, reverse=True)
    references = tuple(EnvRef.parse(f"ada/maze{one}") for one in (first, second))
    try:
        found = choose(Wanted(references, None), shelf)
    except UnresolvableError:
        both = [v for v in versions if is_meant(first, v.number) and is_meant(second, v.number)]
        assert all(one.is_yanked for one in both)
        return

    assert is_meant(first, found.number)
    assert is_meant(second, found.number)


@settings(max_examples=150, deadline=None)
@given(SHELVES.filter(bool), st.data())
def test_yanking_the_chosen_version_never_makes_a_range_choose_a_newer_one(
    versions: list[Shown], data: st.DataObject
) -> None:
    selector = data.draw(st.sampled_from(["", "@>=0.1", "@<2", "@==1.*"]))
    before = chosen(selector, versions, None)
    if before in ("version_not_found", "version_yanked"):
        return
    yanked = [
        Shown(one.number, one.needs, one.is_yanked or str(one.number) == before) for one in versions
    ]

    after = chosen(selector, yanked, None)

    assert after != before
    if after != "version_yanked":
        was_final = not Version(before).is_prerelease
        is_final = not Version(after).is_prerelease
        assert Version(after) < Version(before) or (was_final and not is_final)


@pytest.mark.parametrize("number", NUMBERS)
def test_sort_keys_order_versions_as_pep_440_does(number: str) -> None:
    for other in NUMBERS:
        keys = sort_key(Version(number)), sort_key(Version(other))
        numbers = Version(number), Version(other)
        assert (keys[0] < keys[1]) == (numbers[0] < numbers[1])
        assert (keys[0] == keys[1]) == (numbers[0] == numbers[1])


_DIGITS = st.integers(0, 10**12)
_RELEASES = st.lists(_DIGITS, min_size=1, max_size=5).map(lambda parts: ".".join(map(str, parts)))
_ANY_VERSION = st.builds(
    lambda epoch, release, pre, post, dev, local: Version(
        f"{epoch}!{release}{pre}{post}{dev}{local}"
    ),
    st.integers(0, 3),
    _RELEASES,
    st.sampled_from(["", "a0", "a10", "b2", "rc1", "rc10"]),
    st.sampled_from(["", ".post0", ".post3", ".post20"]),
    st.sampled_from(["", ".dev0", ".dev7", ".dev10"]),
    st.sampled_from(["", "+a", "+a.1", "+1", "+10", "+2.a", "+1a"]),
)


@settings(max_examples=400, deadline=None)
@given(_ANY_VERSION, _ANY_VERSION)
def test_sort_keys_of_any_two_versions_compare_as_the_versions(one: Version, two: Version) -> None:
    assert (sort_key(one) < sort_key(two)) == (one < two)
    assert (sort_key(one) > sort_key(two)) == (one > two)
