"""Options of commands that ask a model, and the tables of a run file that they mean."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="scripted:oracle (the default), :mixed, :random, :constant, :empty, or its name.",
    ),
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Where the model answers.")
]
ApiOption = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="API",
        help="chat (the default), completions, messages (Anthropic) or responses (OpenAI).",
    ),
]
KeyOption = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="The variable with its key.")
]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", help="vllm, sglang or llama.cpp: keep the engine's token ids."),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer", metavar="PATH", help="For completions: a model's folder, or a GGUF file."
    ),
]
StreamOption = Annotated[bool, typer.Option("--stream", help="Receive replies in pieces.")]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="Of every request; can be repeated."),
]
BodyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--body", metavar="KEY=VALUE", help="A further field of every request; can be repeated."
    ),
]
AffinityOption = Annotated[
    str | None,
    typer.Option("--affinity-header", metavar="NAME", help="A header that each attempt keeps."),
]
TriesOption = Annotated[
    int | None, typer.Option("--tries", min=1, help="Of each call, with the first one; else 6.")
]
ProxyOption = Annotated[
    str | None, typer.Option("--proxy", metavar="URL", help="Else as HTTPS_PROXY and others say.")
]
CaOption = Annotated[
    Path | None,
    typer.Option("--ca-file", metavar="FILE", help="Further authorities to trust (PEM)."),
]
CertOption = Annotated[
    Path | None,
    typer.Option("--cert-file", metavar="FILE", help="A client certificate to show (PEM)."),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="Its key, where --cert-file has none."),
]


def read_model_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The table ``[model]`` that the options above mean; what was not given is None or empty.

    Args:
        options: By the names of the command's parameters.
    """
    names = ("base_url", "api", "api_key_env", "engine", "affinity_header", "proxy")
    paths = ("tokenizer", "ca_file", "cert_file", "key_file")
    return {
        "name": options["model"],
        **{name: options[name] for name in names},
        **{name: None if options[name] is None else str(options[name]) for name in paths},
        "stream": options["stream"] or None,
        "headers": _pairs("--header", options["header"] or ()),
        "body": {
            name: _value(text) for name, text in _pairs("--body", options["body"] or ()).items()
        },
        "retry": {} if options["tries"] is None else {"try_count": options["tries"]},
    }


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not found or not name.strip():
            raise typer.BadParameter(f"{option} {text!r} is not NAME=VALUE.")
        pairs[name.strip()] = value.strip()
    return pairs


def _value(text: str) -> Any:
    """A value of TOML, or else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
