"""Open the models of a run (step: rollout)."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    from strop.environment import Environment
    from strop.model_choice import ModelChoice
    from strop.models.http import Proxies
    from strop.run_file import RunFile
    from strop.types import Model

SCRIPTED = "scripted:"

_MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons for a key that is another certificate's; the last where the kinds differ."""


def open_models(run: "RunFile", environment: "Environment") -> "dict[str, Model]":
    """By seat; the empty name plays every seat that has none of its own.

    Raises:
        ConfigError: A seat is none of the environment's, nothing says where a model is, or a file
            or variable is missing.
    """
    from strop.testing.policies import TaskModel

    _check_seats(run, environment)
    models: dict[str, Model] = {}
    scripts: dict[str, Model] = {}
    for seat, choice in {"": run.model, **run.seats}.items():
        model = open_model(choice, environment)
        if isinstance(model, TaskModel):
            # One script for all seats that it plays: its replies stand by turns.
            model = scripts.setdefault(model.name, model)
        models[seat] = model
    return models


def _check_seats(run: "RunFile", environment: "Environment") -> None:
    from strop.errors import ConfigError

    known = environment.seats
    unknown = [f"[seats.{seat}]" for seat in run.seats if seat not in known]
    if unknown:
        raise ConfigError(
            f"The run has {', '.join(unknown)}, but the environment's seats are "
            f"{', '.join(known)}. Correct the name, or leave the table out."
        )


def open_model(choice: "ModelChoice", environment: "Environment") -> "Model":
    """A scripted policy, or a client of an endpoint.

    Raises:
        ConfigError: Nothing says where the model is, or a file or variable is missing.
    """
    from strop.errors import ConfigError
    from strop.models.budget import PacedModel
    from strop.testing import POLICIES, scripted_policy

    name, base_url = choice.name, choice.base_url
    policy = name.removeprefix(SCRIPTED)
    if name.startswith(SCRIPTED) or (base_url is None and policy in POLICIES):
        return scripted_policy(policy, environment)
    if base_url is None and name.startswith(("http://", "https://")):
        base_url, _, name = name.rpartition("/")
    if base_url is None:
        known = ", ".join(SCRIPTED + policy for policy in POLICIES)
        raise ConfigError(f"Where is the model {name}? Give --base-url URL, or one of {known}.")
    model = _open_client(choice, name, base_url)
    if choice.requests_per_s is None and choice.tokens_per_s is None:
        return model
    return PacedModel(model, requests_per_s=choice.requests_per_s, tokens_per_s=choice.tokens_per_s)


def _open_client(choice: "ModelChoice", name: str, base_url: str) -> "Model":
    from strop.models.anthropic import AnthropicModel
    from strop.models.completions import CompletionsModel
    from strop.models.openai import OpenAIModel
    from strop.models.renderer import TemplateRenderer
    from strop.models.responses import ResponsesModel

    shared: dict[str, Any] = {"body": choice.body, "is_streaming": choice.stream}
    shared |= _connecting(choice)
    if choice.api == "messages":
        return AnthropicModel(name, base_url, **shared)
    if choice.api == "responses":
        return ResponsesModel(name, base_url, **shared)
    if choice.api == "completions":
        assert choice.tokenizer is not None
        renderer = TemplateRenderer.read(
            Path(choice.tokenizer), calls=choice.calls, **choice.template_variables
        )
        return CompletionsModel(name, base_url, renderer, **shared)
    return OpenAIModel(
        name,
        base_url,
        engine=choice.engine,
        logprobs=choice.logprobs,
        max_tokens_field=choice.max_tokens_field,
        reasoning_field=choice.reasoning_field,
        **shared,
    )


def _connecting(choice: "ModelChoice") -> dict[str, Any]:
    """What all clients take to reach a server."""
    from strop.models.http import Limits
    from strop.models.retry import RetryPolicy

    options: dict[str, Any] = {
        "api_key": _read_key(choice),
        "headers": choice.headers | {n: _read(v) for n, v in choice.headers_env.items()},
        "retry": RetryPolicy(**choice.retry.model_dump(exclude_none=True)),
        "limits": Limits(**choice.limits.model_dump(exclude_none=True)),
        "affinity_header": choice.affinity_header,
        "proxies": None if choice.proxy is None else _proxies(choice.proxy),
        "tls": _tls(choice),
    }
    return {name: value for name, value in options.items() if value is not None}


def _read_key(choice: "ModelChoice") -> str | None:
    """The key; none is no error where no variable was named, for many servers want none."""
    if choice.api_key_env is None:
        return os.environ.get(choice.key_variable)
    return _read(choice.api_key_env)


def _read(variable: str) -> str:
    from strop.errors import ConfigError

    value = os.environ.get(variable)
    if not value:
        raise ConfigError(f"The variable {variable}, which the run names, is not set. Set it.")
    return value


def _proxies(address: str) -> "Proxies":
    from dataclasses import replace

    from strop.models.http import Proxies
    from strop.models.http.proxy import Proxy

    proxy = Proxy.parse(address)
    return replace(Proxies.from_environment(), http=proxy, https=proxy)


def _tls(choice: "ModelChoice") -> "ssl.SSLContext | None":
    """None: as the client does by itself."""
    from strop.models.http.dialing import trusted_context

    if choice.ca_file is None and choice.cert_file is None:
        return None
    context = trusted_context()
    if choice.ca_file is not None:
        _trust(context, choice.ca_file)
    if choice.cert_file is not None:
        _show(context, choice.cert_file, choice.key_file)
    return context


def _trust(context: "ssl.SSLContext", path: str) -> None:
    import ssl

    from strop.errors import ConfigError

    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{path} (ca_file) holds no certificates that can be read: {error}. Give a PEM file."
        ) from error


def _show(context: "ssl.SSLContext", certificate: str, key: str | None) -> None:
    """Let the client show a certificate to servers that ask for one."""
    import ssl

    from strop.errors import ConfigError

    keeper = f"{certificate} (cert_file)" if key is None else f"{key} (key_file)"
    _find_in_pem(f"{certificate} (cert_file)", certificate, "certificate")
    _find_in_pem(keeper, key or certificate, "private key")

    def refuse_to_ask() -> str:
        # Without this OpenSSL would ask at the terminal.
        raise ConfigError(f"The key in {keeper} has a passphrase. Give one without.")

    try:
        context.load_cert_chain(certificate, key, refuse_to_ask)
    except ssl.SSLError as error:
        if error.reason in _MISMATCHES:
            told = f"The key in {keeper} is not that of the certificate in {certificate}"
            raise ConfigError(f"{told} (cert_file). Give the files of one pair.") from error
        raise ConfigError(
            f"{certificate} (cert_file) and the key in {keeper} cannot be used: {error}. "
            "Give a certificate and its key as PEM files."
        ) from error


def _find_in_pem(named: str, path: str, what: str) -> None:
    from strop.errors import ConfigError

    try:
        is_there = f"{what.upper()}-----".encode() in Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{named} cannot be read: {error}. Name a PEM file.") from error
    if not is_there:
        raise ConfigError(f"{named} holds no {what}. Give a PEM file that does.")
