"""`strop eval`: run a model on an environment and report, and what is done with the results."""

import typer

from strop.cli import eval_rescore, eval_run, eval_view
from strop.cli.command_group import CommandGroup

app = typer.Typer(
    cls=CommandGroup,
    name="eval",
    help="Run a model on an environment and report its rewards.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(epilog=eval_run.EXAMPLES)(eval_run.run)
app.command(epilog=eval_rescore.EXAMPLES)(eval_rescore.rescore)
app.command(epilog=eval_view.EXAMPLES)(eval_view.view)


@app.callback()
def group() -> None:
    """Run a model on an environment and report its rewards."""
