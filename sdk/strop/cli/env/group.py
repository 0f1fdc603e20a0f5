"""The group that the modules beside this one add their commands to."""

import typer

from strop.cli.command_group import CommandGroup

app = typer.Typer(
    cls=CommandGroup,
    name="env",
    help="Write, check, share and install environments.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
