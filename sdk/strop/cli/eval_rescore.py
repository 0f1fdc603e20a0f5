"""`strop eval rescore`: score saved trajectories with another rubric."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli.options import JsonOption, SetOption, examples, read_settings
from strop.cli.output import print_fields, print_result, print_table, print_warning, progress_bar

if TYPE_CHECKING:
    from strop.environment import Environment
    from strop.review.rescoring import Rescoring

SUFFIX = ".rescored.jsonl"
EXAMPLES = examples(
    "strop eval rescore results/math --env math-env",
    "strop eval rescore results/math/trajectories.jsonl --env ./my-env --set strict=true",
)


def rescore(
    *,
    path: Annotated[Path, typer.Argument(metavar="FILE|FOLDER")],
    environment: Annotated[
        str,
        typer.Option(
            "--env", metavar="REF|FOLDER", help="An installed environment, or an author's folder."
        ),
    ],
    settings: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help=f"The new file; else beside, as *{SUFFIX}."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="Trajectories scored at once.")
    ] = 64,
    ask: Annotated[
        bool, typer.Option("--ask", help="Let judges be asked what the record does not answer.")
    ] = False,
    is_json: JsonOption = False,
) -> None:
    """Score saved trajectories with another rubric, without a model; the old file stays."""
    from strop.review.files import find_files
    from strop.review.rescoring import rescore as rescore_file
    from strop.sync import run_sync

    files = find_files(path)
    if out is not None and len(files) > 1:
        raise typer.BadParameter(f"--out names one file, but {path} holds {len(files)} runs.")
    documents = []
    for file in files:
        target = out or file.with_name(f"{file.stem}{SUFFIX}")
        with progress_bar("Scoring", show=str) as progress:
            result = run_sync(
                rescore_file(
                    _load(environment, settings or []),
                    file,
                    target,
                    concurrency=concurrency,
                    may_ask=ask,
                    on_trajectory=progress,
                )
            )
        documents.append(_document(file, target, result))
    document = {"environment": environment, "files": documents}
    print_result(document, is_json=is_json, show=lambda: _show_all(documents))


def _load(environment: str, pairs: list[str]) -> "Environment":
    from strop.hub.load import load, load_project

    settings = read_settings(pairs)
    folder = Path(environment).expanduser()
    if (folder / "pyproject.toml").is_file():
        return load_project(folder, **settings)
    return load(environment, **settings)


def _document(source: Path, target: Path, result: "Rescoring") -> dict[str, Any]:
    if result.torn_line is not None:
        print_warning(f"{source}, line {result.torn_line} is torn: it was left out.")
    if result.partial_group_count:
        print_warning(
            f"{result.partial_group_count} groups miss a member: their group rewards keep the "
            "recorded values."
        )
    return {
        "source": str(source),
        "target": str(target),
        "changed_count": result.changed_count,
        "partial_group_count": result.partial_group_count,
        "torn_line": result.torn_line,
        "old": result.old.to_json(),
        "new": result.new.to_json(),
    }


def _show_all(documents: list[dict[str, Any]]) -> None:
    for document in documents:
        _show(document)


def _show(document: dict[str, Any]) -> None:
    old, new = document["old"], document["new"]
    names = ["reward", *dict.fromkeys([*old["metrics"], *new["metrics"]])]
    rows = []
    for name in names:
        before, after = (_mean(report, name) for report in (old, new))
        rows.append((name, _number(before), _number(after), _difference(before, after)))
    print_table(("mean of", "old", "new", "change"), rows)
    print_fields(
        [
            ("attempts", f"{new['attempt_count']}, {document['changed_count']} changed"),
            ("scored", f"{old['scored_count']} before, {new['scored_count']} now"),
            ("failures", [f"{count} {kind}" for kind, count in new["failures"].items()]),
            ("written to", document["target"]),
        ]
    )


def _mean(report: dict[str, Any], name: str) -> float | None:
    value: float | None = report["mean_reward"] if name == "reward" else report["metrics"].get(name)
    return value


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _difference(before: float | None, after: float | None) -> str:
    return "" if before is None or after is None else f"{after - before:+.4g}"
