"""`strop serve`: an environment behind HTTP, for trainers in other processes."""

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strop.cli.options import JsonOption, examples
from strop.cli.output import print_fields, print_message, print_result

if TYPE_CHECKING:
    from strop.environment import Environment

SECRET_VARIABLE = "STROP_SERVE_SECRET"  # noqa: S105 - the name of a variable, not a secret

app = typer.Typer(
    name="serve",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(
    name="serve",
    epilog=examples(
        "strop serve math-env",
        "strop serve . --set size=5 --workers 4",
        "strop serve ada/math-env@0.1.0 --host 0.0.0.0 --port 8200",
    ),
)
def serve(
    *,
    target: Annotated[str, typer.Argument(metavar="NAME | OWNER/NAME[@VERSION] | FOLDER")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Of the environment; can be repeated."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; 0.0.0.0 is everywhere.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Of the first worker; 0: a free one.")
    ] = 0,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes, each with a port of its own.")
    ] = 1,
    lease: Annotated[
        float,
        typer.Option(
            "--lease", min=1, metavar="SECONDS", help="How long a silent client's episode is kept."
        ),
    ] = 60.0,
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            min=0,
            metavar="SECONDS",
            help="How long live episodes may go on.",
        ),
    ] = 30.0,
    is_json: JsonOption = False,
) -> None:
    """Serve an installed environment, or that of a folder, until interrupted.

    The secret is STROP_SERVE_SECRET, or a new one, which is printed.
    """
    from strop.serve.workers import ServePlan, Workers

    load = _loader(target, _read_settings(settings or ()))
    secret = os.environ.get(SECRET_VARIABLE) or secrets.token_urlsafe(24)
    plan = ServePlan(secret, host, port, workers, lease, grace)
    running = Workers(load, plan)
    shown_host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - only shown
    urls = [f"http://{shown_host}:{each}" for each in running.ports]
    document = {"environment": target, "url": urls[0], "workers": urls, "secret": secret}

    def tell() -> None:
        print_result(document, is_json=is_json, show=lambda: _show(document))
        sys.stdout.flush()
        print_message("Interrupt to end.")

    running.run(tell)


def _show(document: dict[str, Any]) -> None:
    print_fields([(name, document[name]) for name in ("environment", "url", "workers", "secret")])


def _loader(target: str, settings: dict[str, str]) -> "Callable[[], Environment]":
    folder = Path(target)
    if (folder / "pyproject.toml").is_file():
        return lambda: _load_folder(folder.resolve(), settings)

    def load() -> "Environment":
        from strop.hub.load import load

        return load(target, **settings)

    return load


def _load_folder(folder: Path, settings: dict[str, str]) -> "Environment":
    from importlib import import_module

    from strop.hub.manifest import read_project
    from strop.hub.settings import check_settings
    from strop.types import EnvironmentIdentity

    manifest = read_project(folder)
    module, _, name = str(manifest.entry_point).partition(":")
    sys.path[:0] = [str(path) for path in (folder / "src", folder) if path.is_dir()]
    load_environment = getattr(import_module(module), name)
    values = check_settings(load_environment, settings, where=manifest.name)
    environment: Environment = load_environment(**values)
    environment.identity = EnvironmentIdentity(
        manifest.name, version=manifest.version, state="editable"
    )
    environment.settings = values
    return environment


def _read_settings(pairs: Sequence[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name.isidentifier():
            raise typer.BadParameter(f"--set {pair!r} is not KEY=VALUE.")
        settings[name] = value
    return settings
