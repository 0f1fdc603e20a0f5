"""One trajectory: its facts, rewards, failure and turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from strop.cli.viewing.overview import number
from strop.cli.viewing.sampled import sampled_part
from strop.review.escaping import how_it_ended, shorten, visible, visible_line
from strop.review.facts import odd_outcome, sampled_with, turn_facts
from strop.review.vocabulary import Vocabulary
from strop.trajectory import Failure, Segment, Trajectory
from strop.types import Message, Part, ToolCall

_ROLE_STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a trajectory is shown."""

    text_chars: int | None = 4_000
    """Of one text at most, its middle left out; None shows all."""
    has_tokens: bool = False
    """Whether token ids are listed."""
    vocabulary: Vocabulary | None = None
    """Turns token ids into text."""
    is_coloured: bool = False
    """Whether colours can be seen."""

    def cut(self, text: str) -> str:
        """The part of a text that is shown, harmless."""
        return visible(text if self.text_chars is None else shorten(text, self.text_chars))


def conversation_parts(trajectory: Trajectory, detail: Detail) -> Iterator[RenderableType]:
    """All that is shown of a trajectory, from top to bottom."""
    yield Text("")
    yield Text(_title(trajectory), "bold")
    yield _facts(trajectory)
    yield _rewards(trajectory)
    if trajectory.failure is not None:
        yield _failure(trajectory.failure, detail)
    turn, turn_rewards = 0, trajectory.turn_rewards
    continued: set[tuple[str, int | None]] = set()
    for segment in trajectory.segments:
        turn += segment.kind == "completion"
        place = f" · {segment.seat}" if len(trajectory.seats) > 1 else ""
        if segment.kind == "completion":
            place += f" · turn {turn}"
            place += "" if turn_rewards is None else f" · reward {number(turn_rewards[turn - 1])}"
        if (segment.seat, segment.parent) in continued:
            is_root = segment.parent is None
            place += " · begins anew" if is_root else f" · forks after segment {segment.parent}"
        continued.add((segment.seat, segment.parent))
        yield from _segment(segment, place, detail)


def _title(trajectory: Trajectory) -> str:
    attempt = trajectory.attempt
    visit = f", visit {attempt.visit}" if attempt.visit else ""
    where = f"{attempt.environment} {attempt.split} {attempt.task_key}{visit}"
    return visible_line(f"{where}, member {attempt.member}")


def _facts(trajectory: Trajectory) -> Table:
    identity, timing, usage = trajectory.environment, trajectory.timing, trajectory.usage
    table = Table.grid(padding=(0, 2, 0, 0))
    rows = [
        ("reward", number(trajectory.reward)),
        ("stop", how_it_ended(trajectory.stop_reason, trajectory.stop_detail)),
        ("turns", str(trajectory.turn_count)),
        ("tokens", f"{usage.prompt_tokens:,} prompt, {usage.completion_tokens:,} completion"),
        ("seconds", f"{timing.turns_s:.3g} turns, {timing.tools_s:.3g} tools of these"),
        ("environment", f"{identity.full_name} {identity.version or ''} {identity.state}"),
        ("settings", ", ".join(f"{name}={value!r}" for name, value in trajectory.settings.items())),
        ("reference", repr(trajectory.task.reference)),
        ("outcome", ", ".join(f"{name}={value!r}" for name, value in trajectory.outcome.items())),
        ("forks", str(trajectory.fork_count) if trajectory.fork_count else ""),
        *turn_facts(trajectory),
        ("stamps", ", ".join(f"{name}={value!r}" for name, value in trajectory.stamps.items())),
    ]
    for name, value in rows:
        if value:
            table.add_row(Text(visible_line(name), "dim"), Text(visible_line(shorten(value, 400))))
    return table


def _rewards(trajectory: Trajectory) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    has_seats = len(trajectory.seats) > 1
    for name in ("reward function", "value", "weight", "range", ""):
        table.add_column(name, overflow="fold")
    for seat, result in trajectory.seats.items():
        for name, part in result.rewards.items():
            shown = f"{seat}: {name}" if has_seats else name
            table.add_row(
                Text(visible_line(shown)),
                number(part.value),
                f"{part.weight:.4g}",
                "" if part.range is None else f"{part.range[0]:.4g} to {part.range[1]:.4g}",
                Text(visible_line(part.error or ""), "red"),
            )
        if has_seats:
            table.add_row(Text(visible_line(seat), "bold"), Text(number(result.reward), "bold"))
    return table


def _failure(failure: Failure, detail: Detail) -> RenderableType:
    return Group(
        Text(""),
        Text(visible_line(f"{failure.type} at the boundary {failure.boundary}"), style="bold red"),
        Text(detail.cut(failure.message), style="red"),
        Padding(Text(detail.cut(failure.traceback.rstrip()), style="dim"), (0, 0, 0, 2)),
    )


def _segment(segment: Segment, place: str, detail: Detail) -> Iterator[RenderableType]:
    for message in segment.messages:
        name = f" · {message.name}" if message.name else ""
        title = visible_line(f"{message.role}{name}{place}")
        style = _ROLE_STYLES[message.role]
        yield Rule(Text(title, f"bold {style}"), align="left", style=style)
        yield from _message(message, detail)
    if segment.kind == "completion":
        yield from _sampling(segment, detail)


def _message(message: Message, detail: Detail) -> Iterator[RenderableType]:
    if message.reasoning:
        yield Text(detail.cut(message.reasoning), style="italic dim")
    if isinstance(message.content, str):
        if message.content:
            yield Text(detail.cut(message.content))
    else:
        for part in message.content:
            yield _part(part, detail)
    for call in message.tool_calls:
        yield _call(call, detail)


def _part(part: Part, detail: Detail) -> Text:
    if part.kind == "text":
        return Text(detail.cut(part.text or ""))
    where = part.url or part.digest or ""
    shown = visible_line(f"[{part.kind} {part.media_type or ''} {where[:80]}]")
    return Text(shown, style="dim")


def _call(call: ToolCall, detail: Detail) -> Text:
    return Text.assemble(
        ("→ ", "yellow"),
        (visible_line(call.name), "bold yellow"),
        f"({detail.cut(call.arguments)})",
        (f"  {visible_line(call.id)}", "dim"),
    )


def _sampling(segment: Segment, detail: Detail) -> Iterator[RenderableType]:
    finish, outcome = segment.finish_reason or "", odd_outcome(segment)
    facts = [segment.model, finish, outcome, f"{segment.latency_s:.3g} s"]
    if segment.usage is not None:
        facts.append(f"{segment.usage.completion_tokens} tokens")
    facts.append(sampled_with(segment.sampling))
    yield Text(visible_line(" · ".join(fact for fact in facts if fact)), style="dim")
    part = sampled_part(
        segment,
        detail.vocabulary,
        has_tokens=detail.has_tokens,
        is_coloured=detail.is_coloured,
    )
    if part is not None:
        yield part
