"""Pages that an episode's tools search and open: indexed in memory, or on the web by key.

- `base`: what every source offers
- `local`: a full-text index of pages that the author has
- `web`: providers of web search, and the pages that they list
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strop.search.base import Hit, PageSource
    from strop.search.local import LocalIndex
    from strop.search.web import PROVIDERS, WebSearch

_HOMES = {
    "Hit": "base",
    "LocalIndex": "local",
    "PROVIDERS": "web",
    "PageSource": "base",
    "WebSearch": "web",
}

__all__ = ["PROVIDERS", "Hit", "LocalIndex", "PageSource", "WebSearch"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'strop.search' has no attribute {name!r}")
    value = getattr(import_module(f"strop.search.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
