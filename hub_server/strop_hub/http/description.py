"""What the OpenAPI document says beyond single routes: refusals, tokens, and what leads to what.

Source: OpenAPI 3.1.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from strop.hub.refs import NAME_PATTERN, TAG_PATTERN
from strop.hub.wire import PROBLEM_TYPE

Operation = dict[str, Any]

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_PLAIN = "application/json"
_EVERYWHERE = (400, 404, 405, 422, 429, 503)
_WITH_BODY = (408, 411, 413, 415)
_TOKENS: list[dict[str, Any]] = [{"bearer": []}, {"basic": []}]
_OPEN = frozenset({"resolve_references"})
"""Asked by POST, yet open to everybody."""

_CLOSED = frozenset({"show_caller", "show_release"})
"""Reads that need a token."""

_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token of this hub."},
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "The user name `__token__` with the token as password.",
    },
}
_VERSION = {
    "owner": "$response.body#/owner",
    "name": "$response.body#/name",
    "version": "$response.body#/version",
}
_PUSHED = {name: f"$response.body#/version/{name}" for name in _VERSION}
_FIRST = {name: f"$response.body#/items/0/{name}" for name in _VERSION}
_NAME = ("owner", "name")
_LINKS: dict[tuple[str, str], dict[str, dict[str, str]]] = {
    ("push", "201"): {
        "show_version": _PUSHED,
        "list_versions": {name: _PUSHED[name] for name in _NAME},
        "yank": _PUSHED,
    },
    ("list_environments", "200"): {
        "show_environment": {name: _FIRST[name] for name in _NAME},
        "list_versions": {name: _FIRST[name] for name in _NAME},
    },
    ("list_versions", "200"): {"show_version": _FIRST, "yank": _FIRST},
    ("yank", "200"): {"show_version": _VERSION, "unyank": _VERSION},
    ("unyank", "200"): {"show_version": _VERSION},
    ("open_release", "201"): {
        name: {"key": "$response.body#/key"}
        for name in ("show_release", "stage_files", "publish_release", "abandon_release")
    },
}
"""By operation and status: the operations that can follow, and where their parts are found."""


_PATTERNS = {"owner": NAME_PATTERN, "name": NAME_PATTERN, "was": NAME_PATTERN, "tag": TAG_PATTERN}
"""Of the parts of addresses; the services refuse others in their own words."""


def describe(app: FastAPI) -> None:
    """Let the document of `app` tell what holds for all routes."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(original)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(original: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    document = original()
    document.setdefault("components", {})["securitySchemes"] = _SCHEMES
    for methods in document["paths"].values():
        for method, operation in methods.items():
            _add_refusals(operation)
            _narrow_parts(operation)
            _add_links(operation)
            operation["security"] = _security(method, operation["operationId"])
    return document


def _add_refusals(operation: Operation) -> None:
    responses = operation["responses"]
    for status in _EVERYWHERE + (_WITH_BODY if "requestBody" in operation else ()):
        responses.setdefault(str(status), {"content": {_PLAIN: {"schema": _PROBLEM}}})
    for status, response in responses.items():
        content = response.get("content", {})
        if content.get(_PLAIN, {}).get("schema") == _PROBLEM:
            content[PROBLEM_TYPE] = content.pop(_PLAIN)
            response["description"] = HTTPStatus(int(status)).phrase


def _narrow_parts(operation: Operation) -> None:
    for parameter in operation.get("parameters", ()):
        pattern = _PATTERNS.get(parameter["name"])
        if parameter["in"] == "path" and pattern is not None:
            parameter["schema"]["pattern"] = f"^{pattern}$"


def _add_links(operation: Operation) -> None:
    for (name, status), followers in _LINKS.items():
        if name == operation["operationId"]:
            operation["responses"][status]["links"] = {
                follower: {"operationId": follower, "parameters": parameters}
                for follower, parameters in followers.items()
            }


def _security(method: str, name: str) -> list[dict[str, Any]]:
    is_open = name in _OPEN or (method == "get" and name not in _CLOSED)
    return [{}, *_TOKENS] if is_open else _TOKENS
