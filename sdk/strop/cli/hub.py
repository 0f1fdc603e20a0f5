"""`strop hub`: make a hub and serve it."""

import logging
import sys
from typing import Annotated

import typer

from strop.cli.hub_data import DataOption, hub_code, hub_group, read_settings
from strop.cli.hub_moderation import app as moderation_app
from strop.cli.hub_people import organisation_app, token_app, user_app
from strop.cli.hub_upkeep import add_upkeep
from strop.cli.options import JsonOption
from strop.cli.output import print_fields, print_message, print_result, print_warning

app = hub_group(
    "hub",
    "Run a hub of your own.",
    "Examples:\n"
    "  strop hub init --data ./hub --admin ada\n"
    "  strop hub serve --data ./hub --port 8000",
)
app.add_typer(moderation_app)
app.add_typer(user_app)
app.add_typer(token_app)
app.add_typer(organisation_app)
add_upkeep(app)


@app.command(epilog="\b\nExample:\n  strop hub init --data ./hub --admin ada")
def init(
    admin: Annotated[str, typer.Option("--admin", metavar="NAME", help="The first user.")],
    data: DataOption = None,
    sdk: Annotated[
        bool, typer.Option("--sdk/--no-sdk", help="Also publish the running SDK as strop/strop.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Create a hub and its administrator; the token is printed this once.

    It can be repeated: what is there stays.
    """
    with hub_code():
        from strop_hub import admin as hub_admin

        result = hub_admin.init(read_settings(data), admin, with_sdk=sdk)
    for warning in result.warnings:
        print_warning(warning)
    fields = [
        ("administrator", result.admin),
        ("token", result.token or "made before; a new one: strop hub token create"),
        ("sdk", result.sdk_version and f"strop/strop@{result.sdk_version}"),
    ]
    document = {"admin": result.admin, "token": result.token, "sdk_version": result.sdk_version}
    print_result(document, is_json=json, show=lambda: print_fields(fields))


@app.command(
    epilog="\b\nExample:\n  strop hub serve --data ./hub --port 8000 --public-url https://hub.example"
)
def serve(
    *,
    data: DataOption = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 for any free one.")] = None,
    public_url: Annotated[
        str | None, typer.Option("--public-url", metavar="URL", help="How clients reach the hub.")
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, help="Processes that answer.")
    ] = 1,
    server: Annotated[
        str, typer.Option("--server", metavar="NAME", help="uvicorn, or granian if installed.")
    ] = "uvicorn",
    json: JsonOption = False,
) -> None:
    """Answer requests until Ctrl-C; uploads under way are finished first."""
    with hub_code():
        from strop_hub.serve import serve as serve_hub

        settings = read_settings(data, host=host, port=port, public_url=public_url)

    def tell(url: str) -> None:
        show = f"The hub is at {url} (data in {settings.data}). Ctrl-C stops it."
        print_result({"url": url}, is_json=json, show=lambda: print_message(show))
        # Whoever started the hub waits for this line, perhaps through a pipe.
        sys.stdout.flush()

    logging.captureWarnings(True)
    serve_hub(settings, worker_count=workers, server=server, started=tell)
