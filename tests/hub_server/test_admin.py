"""What an operator does on the hub's own machine."""

import stat
from datetime import timedelta
from pathlib import Path

import pytest

from strop.errors import ConfigError, InvalidRefError
from strop.hub.wire import Scope
from strop_hub import admin
from strop_hub.auth import recognise
from strop_hub.db import now
from strop_hub.errors import (
    ForbiddenError,
    HubError,
    InvalidRequestError,
    NameTakenError,
    NotFoundError,
    ReservedNameError,
)
from strop_hub.models import Role
from strop_hub.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a hub with the administrator `root` and the user `ada`."""
    settings = Settings.read({}, data=tmp_path / "hub")
    admin.init(settings, "root", with_sdk=False)
    admin.user_add(settings, "ada")
    return settings


def test_init_makes_an_administrator_whose_token_is_shown_once(tmp_path: Path) -> None:
    settings = Settings.read({}, data=tmp_path / "hub")

    first = admin.init(settings, "Root", with_sdk=False)
    again = admin.init(settings, "root", with_sdk=False)

    assert first.admin == "root"
    assert again.token is None
    assert first.token is not None
    with admin.open_hub(settings) as parts:
        caller = recognise(parts.database, f"Bearer {first.token}")
    assert caller.is_admin
    assert caller.scopes == {Scope.ADMIN}
    assert caller.expires_at is not None
    assert stat.S_IMODE(settings.data.stat().st_mode) == 0o700


def test_init_refuses_a_second_administrator_and_says_how(settings: Settings) -> None:
    with pytest.raises(ForbiddenError, match="strop hub user add eve --admin"):
        admin.init(settings, "eve", with_sdk=False)
    with pytest.raises(ForbiddenError, match="no administrator"):
        admin.init(settings, "ada", with_sdk=False)


@pytest.mark.parametrize("name", ["-ada", "a b", "", "../x"])
def test_what_is_no_name_is_refused(settings: Settings, name: str) -> None:
    with pytest.raises(InvalidRefError):
        admin.user_add(settings, name)


@pytest.mark.parametrize("name", ["api", "simple", "owners", "auth", "Static", "strop", "open_api"])
def test_names_that_are_addresses_are_reserved(settings: Settings, name: str) -> None:
    if name == "open_api":
        assert admin.user_add(settings, name).name == "open-api"
    else:
        with pytest.raises(ReservedNameError, match="Choose another"):
            admin.user_add(settings, name)


def test_users_and_organisations_share_one_space_of_names(settings: Settings) -> None:
    admin.organisation_add(settings, "Lab", "ada")

    for add in (
        lambda: admin.user_add(settings, "lab"),
        lambda: admin.user_add(settings, "ADA"),
        lambda: admin.organisation_add(settings, "ada", "ada"),
    ):
        with pytest.raises(NameTakenError):
            add()
    assert [line.name for line in admin.user_list(settings)] == ["ada", "root"]


def test_an_organisation_keeps_an_owner(settings: Settings) -> None:
    lab = admin.organisation_add(settings, "lab", "ada")

    for role in (Role.READER, None):
        with pytest.raises(InvalidRequestError, match="without an owner"):
            admin.member_set(settings, lab, "ada", role)
    admin.member_set(settings, lab, "root", Role.READER)
    admin.member_set(settings, lab, "root", Role.OWNER)
    admin.member_set(settings, lab, "ada", None)
    admin.member_set(settings, lab, "ada", None)

    with pytest.raises(InvalidRequestError):
        admin.member_set(settings, lab, "root", None)


def test_members_need_an_organisation_and_a_user(settings: Settings) -> None:
    admin.organisation_add(settings, "lab", "ada")

    with pytest.raises(NotFoundError, match="organisation"):
        admin.member_set(settings, "ada", "root", Role.READER)
    with pytest.raises(NotFoundError, match="user add nobody"):
        admin.member_set(settings, "lab", "nobody", Role.READER)


def test_a_token_expires_after_a_year_unless_told_otherwise(settings: Settings) -> None:
    _, usual = admin.token_create(settings, "ada")
    _, short = admin.token_create(settings, "ada", days=1)
    _, endless = admin.token_create(settings, "ada", days=0)

    assert usual.expires_at is not None
    assert timedelta(days=364) < usual.expires_at - now() < timedelta(days=366)
    assert short.expires_at is not None
    assert short.expires_at - now() < timedelta(days=2)
    assert endless.expires_at is None
    assert usual.scopes == ["create", "publish", "read", "yank"]


@pytest.mark.parametrize("limit", ["-x", "a/b/c", "/a"])
def test_a_limit_that_names_nothing_is_refused(settings: Settings, limit: str) -> None:
    with pytest.raises(InvalidRequestError, match="owner/name"):
        admin.token_create(settings, "ada", limited_to=limit)


def test_limits_are_normalised(settings: Settings) -> None:
    _, line = admin.token_create(settings, "ada", limited_to="Ada/My_Maze")

    assert line.limited_to == "ada/my-maze"


def test_a_token_without_scopes_or_in_the_past_is_refused(settings: Settings) -> None:
    with pytest.raises(InvalidRequestError, match="read, create"):
        admin.token_create(settings, "ada", scopes=[])
    with pytest.raises(InvalidRequestError, match="past"):
        admin.token_create(settings, "ada", days=-1)
    with pytest.raises(NotFoundError):
        admin.token_create(settings, "nobody")


def test_tokens_are_listed_and_revoked_by_their_beginning(settings: Settings) -> None:
    text, line = admin.token_create(settings, "ada", label="laptop")
    admin.token_create(settings, "root")

    listed = admin.token_list(settings, "ada")
    revoked = admin.token_revoke(settings, line.prefix)
    again = admin.token_revoke(settings, text)

    assert [each.label for each in listed] == ["laptop"]
    assert len(admin.token_list(settings)) == 3
    assert revoked.revoked_at is not None
    assert again.revoked_at == revoked.revoked_at
    with pytest.raises(InvalidRequestError, match="3 tokens"):
        admin.token_revoke(settings, "strop_")
    with pytest.raises(NotFoundError):
        admin.token_revoke(settings, "strop_zzzzzzzzz")


def test_a_folder_without_a_hub_is_named_and_not_made(tmp_path: Path) -> None:
    settings = Settings.read({}, data=tmp_path / "none")

    with pytest.raises(ConfigError, match="strop hub init"):
        admin.user_list(settings)

    assert not (tmp_path / "none").exists()


def test_every_refusal_has_a_code_of_its_own() -> None:
    def all_of(kind: type[HubError]) -> list[type[HubError]]:
        return [kind, *(found for child in kind.__subclasses__() for found in all_of(child))]

    # A refinement of a refusal may keep its code.
    codes = [kind.code for kind in all_of(HubError) if "code" in vars(kind)]

    assert len(codes) == len(set(codes))
    assert all(400 <= kind.status < 600 for kind in all_of(HubError))
