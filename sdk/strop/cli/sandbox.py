"""`strop sandbox`: what this machine's sandbox can do, and how others may use it."""

import asyncio
import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strop.cli.command_group import CommandGroup
from strop.cli.options import JsonOption
from strop.cli.output import print_result

if TYPE_CHECKING:
    from strop.sandbox.doctor import Report

_SHORTEST_TOKEN = 20

app = typer.Typer(
    cls=CommandGroup,
    add_completion=False,
    name="sandbox",
    help="Run code that nobody trusts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    """Run code that nobody trusts."""


@app.command(epilog="\b\nExample:\n  strop sandbox doctor")
def doctor(
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="The Python that code would run in.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Try every backend, and say what holds and what does not.

    The exit code is 1 when no backend keeps code apart in namespaces or better.
    """
    from strop.sandbox.doctor import examine

    report = asyncio.run(examine(python=python))
    print_result(report.to_json(), is_json=json, show=lambda: _show(report))
    if report.chosen is None:
        raise typer.Exit(1)


@app.command(epilog="\b\nExample:\n  strop sandbox serve --port 7711 --token-file ./token")
def serve(
    token_file: Annotated[
        Path, typer.Option(metavar="PATH", help="Holds the token; made if it does not exist.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any free one.")] = 0,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="The Python that code runs in.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Serve this machine's sandbox to whoever knows the token, until interrupted.

    What travels is not encrypted: bind it to loopback or to a network of your own.
    """
    token = _read_token(token_file)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(host, port, token, python, is_json=json))


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except FileNotFoundError:
        token = secrets.token_urlsafe(32)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
    if len(token) < _SHORTEST_TOKEN:
        raise typer.BadParameter(f"the token in {path} has fewer than {_SHORTEST_TOKEN} characters")
    return token


async def _serve(host: str, port: int, token: str, python: str | None, *, is_json: bool) -> None:
    from strop.sandbox.backends.agent import Agent
    from strop.sandbox.choose import open_backend

    backend = await open_backend(python=python)
    agent = Agent(backend.transport, token)
    bound = await agent.start(host, port)
    document = {"host": host, "port": bound, "backend": backend.name}
    line = f"{backend.name} is served at {host}:{bound}"
    print_result(document, is_json=is_json, show=lambda: print(line))
    sys.stdout.flush()
    try:
        await agent.serve()
    finally:
        await agent.close()


def _show(report: "Report") -> None:
    print(f"kernel {report.kernel}, Landlock {report.landlock_version}")
    print(f"control groups that could be used: {report.cgroups}")
    for probe in report.probes:
        mark = "  <- chosen" if probe.name == report.chosen else ""
        print(f"\n{probe}{mark}")
        found = report.capabilities.get(probe.name)
        if found is None:
            continue
        print(f"  isolation: {found.isolation.name}")
        for name, means in found.enforced.items():
            print(f"  holds       {name}: {means}")
        for name, cause in found.not_enforced.items():
            print(f"  not held    {name}: {cause}")
