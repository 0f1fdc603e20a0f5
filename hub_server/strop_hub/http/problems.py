"""Errors as problem+json, in one place. Source: RFC 9457."""

import logging
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import DataError, DBAPIError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from strop.errors import InvalidRefError
from strop.hub.wire import PROBLEM_TYPE, Problem
from strop_hub.audit.service import Act, note_refusal
from strop_hub.auth import Caller
from strop_hub.errors import (
    HubError,
    InvalidRequestError,
    MovedError,
    StorageUnavailableError,
    TooLargeError,
)
from strop_hub.http.request_scope import REQUEST_ID
from strop_hub.hub import Hub, in_thread

logger = logging.getLogger(__name__)

CODES = {404: "not_found", 405: "method_not_allowed", 413: TooLargeError.code}
"""Of what the router itself refuses."""

OTHER_CODE = "http_error"


def add_handlers(app: FastAPI) -> None:
    """Let `app` render every error as a problem."""
    app.add_exception_handler(HubError, _render_refusal)
    app.add_exception_handler(InvalidRefError, _render_invalid_ref)
    app.add_exception_handler(RequestValidationError, _render_invalid_request)
    app.add_exception_handler(HTTPException, _render_http)
    app.add_exception_handler(DataError, _render_impossible_text)
    app.add_exception_handler(UnicodeEncodeError, _render_impossible_text)
    app.add_exception_handler(DBAPIError, _render_database_fault)


def refusal(error: HubError, request_id: str | None) -> Response:
    """An error as a response, with the headers that belong to it."""
    problem = Problem(
        title=error.title,
        status=error.status,
        detail=error.detail,
        code=error.code,
        request_id=request_id,
        problems=error.problems,
    )
    return _respond(problem, dict(error.headers))


async def _render_refusal(request: Request, error: Any) -> Response:
    if isinstance(error, MovedError) and request.method in ("GET", "HEAD"):
        return _send_on(request, error)
    await _note(request, error)
    return refusal(error, request.scope.get(REQUEST_ID))


def _send_on(request: Request, error: MovedError) -> Response:
    """To the same page under the present name; only reads follow by themselves."""
    hub: Hub = request.app.state.hub
    named = request.path_params
    former = f"/{named.get('owner')}/{named.get('name')}"
    path = request.url.path.replace(former, f"/{error.owner}/{error.name}", 1)
    query = f"?{request.url.query}" if request.url.query else ""
    target = hub.settings.url + quote(path, safe="/!+%") + query
    # Not for ever: the owner may end where a former name leads.
    return Response(status_code=307, headers={"location": target, "cache-control": "no-cache"})


async def _render_invalid_ref(request: Request, error: Any) -> Response:
    return await _render_refusal(request, InvalidRequestError(str(error)))


async def _render_invalid_request(request: Request, error: Any) -> Response:
    problems = [
        f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
        for fault in error.errors()
    ]
    detail = "the request is not in the form that this address reads"
    return await _render_refusal(request, InvalidRequestError(detail, problems=problems))


async def _render_http(request: Request, error: Any) -> Response:
    problem = Problem(
        title=str(error.detail),
        status=error.status_code,
        detail=f"{request.method} {request.url.path[:200]!a}: {error.detail}. "
        "The addresses of this hub are in /openapi.json",
        code=CODES.get(error.status_code, OTHER_CODE),
        request_id=request.scope.get(REQUEST_ID),
    )
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_methods_at(request)))
    return _respond(problem, headers)


def _methods_at(request: Request) -> set[str]:
    """What can be done at an address; the router itself tells only of its first route there."""
    methods: set[str] = set()
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods
    return methods | ({"HEAD"} if "GET" in methods else set())


async def _render_impossible_text(request: Request, _error: Any) -> Response:
    # What one database keeps and the other refuses: NUL, lone surrogates, numbers beyond 64 bits.
    detail = "the request has a text or a number that no database keeps. Write it without NUL"
    return await _render_refusal(request, InvalidRequestError(detail))


async def _render_database_fault(request: Request, error: Any) -> Response:
    logger.error("the database failed: %s", error)
    fault = StorageUnavailableError("the hub's database does not answer; repeat the request later")
    return await _render_refusal(request, fault)


async def _note(request: Request, error: HubError) -> None:
    act: Act | None = getattr(request.state, "act", None)
    if act is None:
        return
    hub: Hub = request.app.state.hub
    caller: Caller = getattr(request.state, "caller", Caller.anonymous())
    try:
        await in_thread(hub.workers.database, note_refusal, hub.database, caller, act, error)
    except (HubError, DBAPIError) as fault:
        # The refusal itself is worth more than its line: a full disk must be told as such.
        logger.error("the refusal of %s %s was not noted: %s", act.action, act.target, fault)


def _respond(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    try:
        content = problem.model_dump_json().encode()
    except (ValueError, UnicodeError):
        # Text of an upload can hold lone surrogates.
        printable = problem.detail.encode("utf-8", "backslashreplace").decode()
        problem = problem.model_copy(update={"detail": printable, "problems": []})
        content = problem.model_dump_json().encode()
    return Response(content, problem.status, headers, media_type=PROBLEM_TYPE)
