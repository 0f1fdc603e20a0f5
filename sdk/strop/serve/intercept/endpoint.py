"""The local address that programs take for a provider: one listener for all episodes of a loop."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from weakref import WeakKeyDictionary

from strop.serve.http import Answer, HttpServer, Request, json_answer
from strop.serve.intercept.call import CallError, Dialect
from strop.serve.intercept.chat import Chat
from strop.serve.intercept.messages import Messages
from strop.serve.intercept.responses import Responses
from strop.serve.intercept.session import Session, SessionClosedError

_DIALECTS: dict[str, Dialect] = {
    "/chat/completions": Chat(),
    "/messages": Messages(),
    "/responses": Responses(),
}
_endpoints: WeakKeyDictionary[asyncio.AbstractEventLoop, Endpoint] = WeakKeyDictionary()


class Endpoint:
    """Answers the calls of programs, each known by its secret.

    It listens on loopback while a session is open.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._server: HttpServer | None = None
        self._lock = asyncio.Lock()

    @classmethod
    def current(cls) -> Endpoint:
        """The running loop's."""
        loop = asyncio.get_running_loop()
        if loop not in _endpoints:
            _endpoints[loop] = cls()
        return _endpoints[loop]

    async def open(self, passed_fields: tuple[str, ...] = ()) -> Session:
        """A session for one program."""
        session = Session(passed_fields)
        self._sessions[session.secret] = session
        async with self._lock:
            if self._server is None:
                self._server = await HttpServer(self._answer).start()
        return session

    async def close(self, session: Session) -> None:
        """Forget a session; the last one closes the address."""
        session.close("The episode has ended.")
        self._sessions.pop(session.secret, None)
        async with self._lock:
            if not self._sessions and self._server is not None:
                server, self._server = self._server, None
                await server.close()

    @property
    def url(self) -> str:
        """Its address, without a path."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.port}"

    def variables(self, session: Session) -> dict[str, str]:
        """What leads a program here."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_BASE": f"{self.url}/v1",
            "OPENAI_API_KEY": session.secret,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": session.secret,
        }

    async def _answer(self, request: Request) -> Answer:
        path = request.path
        dialect = next((d for end, d in _DIALECTS.items() if path.endswith(end)), None)
        shape = dialect or _DIALECTS["/chat/completions"]
        session = self._sessions.get(_secret_of(request))
        if session is None:
            return _refuse(shape, 401, "This key belongs to no episode that runs.")
        if "/models" in path and request.method == "GET":
            return _models(path)
        if dialect is None or request.method != "POST":
            return _refuse(shape, 404, f"{request.method} {path} is not offered here.")
        if not await session.admits(request.peer):
            return _refuse(
                shape,
                403,
                "This call comes from a process that the episode's program started, or after its "
                "end. Let the program itself call, or set Program(callers='any').",
            )
        return await _completed(session, request, dialect)


async def _completed(session: Session, request: Request, dialect: Dialect) -> Answer:
    try:
        call, reply = await session.answer(request, dialect)
    except CallError as error:
        return _refuse(dialect, 400, str(error))
    except ValueError as error:
        return _refuse(dialect, 400, f"The body cannot be read: {error}.")
    except SessionClosedError as error:
        return _refuse(dialect, 403, str(error))
    if not call.is_streaming:
        return Answer(200, json.dumps(reply).encode("ascii"))
    return Answer(200, dialect.encode_stream(call, reply), "text/event-stream")


def _secret_of(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key", "")


def _models(path: str) -> Answer:
    _, _, name = path.partition("/models")
    model = _model(name.strip("/") or "policy")
    if name.strip("/"):
        return json_answer(model)
    return json_answer(
        {"object": "list", "data": [model], "has_more": False, "first_id": None, "last_id": None}
    )


def _model(name: str) -> dict[str, Any]:
    created = "1970-01-01T00:00:00Z"
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": 0,
        "created_at": created,
        "owned_by": "strop",
    }


def _refuse(dialect: Dialect, status: int, message: str) -> Answer:
    return json_answer(dialect.refuse(status, message), status)
