"""Chat templates as models ship them, compiled as their authors expect."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from strop.errors import ConfigError, RendererError

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.parser import Parser

HINT = "Install the extra: pip install 'strop[hf]'."


def compile_template(source: str) -> Callable[..., str]:
    """A function from a conversation to its text.

    A template comes with a model and is not trusted: it runs in a sandbox.

    Source:
        The settings, filters and globals that Hugging Face transformers gives to chat templates.

    Raises:
        ConfigError: The extra ``hf`` is missing.
        RendererError: From the function: the template refuses the conversation.
    """
    try:
        from jinja2 import TemplateError
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError as error:
        raise ConfigError(f"Chat templates need jinja2. {HINT}") from error

    class Generation(Extension):
        """``{% generation %}``, by which training code finds what an assistant says."""

        tags = {"generation"}  # noqa: RUF012 - as the base class has it

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    template = environment.from_string(source)

    def render(**variables: Any) -> str:
        try:
            return template.render(**variables)
        except (TemplateError, TypeError) as error:
            raise RendererError(f"the chat template refuses the conversation: {error}") from error

    return render


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    # The filter of jinja2 itself escapes for HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _refuse(message: str) -> NoReturn:
    raise RendererError(f"the chat template refuses the conversation: {message}")


def _now(format: str) -> str:
    return datetime.now().strftime(format)  # noqa: DTZ005 - the prompt tells the local date
