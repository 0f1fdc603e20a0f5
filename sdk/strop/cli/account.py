"""`strop login | whoami | config`: who you are, and which hub you talk to."""

import sys
from typing import Annotated

import typer

from strop.cli.options import (
    HubOption,
    JsonOption,
    TokenOption,
    examples,
    find_access,
    open_hub,
)
from strop.cli.output import dump, print_fields, print_result, print_text

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(
    epilog=examples(
        "strop login https://hub.example.org",
        "strop login https://hub.example.org < token.txt",
    )
)
def login(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="The hub; else the configured one.")
    ] = None,
    hub: HubOption = None,
    token: TokenOption = None,
    is_json: JsonOption = False,
) -> None:
    """Check a token and keep it for this hub, which becomes the one that is used by default.

    The token is taken from --token or STROP_TOKEN, else asked for (or read from standard input).
    """
    from dataclasses import replace

    from strop.config import change_config, config_path, mask_token, with_token
    from strop.hub.client import HubClient

    access = find_access(url or hub, token)
    is_given = access.token_source in ("flag", "variable")
    given = access.token if access.token and is_given else _ask_for_token()
    with HubClient(access.hub, given) as client:
        speaker = client.whoami()
    path = config_path()
    change_config(path, lambda old: replace(with_token(old, access.hub, given), hub=access.hub))
    document = dump(speaker) | {"hub": access.hub, "config": str(path)}
    said = f"You are {speaker.user} at {access.hub}; {mask_token(given)} is kept in {path}"
    print_result(document, is_json=is_json, show=lambda: print_text(said))


@app.command(epilog=examples("strop whoami", "strop whoami --hub https://hub.example.org --json"))
def whoami(hub: HubOption = None, token: TokenOption = None, is_json: JsonOption = False) -> None:
    """Show who your token speaks for, and what it may do."""
    from strop.errors import ConfigError

    with open_hub(hub, token) as client:
        if not client.has_token:
            raise ConfigError(
                f"You have no token for {client.base_url}. Run `strop login {client.base_url}`."
            )
        speaker = client.whoami()
        address = client.base_url
    print_result(
        dump(speaker) | {"hub": address},
        is_json=is_json,
        show=lambda: print_fields(
            [
                ("hub", address),
                ("user", f"{speaker.user} (administrator)" if speaker.is_admin else speaker.user),
                ("owners", speaker.owners),
                ("scopes", [str(scope) for scope in speaker.scopes]),
                ("limited to", speaker.limited_to),
                ("expires", speaker.expires_at and f"{speaker.expires_at:%Y-%m-%d %H:%M} UTC"),
            ]
        ),
    )


@app.command(
    epilog=examples(
        "strop config",
        "strop config hub https://hub.example.org",
        "strop config token --unset --hub https://hub.example.org",
    )
)
def config(
    key: Annotated[
        str | None, typer.Argument(metavar="[hub | token]", help="What to change; else show all.")
    ] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]")] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Forget it.")] = False,
    hub: HubOption = None,
    is_json: JsonOption = False,
) -> None:
    """Show which hub and token are in force and where they come from, or change the file."""
    if key is not None:
        _change(key, value, unset, hub)
    elif value is not None or unset:
        raise typer.BadParameter("Say what to change: hub or token.")
    _show_config(hub, is_json)


def _ask_for_token() -> str:
    from strop.errors import ConfigError

    if sys.stdin.isatty():
        return str(typer.prompt("Token", hide_input=True, err=True)).strip()
    if token := sys.stdin.readline().strip():
        return token
    raise ConfigError("No token was given. Pipe it in, or give --token or STROP_TOKEN.")


def _change(key: str, value: str | None, unset: bool, hub: str | None) -> None:
    from dataclasses import replace

    from strop.config import change_config, config_path, normalize_hub_url, with_token

    if key not in ("hub", "token"):
        raise typer.BadParameter(f"{key} is no setting; there are hub and token.")
    if unset == (value is not None) or (key == "token" and value is not None):
        # A token as an argument would stay in the shell's history.
        raise typer.BadParameter("Give `hub URL`, `hub --unset` or `token --unset`.")
    if key == "hub":
        chosen = normalize_hub_url(value) if value else None
        change_config(config_path(), lambda old: replace(old, hub=chosen))
    else:
        forgotten = find_access(hub, None).hub
        change_config(config_path(), lambda old: with_token(old, forgotten, None))


def _show_config(hub: str | None, is_json: bool) -> None:
    from strop.config import config_path, mask_token, read_config
    from strop.errors import ConfigError

    path = config_path()
    stored = read_config(path)
    try:
        access = find_access(hub, None)
    except ConfigError:
        if hub is not None:
            raise
        access = None
    tokens = {url: mask_token(token) for url, token in stored.tokens.items()}
    document = {
        "file": str(path),
        "hub": access.hub if access else None,
        "hub_source": access.hub_source if access else "unset",
        "token": mask_token(access.token) if access and access.token else None,
        "token_source": access.token_source if access else "unset",
        "tokens": tokens,
    }

    def show() -> None:
        print_fields(
            [
                ("file", path),
                ("hub", f"{access.hub} (from the {access.hub_source})" if access else "none"),
                (
                    "token",
                    f"{document['token']} (from the {document['token_source']})"
                    if document["token"]
                    else "none",
                ),
                *[(f"token for {url}", masked) for url, masked in tokens.items()],
            ]
        )

    print_result(document, is_json=is_json, show=show)
