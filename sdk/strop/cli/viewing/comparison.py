"""The members of a group beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from strop.cli.viewing.overview import number
from strop.review.escaping import shorten, visible, visible_line
from strop.review.facts import advantage_of
from strop.trajectory import Trajectory

_EXCERPT_CHARS = 200
_MOST_FUNCTIONS = 6
_GAP = 2
_LEAST_EXCERPT = 12


def comparison_parts(members: Sequence[Trajectory]) -> Iterator[RenderableType]:
    """The task, then a row for each member.

    Args:
        members: Of one group, at least one.
    """
    first = members[0]
    key = visible_line(first.attempt.task_key)
    yield Text(f"\nTask {key}, {len(members)} attempts", "bold")
    for message in first.task.prompt:
        yield Text(visible(shorten(message.text, 600)))
    yield Text("")
    yield _Comparison(members)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A table whose last column takes the width that is left."""

    members: Sequence[Trajectory]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = list(dict.fromkeys(name for each in self.members for name in each.rewards))
        names = names[:_MOST_FUNCTIONS]
        rows = [_row(each, names) for each in self.members]
        headings = ["member", "reward", *map(visible_line, names), "turns", "tokens", "ended by"]
        advantages = [advantage_of(each) for each in self.members]
        if any(each is not None for each in advantages):
            headings.insert(2, "advantage")
            for row, advantage in zip(rows, advantages, strict=True):
                row.insert(2, number(advantage))
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
        left = options.max_width
        for place, heading in enumerate(headings):
            width = max(cell_len(text) for text in (heading, *(row[place] for row in rows)))
            left -= width + _GAP
            justify: JustifyMethod = "left" if heading == "ended by" else "right"
            table.add_column(Text(heading), justify=justify, no_wrap=True)
        has_excerpt = left >= _LEAST_EXCERPT
        if has_excerpt:
            table.add_column("last reply", no_wrap=True, overflow="ellipsis", width=left)
        for each, row in zip(self.members, rows, strict=True):
            cells = [Text(cell) for cell in row]
            table.add_row(*cells, *([_last(each)] if has_excerpt else []))
        yield table


def _row(trajectory: Trajectory, names: Sequence[str]) -> list[str]:
    values = (trajectory.rewards.get(name) for name in names)
    return [
        str(trajectory.attempt.member),
        number(trajectory.reward),
        *(number(None if value is None else value.value) for value in values),
        str(trajectory.turn_count),
        str(trajectory.usage.completion_tokens),
        trajectory.stop_reason,
    ]


def _last(trajectory: Trajectory) -> Text:
    if trajectory.failure is not None:
        failure = trajectory.failure
        return Text(visible_line(f"{failure.type}: {failure.message[:_EXCERPT_CHARS]}"), "red")
    return Text(visible_line(trajectory.text[:_EXCERPT_CHARS]))
