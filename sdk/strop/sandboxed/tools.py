"""Tools with which a model acts in its sandbox: shell, Python, files, tests (step: author).

A tool's docstring and annotations are what the model sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, get_args

from strop.errors import SettingsError, ToolError
from strop.sandbox.repository import TestReport
from strop.sandbox.session import SessionResult
from strop.sandboxed.workspace import Workspace
from strop.tools import Tool

ToolName: TypeAlias = Literal["bash", "python", "view_file", "write_file", "edit_file", "run_tests"]
_LONGEST_MESSAGE_CHARS = 1000


class HasWorkspace(Protocol):
    """Whose tools these are: an episode that works in a sandbox."""

    @property
    def workspace(self) -> Workspace:
        """Where it works."""
        ...


def sandbox_tools(*names: ToolName) -> list[Tool]:
    """Tools for ``Environment(tools=…)`` whose episodes have a `Workspace` called ``workspace``.

    Args:
        names: Which; none named are all.

    Raises:
        SettingsError: There is no such tool.
    """
    known = get_args(ToolName)
    if unknown := [name for name in names if name not in known]:
        raise SettingsError(f"There is no sandbox tool {unknown[0]!r}. Use: {', '.join(known)}.")
    return [Tool(name, _FUNCTIONS[name]) for name in (names or known)]


async def bash(episode: HasWorkspace, commands: str, timeout_s: float | None = None) -> str:
    """Run commands in a bash shell. Folder, variables and background jobs stay between calls.

    Args:
        episode: Who acts.
        commands: One or several lines of bash.
        timeout_s: Seconds after which the commands are interrupted.
    """
    _check_timeout(timeout_s)
    workspace = episode.workspace
    return tell(await workspace.bash(commands, wall_s=timeout_s), workspace.conduct.answer_chars)


async def python(episode: HasWorkspace, code: str, timeout_s: float | None = None) -> str:
    """Run Python code. Variables and imports stay between calls; a last expression is shown.

    Args:
        episode: Who acts.
        code: Statements of Python.
        timeout_s: Seconds after which the code is interrupted.
    """
    _check_timeout(timeout_s)
    workspace = episode.workspace
    return tell(await workspace.python(code, wall_s=timeout_s), workspace.conduct.answer_chars)


async def view_file(
    episode: HasWorkspace, path: str = "", first_line: int = 1, last_line: int | None = None
) -> str:
    """Show a file with line numbers, or the names in a folder, where the path ends with a slash.

    Args:
        episode: Who acts.
        path: Below the working folder; empty for the working folder itself.
        first_line: The first line to show, from 1.
        last_line: The last line to show; by default the end.
    """
    workspace = episode.workspace
    if not path or path.endswith("/"):
        entries = await workspace.list(path)
        names = (entry.name + "/" * (entry.kind == "folder") for entry in entries)
        return shortened("\n".join(names) or "(empty)", workspace.conduct.answer_chars)
    lines = (await workspace.read(path)).decode(errors="replace").splitlines()
    if first_line < 1 or (lines and first_line > len(lines)):
        raise ToolError(f"{path} has {len(lines)} lines; first_line is {first_line}.")
    chosen = enumerate(lines[first_line - 1 : last_line], first_line)
    text = "\n".join(f"{number:6}\t{line}" for number, line in chosen)
    return shortened(text or "(empty)", workspace.conduct.answer_chars)


async def write_file(episode: HasWorkspace, path: str, content: str) -> str:
    """Write a file, and the folders that lead to it. What was there is replaced.

    Args:
        episode: Who acts.
        path: Below the working folder.
        content: All of the file's text.
    """
    await episode.workspace.write(path, content.encode(errors="surrogateescape"))
    return f"{path} has {len(content)} characters."


async def edit_file(episode: HasWorkspace, path: str, old: str, new: str) -> str:
    """Replace a piece of a file, which must stand in it exactly once.

    Args:
        episode: Who acts.
        path: Below the working folder.
        old: The text to replace, with all its spaces and line breaks.
        new: The text that takes its place.
    """
    text = (await episode.workspace.read(path)).decode(errors="surrogateescape")
    count = text.count(old) if old else 0
    if count != 1:
        raise ToolError(
            f"The old text stands {count} times in {path}; it must stand there exactly once. "
            "View the file, and quote more or fewer lines."
        )
    changed = text.replace(old, new)
    await episode.workspace.write(path, changed.encode(errors="surrogateescape"))
    line = text[: text.index(old)].count("\n") + 1
    return f"{path} was changed at line {line}."


async def run_tests(episode: HasWorkspace, arguments: list[str] | None = None) -> str:
    """Run the tests with pytest and tell which failed, and why.

    Args:
        episode: Who acts.
        arguments: Files, test ids or options for pytest; by default all tests run.
    """
    workspace = episode.workspace
    report = await workspace.run_tests(arguments or ())
    return tell_tests(report, workspace.conduct.answer_chars)


def tell(result: SessionResult, most_chars: int) -> str:
    """Put a session's result into words for a model.

    Args:
        result: What the code did.
        most_chars: Of the whole answer, notes apart.
    """
    printed = "".join(_line(part) for part in (result.stdout, result.stderr, result.value or ""))
    notes = [shortened(printed, most_chars).rstrip("\n")] if printed else []
    if result.is_truncated:
        notes.append("[more was written than is kept]")
    if result.status == "timeout":
        notes.append("[interrupted: it took too long; variables are kept]")
    elif result.status == "dead":
        cause = f"the limit {result.limit} was passed" if result.limit else "it has ended"
        notes.append(f"[{cause}; the next call starts anew, without variables]")
    elif result.exit_code:
        notes.append(f"[exit code {result.exit_code}]")
    return "\n".join(notes) or "(no output)"


def tell_tests(report: TestReport, most_chars: int) -> str:
    """Put a test report into words for a model."""
    if report.problem is not None:
        output = report.result.text + report.result.error_text
        return shortened(f"{report.problem}\n{output}".rstrip(), most_chars)
    counts: dict[str, int] = {}
    for outcome in report.outcomes:
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    lines = [", ".join(f"{count} {status}" for status, count in counts.items()) or "no tests ran"]
    for outcome in report.outcomes:
        if outcome.status in ("failed", "error"):
            lines.append(f"{outcome.status}: {outcome.id}")
            lines.append(shortened(outcome.message, _LONGEST_MESSAGE_CHARS))
    return shortened("\n".join(lines), most_chars)


def shortened(text: str, most_chars: int) -> str:
    """Give beginning and end of a text that is longer than `most_chars`."""
    if len(text) <= most_chars:
        return text
    head, tail = most_chars - most_chars // 2, most_chars // 2
    left_out = len(text) - most_chars
    return f"{text[:head]}\n[{left_out} characters left out]\n{text[len(text) - tail :]}"


def _line(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _check_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None and not timeout_s > 0:
        raise ToolError(f"timeout_s is {timeout_s}. Give more than 0 seconds.")


_FUNCTIONS: dict[ToolName, Callable[..., Any]] = {
    "bash": bash,
    "python": python,
    "view_file": view_file,
    "write_file": write_file,
    "edit_file": edit_file,
    "run_tests": run_tests,
}
