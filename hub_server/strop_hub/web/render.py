"""Templates to responses: everything is escaped, and no page may load or run what is not ours."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response

from strop_hub.settings import Settings

SECURITY_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        # Pictures of READMEs may come from elsewhere over https; nothing else may.
        "content-security-policy": (
            "default-src 'none'; style-src 'self'; img-src 'self' https:; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        ),
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "cross-origin-opener-policy": "same-origin",
        "vary": "Authorization",
        "cache-control": "private, no-cache",
    }
)
_IN_BACKTICKS = re.compile(r"`([^`]{1,400})`")
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


def _read_static() -> dict[str, tuple[bytes, str]]:
    """Bytes and media type by a name that changes with the bytes, so caches may keep it."""
    static = {}
    for entry in files("strop_hub.web").joinpath("static").iterdir():
        stem, dot, suffix = entry.name.rpartition(".")
        content = entry.read_bytes()
        name = f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}{dot}{suffix}"
        static[name] = content, _MEDIA_TYPES[dot + suffix]
    return static


STATIC: Mapping[str, tuple[bytes, str]] = MappingProxyType(_read_static())


def root_of(settings: Settings) -> str:
    """The path prefix under which people reach the hub; empty when it has the host for itself."""
    return urlsplit(settings.url).path.rstrip("/")


def render(settings: Settings, template: str, status: int = 200, /, **context: Any) -> Response:
    """A page as a response."""
    page = _templates.get_template(template).render(
        context,
        root=root_of(settings),
        public_url=settings.url,
    )
    # Lone surrogates, which uploaded text can hold, have no form in UTF-8.
    content = page.encode(errors="replace")
    return Response(content, status, dict(SECURITY_HEADERS), "text/html; charset=utf-8")


def _day(time: datetime) -> str:
    return f"{time.day} {time:%b %Y}"


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"


def _code(text: str) -> Markup:
    """Text whose parts in backticks are code, as the messages of errors write them."""
    return Markup(_IN_BACKTICKS.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704


def _static_name(prefix: str) -> str:
    return next(name for name in STATIC if name.startswith(prefix))


def _make_templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("strop_hub.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"day": _day, "size": _size, "code": _code}
    templates.globals |= {
        "hub_version": version("strop"),
        "stylesheet": _static_name("catalog."),
        "icon": _static_name("icon."),
    }
    return templates


_templates = _make_templates()
