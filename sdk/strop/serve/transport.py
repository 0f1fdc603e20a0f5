"""The way to the workers of a served environment: calls, and what their faults mean."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import Any

import httpx

from strop.errors import EnvironmentLostError, ModelError, ServeRefusedError
from strop.models.http import HttpPool, Limits, Request, Url
from strop.serve.wire import error_from_json

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_ADVICE = "Is `strop serve` running there?"


@dataclass(frozen=True, slots=True)
class Worker:
    """One process that serves the environment."""

    url: str
    secret: str

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"authorization": f"Bearer {self.secret}", "content-type": "application/json"}


class Transport:
    """Calls workers from a coroutine.

    A worker that works sends a sign of life each second, so that silence means its death.

    Args:
        silence_s: Seconds without a sign of life after which a worker counts as lost.
    """

    def __init__(self, silence_s: float) -> None:
        self._pool = HttpPool(Limits(connect_s=min(silence_s, 5.0), read_s=silence_s, total_s=None))

    async def call(
        self, worker: Worker, method: str, path: str, document: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The answer to one call; an error inside it is left to the caller.

        Raises:
            EnvironmentLostError: The worker is gone, silent, or knows the episode no more.
            ServeRefusedError: It refuses.
        """
        body = b"" if document is None else _encode(document).encode("ascii")
        headers = tuple(worker.headers().items())
        request = Request(method, Url.parse(worker.url + path), headers, body)
        try:
            response = await self._pool.fetch(request)
        except ModelError as error:
            raise EnvironmentLostError(f"The environment's server is lost: {error}.") from error
        return read_answer(response.status, response.body, worker.url)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()


def call_now(worker: Worker, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
    """The answer to a GET, for code that cannot wait: tasks are read like any other sequence.

    Raises:
        EnvironmentLostError: Nobody answers.
        ServeRefusedError: The answer is a refusal, or no answer of such a server.
        KeyError: There is no such task.
    """
    # Addresses of this machine never go through a proxy.
    is_near = _is_loopback(httpx.URL(worker.url).host)
    try:
        with httpx.Client(trust_env=not is_near, timeout=60.0) as client:
            response = client.get(worker.url + path, params=query, headers=worker.headers())
    except httpx.HTTPError as error:
        raise EnvironmentLostError(
            f"Nobody answers at {worker.url} ({type(error).__name__}: {error}). {_ADVICE}"
        ) from error
    answer = read_answer(response.status_code, response.content, worker.url)
    return raise_error(answer)


def read_answer(status: int, body: bytes, url: str) -> dict[str, Any]:
    """The document of an answer.

    Raises:
        StropError: The status says that the call failed.
    """
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ServeRefusedError(f"{url} is no server of environments (status {status}). {_ADVICE}")
    if status >= 400:
        raise_error(document)
        raise ServeRefusedError(f"{url} answered with status {status}. {_ADVICE}")
    return document


def raise_error(document: dict[str, Any]) -> dict[str, Any]:
    """The document, unless it holds an error.

    Raises:
        KeyError: There is no such task.
        StropError: Any other error.
    """
    fault = document.get("error")
    if not isinstance(fault, dict) or "type" not in fault:
        return document
    if fault["type"] == "KeyError":
        raise KeyError(fault["message"])
    raise error_from_json(fault)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
