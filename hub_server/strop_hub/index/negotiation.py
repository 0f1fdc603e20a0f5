"""Choose the form of an index page from what the client accepts (step: resolve).

Source: PEP 691, "Content Negotiation"; RFC 9110 section 12.5.1.
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from urllib.parse import parse_qs


class Form(Enum):
    """A concrete form of a page; the value is its content type."""

    HTML = "text/html"
    JSON_V1 = "application/vnd.pypi.simple.v1+json"
    HTML_V1 = "application/vnd.pypi.simple.v1+html"

    @property
    def content_type(self) -> str:
        """The content type to send; HTML says its charset."""
        return self.value if self is Form.JSON_V1 else f"{self.value}; charset=utf-8"


_ALIASES = {
    "application/vnd.pypi.simple.latest+json": Form.JSON_V1.value,
    "application/vnd.pypi.simple.latest+html": Form.HTML_V1.value,
}
_MAX_ACCEPT_RANGES = 32


@dataclass(frozen=True, slots=True)
class _MediaRange:
    kind: str
    quality: float

    def specificity_for(self, form: Form) -> int | None:
        """How closely this range names `form`; None when it does not match."""
        if self.kind == form.value:
            return 2
        if self.kind == "*/*":
            return 0
        main, _, sub = self.kind.partition("/")
        return 1 if sub == "*" and form.value.startswith(main + "/") else None


@lru_cache(maxsize=256)
def choose_form(accept: str, query: str = "") -> Form | None:
    """The form to answer with; None when the client accepts none of them (406).

    `?format=` decides alone. Among equally accepted forms plain HTML comes first, which is
    what a browser or a client without `Accept` expects.
    """
    if "format=" in query:
        # A bare `+` in a query string reads as a space; content types hold no spaces.
        wanted = parse_qs(query).get("format", [""])[-1].strip().replace(" ", "+")
        accept = wanted
    ranges = _parse(accept) if accept.strip() else [_MediaRange("*/*", 1.0)]
    ranked = [(_quality(form, ranges), form) for form in Form]
    best, form = max(ranked, key=lambda entry: entry[0])
    return form if best > 0 else None


def _quality(form: Form, ranges: list[_MediaRange]) -> float:
    """The quality that the most specific matching range gives to `form`."""
    matching = [
        (specificity, media_range.quality)
        for media_range in ranges
        if (specificity := media_range.specificity_for(form)) is not None
    ]
    return max(matching)[1] if matching else 0.0


def _parse(accept: str) -> list[_MediaRange]:
    ranges = []
    for part in accept.split(",")[:_MAX_ACCEPT_RANGES]:
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if kind:
            ranges.append(_MediaRange(_ALIASES.get(kind, kind), _read_quality(parameters)))
    return ranges


def _read_quality(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return 0.0
            return quality if 0 <= quality <= 1 else 0.0
    return 1.0
