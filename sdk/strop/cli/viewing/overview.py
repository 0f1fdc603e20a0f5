"""Files of trajectories as a whole: figures, a histogram, a table of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from strop.evaluation import Report
from strop.review.escaping import visible_line
from strop.review.overview import Bar, GroupRow, Overview

_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR_WIDTH = 40
_MOST_MEMBERS = 32


def overview_parts(
    overview: Overview, *, limit: int, is_failed_only: bool
) -> Iterator[RenderableType]:
    """What `strop eval view` shows of files.

    Args:
        overview: All of them.
        limit: Rows of the table of groups at most.
        is_failed_only: Whether groups without a failure are left out.
    """
    yield _figures(overview.report)
    for line in overview.torn:
        yield Text(
            visible_line(f"{line.path}, line {line.line_number} is torn: it is not shown."), "red"
        )
    if overview.histogram:
        yield Text("\nRewards", "bold")
        yield _histogram(overview.histogram)
    rows = [row for row in overview.groups if row.failure_count or not is_failed_only]
    if is_failed_only and not rows:
        yield Text("\nNo attempt failed.")
        return
    yield Text("\nTasks" + (" with failures" if is_failed_only else ""), "bold")
    yield _groups(rows[:limit])
    if len(rows) > limit:
        yield Text(f"… {len(rows) - limit} more; see --limit and --task.", "dim")


def number(value: float | None) -> str:
    """A reward in few characters; a minus for none."""
    return "-" if value is None else f"{value:.4g}"


def _figures(report: Report) -> Table:
    mean, error = report.mean_reward, report.standard_error
    reward = number(mean) + ("" if error is None else f" ± {error:.2g}")
    usage = report.usage
    rows = [
        ("attempts", f"{report.attempt_count}, {report.scored_count} scored"),
        ("reward", reward),
        *[(f"pass@{k}", number(share)) for k, share in report.pass_at.items()],
        *[(visible_line(name), number(value)) for name, value in report.metrics.items()],
        ("turns", f"{number(report.mean_turns)} on average"),
        ("tokens", f"{usage.prompt_tokens:,} prompt, {usage.completion_tokens:,} completion"),
        ("truncated", str(report.truncated_count)),
        *[(f"{kind} replies", str(count)) for kind, count in report.odd_replies.items()],
    ]
    if len(report.environments) > 1:
        rows += [
            (visible_line(name), number(part.mean_reward))
            for name, part in report.environments.items()
        ]
    table = _grid()
    for name, value in rows:
        table.add_row(Text(name, "dim"), Text(value))
    for kind, count in report.failures.items():
        table.add_row(Text("failures", "red"), Text(f"{count} {visible_line(kind)}", "red"))
    return table


def _histogram(bars: Sequence[Bar]) -> Table:
    most = max(bar.count for bar in bars)
    table = _grid()
    table.columns[0].justify = "right"
    for bar in bars:
        is_value = bar.low == bar.high
        label = f"{bar.low:.4g}" if is_value else f"{bar.low:.4g} to {bar.high:.4g}"
        length = round(bar.count / most * _BAR_WIDTH)
        drawn = "█" * length or ("▏" if bar.count else "")
        table.add_row(Text(label, "dim"), Text.assemble((drawn, "cyan"), f" {bar.count}"))
    return table


def _groups(rows: Sequence[GroupRow]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("task", overflow="fold", ratio=1)
    for name in ("attempts", "mean", "lowest", "highest"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rewards", no_wrap=True, overflow="ellipsis")
    every = [reward for row in rows for reward in row.rewards]
    bounds = (min(every, default=0.0), max(every, default=1.0))
    for row in rows:
        rewards = row.rewards
        table.add_row(
            Text(_title(row)),
            str(len(row.members)),
            number(row.mean_reward),
            number(min(rewards, default=None)),
            number(max(rewards, default=None)),
            _members(row, bounds),
        )
    return table


def _title(row: GroupRow) -> str:
    visit = f" (visit {row.attempt.visit})" if row.attempt.visit else ""
    return visible_line(row.attempt.task_key) + visit


def _members(row: GroupRow, bounds: tuple[float, float]) -> Text:
    low, high = bounds
    drawn = Text()
    for member in row.members[:_MOST_MEMBERS]:
        if member.reward is None:
            drawn.append("✗" if member.failure else "·", "red")
            continue
        share = 1.0 if high <= low else (member.reward - low) / (high - low)
        share = share if 0 <= share <= 1 else 0.0
        drawn.append(_BLOCKS[round(share * (len(_BLOCKS) - 1))], "cyan")
    if len(row.members) > _MOST_MEMBERS:
        drawn.append("…")
    return drawn


def _grid() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table
