"""The root of the command line: groups load when used, errors become exit codes."""

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from strop.cli.output import is_json_wanted, print_error, print_warning

_GROUPS = {
    "env": ("strop.cli.env", "Write, check, share and install environments."),
    "eval": ("strop.cli.eval", "Run a model on an environment and report its rewards."),
    "trajectory": ("strop.cli.trajectory", "Check files of trajectories."),
    "model": ("strop.cli.model", "Run a small model on this machine."),
    "serve": ("strop.cli.serve", "Serve an environment over HTTP."),
    "sandbox": ("strop.cli.sandbox", "Run code that nobody trusts."),
    "hub": ("strop.cli.hub", "Run a hub of your own."),
    "login": ("strop.cli.account", "Keep a token for a hub."),
    "whoami": ("strop.cli.account", "Show who your token speaks for."),
    "config": ("strop.cli.account", "Show or change the configuration."),
}
"""Where each command's `app` is, and the line that `strop --help` shows without importing it."""

_SYSTEM_ADVICE: dict[int | None, str] = {
    errno.ENOSPC: ". Make room where files are written, or name other folders with "
    "XDG_CACHE_HOME and TMPDIR, and run the command again.",
    errno.EDQUOT: ". Make room within your quota, or name other folders with XDG_CACHE_HOME and "
    "TMPDIR, and run the command again.",
}
_EXIT_FAILED = 1
_EXIT_INTERRUPTED = 130
_SIGNALLED = {
    _EXIT_INTERRUPTED: ("interrupted", "Interrupted."),
    143: ("terminated", "Terminated."),
}
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
_EPILOG = "Begin with `strop env init my-env`, or `strop login URL`."


class _LazyGroup(TyperGroup):
    """Imports the module of a command only when that command is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_GROUPS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _GROUPS:
            return None
        module = import_module(_GROUPS[cmd_name][0])
        group = typer.main.get_command(module.app)
        found = getattr(group, "commands", {}).get(cmd_name, group)
        found.name = cmd_name
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _GROUPS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # The suggestions of the base class look here, and only at the names.
        self.commands: Any = dict.fromkeys(_GROUPS)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_LazyGroup,
    name="strop",
    help="Write, share and use reinforcement-learning environments for language models.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"strop {version('strop')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Write, share and use reinforcement-learning environments for language models."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    0: fine. 1: refused or failed. 2: used wrongly. 130: interrupted. 143: terminated.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _show_warning
    code = _run(arguments)
    sys.exit(code or _flush())


def _flush() -> int:
    """1 when the last of the output cannot be written, which nobody would hear of otherwise."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter would try again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print_error("system", f"The output cannot be written: {error.strerror}.", is_json=False)
        return _EXIT_FAILED
    return 0


def _run(arguments: list[str]) -> int:
    is_json = is_json_wanted(arguments)
    try:
        outcome = typer.main.get_command(app).main(
            arguments, prog_name="strop", standalone_mode=False
        )
    except (KeyboardInterrupt, typer.Abort):
        print_error("interrupted", "Interrupted.", is_json=is_json)
        return _EXIT_INTERRUPTED
    except _UsageError as error:
        return _refuse_usage(error, is_json=is_json)
    except Exception as error:  # noqa: BLE001 - the outermost boundary
        return _report(error, is_json=is_json)
    if outcome in _SIGNALLED:
        print_error(*_SIGNALLED[outcome], is_json=is_json)
    return outcome if isinstance(outcome, int) else 0


def _refuse_usage(error: Any, *, is_json: bool) -> int:
    is_help = type(error).__name__ == "NoArgsIsHelpError"
    if is_json and not is_help:
        print_error("usage", error.format_message(), is_json=True)
    else:
        error.show()
    return int(error.exit_code)


def _report(error: Exception, *, is_json: bool) -> int:
    if os.environ.get("STROP_DEBUG"):
        import traceback

        traceback.print_exception(error)
    code, message = _explain(error)
    try:
        print_error(code, message, is_json=is_json)
    except OSError:
        print_error(code, message, is_json=False)
    return _EXIT_FAILED


def _explain(error: Exception) -> tuple[str, str]:
    from strop.errors import StropError

    code = getattr(error, "code", None)
    if isinstance(error, StropError) or isinstance(code, str):
        return (code if isinstance(code, str) else _code_of(error)), str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return "system", f"{where}{error.strerror or error}{_SYSTEM_ADVICE.get(error.errno, '')}"
    return "internal", (
        f"{type(error).__name__}: {error}. This is a fault of strop itself; "
        "STROP_DEBUG=1 shows where."
    )


def _code_of(error: Exception) -> str:
    """``HubUnreachableError`` becomes ``hub_unreachable``."""
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print_warning(str(message))
