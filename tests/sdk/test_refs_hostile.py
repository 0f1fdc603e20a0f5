"""References: one parser that takes any text, and one spelling for each meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from strop.errors import InvalidRefError
from strop.hub.refs import EnvRef, normalize_name

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True)
VERSIONS = st.builds(
    lambda release, suffix: ".".join(map(str, release)) + suffix,
    st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
    st.sampled_from(["", "a1", "rc2", ".dev3", ".post4", "+local.5", "a1.dev2+x"]),
)
RANGES = st.lists(
    st.builds(
        lambda sign, version: f"{sign}{version.partition('+')[0]}",
        st.sampled_from([">=", "<=", "!=", "==", ">", "<"]),
        VERSIONS,
    ),
    min_size=1,
    max_size=3,
).map(",".join)
SELECTORS = st.one_of(
    VERSIONS,
    RANGES,
    st.from_regex(r"[b-u][a-z0-9._-]{0,20}", fullmatch=True),
    st.from_regex(r"sha256:[0-9a-f]{12,64}", fullmatch=True),
)


@given(NAMES, NAMES, st.none() | SELECTORS)
def test_the_normal_form_of_a_reference_means_the_same(
    owner: str, name: str, selector: str | None
) -> None:
    ref = EnvRef.parse(f"{owner}/{name}" + (f"@{selector}" if selector else ""))

    assert EnvRef.parse(str(ref)) == ref
    assert str(EnvRef.parse(str(ref))) == str(ref)
    chosen = [ref.version, ref.specifier, ref.tag, ref.digest]
    assert sum(each is not None for each in chosen) == (selector is not None)


@given(NAMES, NAMES, VERSIONS, VERSIONS)
def test_versions_are_one_selector_exactly_when_they_are_equal(
    owner: str, name: str, one: str, other: str
) -> None:
    first, second = (EnvRef.parse(f"{owner}/{name}@{text}") for text in (one, other))

    assert (first == second) == (Version(one) == Version(other))


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_is_refused(text: str) -> None:
    for candidate in (text, f"ada/{text}", f"ada/maze@{text}", f"{text}/maze"):
        try:
            ref = EnvRef.parse(candidate)
        except InvalidRefError:
            continue
        assert str(ref).isascii()
        assert ref.owner == normalize_name(ref.owner)


@given(st.text(st.sampled_from("@/.,<>=~!*aA1-_+:"), max_size=12))
def test_no_selector_of_signs_alone_means_every_version(text: str) -> None:
    try:
        ref = EnvRef.parse(f"ada/maze@{text}")
    except InvalidRefError:
        return
    assert ref.selector
    assert "@" in str(ref)


@pytest.mark.parametrize(
    "selector",
    [",", ",,", "9" * 5000, "1." * 2500 + "1", "==" + "9" * 5000, "a" * 300, ">=1," * 100],
)
def test_a_selector_that_is_empty_or_endless_is_refused_shortly(selector: str) -> None:
    with pytest.raises(InvalidRefError) as caught:
        EnvRef.parse(f"ada/maze@{selector}")

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("ada/maze@1.0.0", "1.0.0"),
        ("ada/maze@v1", "1"),
        ("ada/maze@1.0-alpha.1", "1.0a1"),
        ("ada/maze@>=1,<2", "<2,>=1"),
        ("ada/maze@==1.*", "==1.*"),
        ("ada/maze@===weird", "===weird"),
        ("ada/maze@latest", "latest"),
        ("ada/maze@nightly.2026-01-01", "nightly.2026-01-01"),
        ("ada/maze@sha256:" + "0" * 12, "sha256:" + "0" * 12),
        ("ada/maze", None),
    ],
)
def test_each_kind_of_selector_has_one_spelling(text: str, selector: str | None) -> None:
    assert EnvRef.parse(text).selector == selector


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "ada",
        "ada/",
        "/maze",
        "ada/maze@",
        "ada//maze",
        "ada/maze/more",
        "../maze",
        "ada/..",
        "ada/.maze",
        "ada/maze-",
        "ada/maze ",
        " ada/maze",
        "ada/maze\n",
        "ada/maze@1\n",
        "ada/maze@1 0",
        "ada/maze@1@2",
        "ada/mäze",
        "ada/maze\x00",
        "ada/" + "a" * 101,
        "ada/maze@~=1",
        "ada/maze@Latest",
        "ada/maze@sha256:0123",
        "ada/maze@sha256:" + "0" * 65,
        "ada/maze@sha256:ABCDEFABCDEF",
        "ada/maze@md5:" + "0" * 32,
        "ada/maze@1.0+ü",
        "ada/maze@\u0661",
        "http://hub.example/ada/maze",
    ],
)
def test_what_only_looks_like_a_reference_is_refused(text: str) -> None:
    with pytest.raises(InvalidRefError):
        EnvRef.parse(text)


@given(NAMES)
def test_names_that_an_index_holds_equal_are_one_name(name: str) -> None:
    spellings = {name, name.upper(), name.replace("-", "_"), name.replace("_", ".")}

    assert len({normalize_name(each) for each in spellings}) == 1
    assert normalize_name(normalize_name(name)) == normalize_name(name)


@given(RANGES, VERSIONS)
def test_a_range_chooses_what_the_packaging_library_chooses(text: str, version: str) -> None:
    ref = EnvRef.parse(f"ada/maze@{text}")

    assert ref.specifier is not None
    wanted = SpecifierSet(text).contains(version, prereleases=True)
    assert ref.specifier.contains(version, prereleases=True) == wanted
