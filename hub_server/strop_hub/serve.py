"""Run the hub on uvicorn until it is told to stop; requests under way are finished first."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from strop.errors import ConfigError
from strop_hub import admin, log, metrics
from strop_hub.app import create_app
from strop_hub.http.protocol import ImpatientProtocol
from strop_hub.http.status import NO_USERS
from strop_hub.legacy.attestation import check_trusted_root
from strop_hub.releases.deletion import repeat_purges
from strop_hub.settings import Settings

_KEEP_ALIVE_S = 15
_BACKLOG = 1024
_START_S = 120
_HANG_S = 120
"""A worker that says nothing for so long hangs; one that starts on a busy machine says nothing."""
_LOOK_S = 0.05

logger = logging.getLogger(__name__)


def serve(
    settings: Settings,
    *,
    worker_count: int = 1,
    server: str = "uvicorn",
    started: Callable[[str], None] | None = None,
) -> None:
    """Migrate the database, then answer requests until SIGINT or SIGTERM.

    Args:
        settings: The hub's; with port 0 any free port is taken.
        worker_count: Processes that answer; each has memory and connections of its own.
        server: ``uvicorn``, or ``granian`` where it is installed.
        started: Told the hub's URL once connections are accepted.

    Raises:
        ConfigError: The address cannot be listened on, the server is not installed, or the roots
            of trust for attestations are none.
    """
    log.configure(settings.log_format)
    check_trusted_root(settings.attestation_trusted_root)
    with _listen(settings) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        with admin.open_hub(settings) as hub:
            for record in repeat_purges(hub):
                logger.warning(
                    "purged %s/%s@%s again, which a restored database had back",
                    record.owner,
                    record.name,
                    record.version,
                )
            if not admin.has_users(hub):
                logger.warning(NO_USERS.replace("DIR", str(settings.data)))
        tell = partial(started or (lambda _url: None), settings.url)
        if server == "granian":
            # It opens the address itself.
            listener.close()
            _run_granian(settings, worker_count, tell)
        elif worker_count > 1:
            tell()
            with metrics.shared_by_processes():
                config = _config(partial(create_worker, settings), settings, worker_count)
                Multiprocess(config, [listener]).run()
        else:
            app = create_app(settings)
            tell()
            uvicorn.Server(_config(lambda: app, settings)).run(sockets=[listener])


def create_worker(settings: Settings) -> FastAPI:
    """The application of one of several processes."""
    log.configure(settings.log_format)
    return create_app(settings)


def create_from_environment() -> FastAPI:
    """The application of a server that only takes the name of a function."""
    return create_worker(Settings.read())


def _config(
    factory: Callable[[], FastAPI], settings: Settings, worker_count: int = 1
) -> uvicorn.Config:
    config = uvicorn.Config(
        factory,
        factory=True,
        workers=worker_count,
        http=ImpatientProtocol,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Addresses in forwarded headers are anybody's word.
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.drain_s,
    )
    # Versions before 0.37 do not take it as an argument, nor heed it.
    config.timeout_worker_healthcheck = _HANG_S
    return config


def _run_granian(settings: Settings, worker_count: int, tell: Callable[[], None]) -> None:
    try:
        from granian.constants import Interfaces
        from granian.server import Server
    except ModuleNotFoundError as error:
        raise ConfigError("granian is not installed. Run: pip install granian") from error
    os.environ.update(settings.variables())
    target = f"{__name__}:{create_from_environment.__name__}"
    server = Server(
        target,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        workers=worker_count,
        factory=True,
        log_enabled=False,
        backlog=_BACKLOG,
        workers_kill_timeout=settings.drain_s,
    )
    # Its workers listen, some time after it calls itself started.
    waiting = partial(_tell_when_open, settings, tell)
    server.on_startup(threading.Thread(target=waiting, name="started", daemon=True).start)
    with metrics.shared_by_processes():
        server.serve()


def _tell_when_open(settings: Settings, tell: Callable[[], None]) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        with suppress(OSError):
            socket.create_connection((settings.host, settings.port), timeout=1).close()
            tell()
            return
        time.sleep(_LOOK_S)
    logger.error("nothing listens on %s:%d after %d s", settings.host, settings.port, _START_S)


def _listen(settings: Settings) -> socket.socket:
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        address = (settings.host, settings.port)
        listener = socket.create_server(address, family=family, backlog=_BACKLOG)
        # Connections inherit it. The event loop sets it only on sockets that name their protocol;
        # without it every answer in two pieces waits 40 ms for the client's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}. "
            "Choose another --port, or stop what listens there."
        ) from error
