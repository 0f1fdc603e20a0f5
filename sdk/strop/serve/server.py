"""Serve an environment on the running event loop: from its first request to a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Self

from strop.environment import Environment
from strop.serve.app import EnvironmentApp
from strop.serve.http import HttpServer
from strop.serve.http.server import bind

LEASE_S = 60.0
HEARTBEAT_S = 1.0
CONCURRENCY = 1024


class EnvironmentServer:
    """An environment behind HTTP, on this process's loopback unless told otherwise.

    Args:
        environment: A fresh one: it is opened and closed with the server.
        secret: What every request has to know.
        lease_s: Seconds after which an episode whose client is silent is closed.
        ports: Where the workers listen that serve the same environment; only its own by default.

    Example:
        >>> async with EnvironmentServer(environment, secret) as server:
        ...     print(server.url)
    """

    def __init__(
        self,
        environment: Environment,
        secret: str,
        *,
        lease_s: float = LEASE_S,
        ports: tuple[int, ...] = (),
    ) -> None:
        self._environment = environment
        self._secret = secret
        self._lease_s = lease_s
        self._ports = ports
        self._app: EnvironmentApp
        self._server: HttpServer
        self._sweeping: asyncio.Task[None]

    @property
    def url(self) -> str:
        """Its address on this machine."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def episode_count(self) -> int:
        """Live episodes."""
        return self._app.episode_count

    async def __aenter__(self) -> Self:
        await self.start(bind("127.0.0.1", 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, listener: socket.socket) -> None:
        """Open the environment, and listen on a bound socket."""
        ports = self._ports or (listener.getsockname()[1],)
        self._environment.allow_concurrency(CONCURRENCY)
        try:
            await self._environment.__aenter__()
        except BaseException:
            listener.close()
            raise
        self._app = EnvironmentApp(
            self._environment, self._secret, lease_s=self._lease_s, ports=ports
        )
        self._sweeping = asyncio.get_running_loop().create_task(self._app.sweep())
        self._server = HttpServer(self._app.answer, heartbeat_s=HEARTBEAT_S)
        await self._server.start_on(listener)

    async def close(self, grace_s: float = 0.0) -> None:
        """End every episode, and close the environment.

        Args:
            grace_s: Seconds that live episodes get to end by themselves; none begins meanwhile.
        """
        self._sweeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._sweeping
        await self._app.drain(grace_s)
        await self._server.close()
        await self._environment.__aexit__(None, None, None)
