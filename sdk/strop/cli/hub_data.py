"""The hub on this machine that `strop hub` acts on, and whether its code can be used."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli.command_group import CommandGroup

if TYPE_CHECKING:
    from strop_hub.settings import Settings

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The hub's folder; else STROP_HUB_DATA."),
]


def hub_group(name: str, summary: str, examples: str) -> typer.Typer:
    """A group of commands whose help ends with examples."""
    return typer.Typer(
        cls=CommandGroup,
        name=name,
        help=f"{summary}\n\n\b\n{examples}",
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )


@contextmanager
def hub_code() -> Iterator[None]:
    """Name the missing extra where the hub's code is imported; it is there, its needs may not."""
    try:
        yield
    except ModuleNotFoundError as error:
        from strop.errors import ConfigError

        if (error.name or "").partition(".")[0] in ("strop", "strop_hub"):
            raise
        raise ConfigError(
            f"the hub needs {error.name}, which is not installed. Run: pip install 'strop[hub]'"
        ) from error


def read_settings(data: Path | None, **given: Any) -> "Settings":
    """The hub's settings from flags, then ``STROP_HUB_*`` variables, then defaults."""
    from strop_hub.settings import Settings

    return Settings.read(data=data, **given)
