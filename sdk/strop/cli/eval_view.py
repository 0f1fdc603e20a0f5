"""`strop eval view`: look at saved trajectories, in the terminal or as a page."""

from pathlib import Path
from typing import Annotated

import typer

from strop.cli.options import JsonOption, examples

EXAMPLES = examples(
    "strop eval view results/math",
    "strop eval view results/math --task 17 --member 2",
    "strop eval view results/math --html math.html",
)


def view(
    path: Annotated[Path, typer.Argument(metavar="FILE|FOLDER")],
    is_json: JsonOption = False,
) -> None:
    """Show saved trajectories: rewards, groups, turns, tokens and failures."""
