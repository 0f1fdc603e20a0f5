"""`strop sandbox`: what this machine's sandbox can do."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from strop.cli.options import JsonOption
from strop.cli.output import print_result

if TYPE_CHECKING:
    from strop.sandbox.doctor import Report

app = typer.Typer(
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


def _show(report: "Report") -> None:
    print(f"kernel {report.kernel}, Landlock {report.landlock_version}, cgroups {report.cgroups}")
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
