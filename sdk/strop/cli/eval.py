"""`strop eval`: run a model on an environment and report, and what is done with the results."""

from strop.cli import eval_rescore, eval_run, eval_view
from strop.cli.command_group import new_group

app = new_group("eval", "Run a model on an environment and report its rewards.")

app.command(epilog=eval_run.EXAMPLES)(eval_run.run)
app.command(epilog=eval_rescore.EXAMPLES)(eval_rescore.rescore)
app.command(epilog=eval_view.EXAMPLES)(eval_view.view)
