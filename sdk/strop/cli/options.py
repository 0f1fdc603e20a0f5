"""Options that many commands share, and the hub that they lead to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strop.cli.output import print_warning

if TYPE_CHECKING:
    from strop.config import HubAccess
    from strop.hub.client import HubClient

HubOption = Annotated[
    str | None,
    typer.Option("--hub", metavar="URL", help="The hub; else STROP_HUB, else the configuration."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="TOKEN", help="The token; else STROP_TOKEN, else the configuration."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
PythonOption = Annotated[
    Path | None,
    typer.Option(
        "--python", metavar="PATH", help="Another interpreter, or a virtual environment's folder."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Of the environment; can be repeated."),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]


def find_access(hub: str | None, token: str | None) -> "HubAccess":
    """The hub and the token that flags, variables and the file lead to."""
    from strop.config import choose_hub, config_path, loose_mode, read_config

    path = config_path()
    if mode := loose_mode(path):
        print_warning(f"{path} has mode {mode}: others can read your tokens. Run chmod 600 on it.")
    return choose_hub(read_config(path), hub_flag=hub, token_flag=token)


@contextmanager
def open_hub(hub: str | None, token: str | None) -> "Iterator[HubClient]":
    """A client of the hub that flags, variables and the file lead to."""
    from strop.hub.client import HubClient

    access = find_access(hub, token)
    with HubClient(access.hub, access.token) as client:
        yield client


def examples(*lines: str) -> str:
    """The end of a command's help; the backspace keeps its lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def read_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Settings as ``--set`` gives them, values as text."""
    settings = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name.isidentifier():
            raise typer.BadParameter(f"--set {pair!r} is not KEY=VALUE.")
        settings[name] = value
    return settings
