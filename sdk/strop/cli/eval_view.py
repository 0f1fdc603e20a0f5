"""`strop eval view`: look at saved trajectories, in the terminal or as a page."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli.options import JsonOption, examples
from strop.cli.output import has_colours, print_result, print_text, print_warning

if TYPE_CHECKING:
    from rich.console import RenderableType

    from strop.cli.viewing.conversation import Detail
    from strop.review.overview import GroupRow, Overview
    from strop.trajectory import Trajectory

EXAMPLES = examples(
    "strop eval view results/math",
    "strop eval view results/math --failed",
    "strop eval view results/math --task 17 --member 2 --full",
    "strop eval view results/math --html math.html",
)

PathArgument = Annotated[Path, typer.Argument(metavar="FILE|FOLDER")]
TaskOption = Annotated[
    str | None, typer.Option("--task", metavar="KEY", help="Compare the attempts at this task.")
]
MemberOption = Annotated[
    int | None, typer.Option("--member", min=0, help="Show this attempt of the group, with turns.")
]
FailedOption = Annotated[bool, typer.Option("--failed", help="Only attempts that failed.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Groups or attempts at most.")]
FullOption = Annotated[bool, typer.Option("--full", help="Leave nothing out of long texts.")]
TokensOption = Annotated[bool, typer.Option("--tokens", help="List token ids.")]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer", metavar="FILE", help="A model's tokenizer.json: tokens become text."
    ),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write one self-contained page.")
]
PagerOption = Annotated[bool, typer.Option("--pager/--no-pager", help="Page on a terminal.")]


def view(
    path: PathArgument,
    *,
    task: TaskOption = None,
    member: MemberOption = None,
    failed: FailedOption = False,
    limit: LimitOption = 20,
    full: FullOption = False,
    tokens: TokensOption = False,
    tokenizer: TokenizerOption = None,
    html: HtmlOption = None,
    pager: PagerOption = True,
    is_json: JsonOption = False,
) -> None:
    """Show saved trajectories: rewards, groups, turns, tokens and failures.

    Without --task: figures, a histogram and the groups; a file of one trajectory is shown whole.
    """
    from strop.cli.viewing.conversation import Detail
    from strop.review.files import find_files
    from strop.review.overview import read_overview
    from strop.review.vocabulary import read_vocabulary

    vocabulary = None if tokenizer is None else read_vocabulary(tokenizer)
    files = find_files(path)
    if html is not None:
        from strop.review.page import write_page

        result = write_page(files, html, title=_title(path), vocabulary=vocabulary)
        print_result(result.to_json(), is_json=is_json, show=lambda: _show_page(result.to_json()))
        return
    overview = read_overview(files)
    chosen = _Choice(overview, task, member, is_failed_only=failed)
    if is_json:
        print_result(chosen.document(limit), is_json=True, show=lambda: None)
        return
    detail = Detail(None if full else 4_000, tokens, vocabulary, has_colours(sys.stdout))
    from strop.cli.viewing.pager import open_console

    with open_console(has_pager=pager) as console:
        for part in chosen.parts(limit, detail):
            console.print(part)


class _Choice:
    """What of the files is shown: all of it, groups, or single attempts."""

    def __init__(
        self, overview: "Overview", task: str | None, member: int | None, *, is_failed_only: bool
    ) -> None:
        self._overview = overview
        self._is_failed_only = is_failed_only
        self._member = member
        groups = overview.groups
        self._is_whole = task is None and member is None
        if task is not None:
            groups = [row for row in groups if row.attempt.task_key == task]
            if not groups:
                raise typer.BadParameter(
                    f"There is no attempt at a task {task!r}. Without --task, the tasks are listed."
                )
        if member is not None and not any(self._chosen(row) for row in groups):
            raise typer.BadParameter(f"There is no member {member} that would be shown.")
        if is_failed_only:
            groups = [row for row in groups if row.failure_count]
        self._groups = groups

    def parts(self, limit: int, detail: "Detail") -> "Iterator[RenderableType]":
        """For people."""
        from strop.cli.viewing.comparison import comparison_parts
        from strop.cli.viewing.conversation import conversation_parts
        from strop.cli.viewing.overview import overview_parts

        if self._is_whole and self._overview.report.attempt_count != 1:
            yield from overview_parts(
                self._overview, limit=limit, is_failed_only=self._is_failed_only
            )
            if self._is_failed_only:
                for row in self._groups[:limit]:
                    yield from comparison_parts(self._read(row))
            return
        for row in self._groups[:limit]:
            members = self._read(row)
            is_single = self._member is not None or len(row.members) == 1
            if not is_single:
                yield from comparison_parts(members)
                continue
            for each in members:
                yield from conversation_parts(each, detail)

    def document(self, limit: int) -> dict[str, Any]:
        """For programs."""
        from dataclasses import asdict

        from strop.trajectory_json import to_json

        overview = self._overview
        document: dict[str, Any] = {
            "report": overview.report.to_json(),
            "histogram": [asdict(bar) for bar in overview.histogram],
            "torn": [{"path": str(each.path), "line": each.line_number} for each in overview.torn],
            "group_count": len(self._groups),
            "groups": [row.to_json() for row in self._groups[:limit]],
        }
        if self._member is not None:
            chosen = [each for row in self._groups[:limit] for each in self._chosen(row)]
            document["trajectories"] = [to_json(e.place.read(has_blobs=True)) for e in chosen]
        return document

    def _chosen(self, row: "GroupRow") -> list[Any]:
        return [
            each
            for each in row.members
            if self._member in (None, each.member)
            and (each.failure is not None or not self._is_failed_only)
        ]

    def _read(self, row: "GroupRow") -> "Sequence[Trajectory]":
        return [each.place.read() for each in self._chosen(row)]


def _title(path: Path) -> str:
    # The last names alone: the page is made to be passed on.
    return "/".join(path.resolve().parts[-2:])


def _show_page(result: dict[str, Any]) -> None:
    print_text(f"Wrote {result['path']}: {result['attempt_count']} attempts.")
    if result["left_out_count"]:
        print_warning(
            f"The turns of {result['left_out_count']} attempts are not in the page, which holds "
            f"{result['size_bytes'] / 1e6:.0f} MB already."
        )
