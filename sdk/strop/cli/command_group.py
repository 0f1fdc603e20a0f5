"""Groups of commands whose help tells each command's whole first sentence."""

from typing import Any

import typer
from typer.core import TyperGroup

_SUMMARY_CHARS = 1_000


class CommandGroup(TyperGroup):
    """Wraps the summaries of its commands where others cut them off."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(_SUMMARY_CHARS))
                    for name, command in found
                    if command is not None and not command.hidden
                ]
            )


def new_group(name: str, summary: str) -> typer.Typer:
    """A group of commands such as ``strop env``, set up as every one is."""
    group = typer.Typer(
        cls=CommandGroup,
        name=name,
        help=summary,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # A callback keeps a group a group where it has one command only.
    group.callback()(lambda: None)
    return group
