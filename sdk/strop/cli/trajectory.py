"""`strop trajectory`: check files of trajectories."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli.command_group import new_group
from strop.cli.options import JsonOption, examples
from strop.cli.output import print_result, print_text, print_warning

if TYPE_CHECKING:
    from strop.review.validation import StampValidator, Validator

app = new_group("trajectory", "Check files of trajectories.")


@app.command(
    epilog=examples(
        "strop trajectory validate results/math/trajectories.jsonl",
        "strop trajectory validate results --json",
    )
)
def validate(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER...")],
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Findings shown of each file at most.")
    ] = 100,
    is_json: JsonOption = False,
) -> None:
    """Hold files, and stamps beside them, against their schemas and what fields mean together.

    The exit code is 1 when something is found.
    """
    from strop.review.files import find_files
    from strop.review.validation import Validator

    checked = []
    for file in (file for path in paths for file in find_files(path)):
        validator = Validator(file)
        checked.append(_check(validator, limit, is_json=is_json))
        if (stamps := validator.stamps) is not None:
            checked.append(_check(stamps, limit, is_json=is_json))
    is_valid = not any(each["finding_count"] for each in checked)
    document = {"is_valid": is_valid, "files": checked}
    print_result(document, is_json=is_json, show=lambda: _show(checked))
    if not is_valid:
        raise typer.Exit(1)


def _check(validator: "Validator | StampValidator", limit: int, *, is_json: bool) -> dict[str, Any]:
    findings = iter(validator)
    kept = []
    for finding in islice(findings, limit):
        if not is_json:
            print_text(str(finding))
        entry = {"line": finding.line_number, "field": finding.field, "message": finding.message}
        kept.append(entry)
    more_count = sum(1 for _ in findings)
    return {
        "path": str(validator.path),
        "line_count": validator.line_count,
        "finding_count": len(kept) + more_count,
        "findings": kept,
    }


def _show(checked: list[dict[str, Any]]) -> None:
    for each in checked:
        count = each["finding_count"]
        if count > len(each["findings"]):
            hidden_count = count - len(each["findings"])
            print_warning(f"{hidden_count} more findings in {each['path']}; see --limit.")
        found = f"{count} finding{'s' * (count != 1)}" if count else "valid"
        print_text(f"{each['path']}: {each['line_count']} lines, {found}")
