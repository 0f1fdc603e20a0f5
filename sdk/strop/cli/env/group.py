"""The group that the modules beside this one add their commands to."""

import typer

app = typer.Typer(
    name="env",
    help="Write, check, share and install environments.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
