"""`strop hub user`, `token` and `organisation`: let people in."""

from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli.hub_data import DataOption, hub_code, hub_group, read_settings
from strop.cli.options import JsonOption
from strop.cli.output import print_fields, print_message, print_result, print_table

if TYPE_CHECKING:
    from strop_hub.admin import TokenLine, UserLine


class ScopeName(StrEnum):
    """What a token may do; the same names as `strop.hub.wire.Scope`, without its import."""

    READ = "read"
    CREATE = "create"
    PUBLISH = "publish"
    YANK = "yank"
    ADMIN = "admin"


class RoleName(StrEnum):
    """What a member may do for an organisation."""

    OWNER = "owner"
    PUBLISHER = "publisher"
    READER = "reader"
    NONE = "none"


user_app = hub_group(
    "user",
    "Let people in.",
    "Examples:\n  strop hub user add grace --data ./hub\n  strop hub user list --data ./hub",
)
token_app = hub_group(
    "token",
    "Make, list and end tokens.",
    "Examples:\n"
    "  strop hub token create --user grace --scope read --scope publish --data ./hub\n"
    "  strop hub token revoke strop_Ab12Cd --data ./hub",
)
organisation_app = hub_group(
    "organisation",
    "Owners that several people share.",
    "Examples:\n"
    "  strop hub organisation add lab --owner ada --data ./hub\n"
    "  strop hub organisation member lab grace --role publisher --data ./hub",
)


@user_app.command("add", epilog="\b\nExample:\n  strop hub user add grace --data ./hub")
def add_user(
    name: Annotated[str, typer.Argument(help="The user's name, also that of the owner.")],
    data: DataOption = None,
    admin: Annotated[bool, typer.Option("--admin", help="Make an administrator.")] = False,
    json: JsonOption = False,
) -> None:
    """Add a user, who can publish as the owner of the same name."""
    with hub_code():
        from strop_hub import admin as hub_admin

        line = hub_admin.user_add(read_settings(data), name, is_admin=admin)
    print_result(
        _plain(asdict(line)), is_json=json, show=lambda: print_message(f"Added {line.name}.")
    )


@user_app.command("list", epilog="\b\nExample:\n  strop hub user list --data ./hub")
def list_users(data: DataOption = None, json: JsonOption = False) -> None:
    """List everybody."""
    with hub_code():
        from strop_hub import admin as hub_admin

        lines = hub_admin.user_list(read_settings(data))
    rows = [(line.name, _kind(line), f"{line.created_at:%Y-%m-%d}") for line in lines]
    print_result(
        [_plain(asdict(line)) for line in lines],
        is_json=json,
        show=lambda: print_table(("name", "kind", "since"), rows),
    )


@user_app.command("disable", epilog="\b\nExample:\n  strop hub user disable grace --data ./hub")
def disable_user(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let the user in again.")] = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Shut a user out: all tokens are worth nothing from now on.

    What the user has published stays.
    """
    with hub_code():
        from strop_hub import admin as hub_admin

        line = hub_admin.user_disable(read_settings(data), name, is_disabled=not undo)
    told = f"{line.name} is {'shut out' if line.is_disabled else 'let in again'}."
    print_result(_plain(asdict(line)), is_json=json, show=lambda: print_message(told))


@token_app.command(
    "create",
    epilog="\b\nExample:\n  strop hub token create --user grace --scope publish --days 30",
)
def create_token(
    *,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="Whose token.")],
    data: DataOption = None,
    scope: Annotated[
        list[ScopeName] | None,
        typer.Option("--scope", help="May be repeated; all but admin when left out."),
    ] = None,
    limited_to: Annotated[
        str | None,
        typer.Option("--limited-to", metavar="OWNER[/NAME]", help="Worth nothing elsewhere."),
    ] = None,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    days: Annotated[
        int | None, typer.Option("--days", min=0, help="Until it expires; 0 for never.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a token; it is printed this once."""
    with hub_code():
        from strop.hub.wire import Scope
        from strop_hub import admin as hub_admin

        text, line = hub_admin.token_create(
            read_settings(data),
            user,
            scopes=[Scope(name) for name in scope] if scope else None,
            limited_to=limited_to,
            label=label,
            days=days,
        )
    document = {"token": text, **_plain(asdict(line))}
    print_result(
        document,
        is_json=json,
        show=lambda: print_fields([("token", text), *_token_fields(line)]),
    )


@token_app.command("list", epilog="\b\nExample:\n  strop hub token list --user grace --data ./hub")
def list_tokens(
    data: DataOption = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Only this user's.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List tokens; of their text only the beginning is known."""
    with hub_code():
        from strop_hub import admin as hub_admin

        lines = hub_admin.token_list(read_settings(data), user)
    rows = [
        (line.user, line.prefix, line.scopes, line.limited_to or "", _state(line), line.label)
        for line in lines
    ]
    headings = ("user", "token", "scopes", "limited to", "state", "label")
    print_result(
        [_plain(asdict(line)) for line in lines],
        is_json=json,
        show=lambda: print_table(headings, rows),
    )


@token_app.command(
    "revoke", epilog="\b\nExample:\n  strop hub token revoke strop_Ab12Cd --data ./hub"
)
def revoke_token(
    token: Annotated[str, typer.Argument(help="The token, or its beginning as listed.")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """End a token at once."""
    with hub_code():
        from strop_hub import admin as hub_admin

        line = hub_admin.token_revoke(read_settings(data), token)
    print_result(
        _plain(asdict(line)),
        is_json=json,
        show=lambda: print_message(f"{line.prefix}… of {line.user} is worth nothing any more."),
    )


@organisation_app.command(
    "add", epilog="\b\nExample:\n  strop hub organisation add lab --owner ada --data ./hub"
)
def add_organisation(
    name: Annotated[str, typer.Argument(help="The organisation's name.")],
    owner: Annotated[str, typer.Option("--owner", metavar="USER", help="Its first owner.")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add an organisation."""
    with hub_code():
        from strop_hub import admin as hub_admin

        added = hub_admin.organisation_add(read_settings(data), name, owner)
    print_result({"name": added}, is_json=json, show=lambda: print_message(f"Added {added}."))


@organisation_app.command(
    "member",
    epilog="\b\nExample:\n  strop hub organisation member lab grace --role publisher --data ./hub",
)
def set_member(
    organisation: Annotated[str, typer.Argument(help="The organisation's name.")],
    user: Annotated[str, typer.Argument(help="The user's name.")],
    role: Annotated[RoleName, typer.Option("--role", help="none takes the user out.")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Set what a user may do for an organisation."""
    with hub_code():
        from strop_hub import admin as hub_admin
        from strop_hub.models import Role

        given = None if role is RoleName.NONE else Role(role.value)
        hub_admin.member_set(read_settings(data), organisation, user, given)
    document = {"organisation": organisation, "user": user, "role": role.value}
    print_result(
        document, is_json=json, show=lambda: print_message(f"{user} in {organisation}: {role}.")
    )


def _kind(line: "UserLine") -> str:
    kind = "administrator" if line.is_admin else "user"
    return f"{kind}, shut out" if line.is_disabled else kind


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in document.items()
    }


def _token_fields(line: "TokenLine") -> list[tuple[str, object]]:
    return [
        ("user", line.user),
        ("scopes", line.scopes),
        ("limited to", line.limited_to),
        ("expires", line.expires_at and f"{line.expires_at:%Y-%m-%d}"),
    ]


def _state(line: "TokenLine") -> str:
    if line.revoked_at is not None:
        return f"revoked {line.revoked_at:%Y-%m-%d}"
    if line.expires_at is None:
        return "valid"
    is_past = line.expires_at < datetime.now(line.expires_at.tzinfo)
    return f"{'expired' if is_past else 'valid until'} {line.expires_at:%Y-%m-%d}"
