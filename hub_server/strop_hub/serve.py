"""Run the hub on uvicorn until it is told to stop; requests under way are finished first."""

import logging
import socket
from collections.abc import Callable
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from strop.errors import ConfigError
from strop_hub import admin
from strop_hub.app import create_app
from strop_hub.http.status import NO_USERS
from strop_hub.settings import Settings

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_KEEP_ALIVE_S = 15
_BACKLOG = 1024

logger = logging.getLogger(__name__)


def serve(settings: Settings, *, started: Callable[[str], None] | None = None) -> None:
    """Migrate the database, then answer requests until SIGINT or SIGTERM.

    Args:
        settings: The hub's; with port 0 any free port is taken.
        started: Told the hub's URL once connections are accepted.

    Raises:
        ConfigError: The address cannot be listened on.
    """
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    with _listen(settings) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        with admin.open_hub(settings) as hub:
            if not admin.has_users(hub):
                logger.warning(NO_USERS.replace("DIR", str(settings.data)))
        app = create_app(settings)
        if started is not None:
            started(settings.url)
        _run(app, settings, listener)


def _run(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Addresses in forwarded headers are anybody's word.
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.drain_s,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _listen(settings: Settings) -> socket.socket:
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}. "
            "Choose another --port, or stop what listens there."
        ) from error
