"""Settings are checked against the signature, all at once."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from strop.errors import EnvironmentLoadError, SettingsError
from strop.hub.settings import check_settings


@dataclass
class Limits:
    low: int
    high: int = 9


def load_environment(
    size: int = 3,
    *,
    ratio: float = 0.5,
    is_hard: bool = False,
    name: str = "x",
    level: Literal["easy", "hard"] = "easy",
    sizes: list[int] | None = None,
    limits: Limits = Limits(1),  # noqa: B008
) -> None: ...


def check(**given: Any) -> dict[str, Any]:
    return check_settings(load_environment, given, where="maze")


def test_defaults_stand_where_nothing_is_given() -> None:
    assert check()["size"] == 3
    assert check()["limits"] == Limits(1)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("size", "5", 5),
        ("ratio", "0.25", 0.25),
        ("is_hard", "true", True),
        ("name", "5", "5"),
        ("level", "hard", "hard"),
        ("sizes", "[1, 2]", [1, 2]),
        ("sizes", "null", None),
        ("limits", '{"low": 2}', Limits(2, 9)),
    ],
)
def test_text_of_the_command_line_becomes_the_type(name: str, text: str, value: object) -> None:
    assert check(**{name: text})[name] == value


def test_values_of_the_right_type_stay() -> None:
    assert check(size=7, sizes=[3], limits=Limits(4))["limits"] == Limits(4)


def test_everything_that_is_wrong_is_named_at_once_with_what_there_is() -> None:
    with pytest.raises(SettingsError) as caught:
        check(size="abc", level="odd", sise=4)

    for part in ("`size`", "'abc'", "`level`", "`sise` is unknown; did you mean `size`?"):
        assert part in str(caught.value)
    assert "It takes: size: int = 3, ratio: float = 0.5" in str(caught.value)


def test_a_missing_setting_is_named() -> None:
    def needs(path: str, count: int) -> None: ...

    with pytest.raises(SettingsError, match=r"`count` is missing\n.*`path` is missing"):
        check_settings(needs, {}, where="maze")


def test_an_environment_without_settings_says_so() -> None:
    def takes_nothing() -> None: ...

    with pytest.raises(SettingsError, match="It takes no settings"):
        check_settings(takes_nothing, {"size": 1}, where="maze")


def test_further_keywords_and_bare_parameters_pass_through() -> None:
    def takes_all(bare, *rest, **more) -> None: ...  # type: ignore[no-untyped-def]

    given = {"bare": "1", "other": [2]}
    assert check_settings(takes_all, given, where="maze") == given


def test_a_signature_that_cannot_serve_is_the_authors_fault() -> None:
    def positional(size: int, /) -> None: ...

    def unknown(size: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    class Opaque: ...

    def opaque(size: Opaque) -> None: ...

    with pytest.raises(EnvironmentLoadError, match="positional-only"):
        check_settings(positional, {}, where="maze")
    with pytest.raises(EnvironmentLoadError, match="Nowhere"):
        check_settings(unknown, {}, where="maze")
    with pytest.raises(EnvironmentLoadError, match="no setting can be made"):
        check_settings(opaque, {"size": 1}, where="maze")
