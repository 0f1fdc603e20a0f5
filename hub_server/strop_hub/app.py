"""Assemble the application; everything that it needs comes in as an argument."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI
from sqlalchemy.exc import DBAPIError

from strop.errors import ConfigError, StropError
from strop_hub import metrics
from strop_hub.accounts import routes as accounts
from strop_hub.accounts.token_use import FLUSH_INTERVAL_S
from strop_hub.changes import routes as changes
from strop_hub.checks import routes as checks
from strop_hub.errors import HubError
from strop_hub.http import problems, status
from strop_hub.http.body_limit import BodyLimitMiddleware
from strop_hub.http.description import describe
from strop_hub.http.middleware import RequestIdMiddleware
from strop_hub.http.patience import Patience, PatienceMiddleware
from strop_hub.http.proxies import ProxyMiddleware
from strop_hub.http.rate_limit import RateLimitMiddleware
from strop_hub.http.read_only import ReadOnlyMiddleware
from strop_hub.http.reads import ReadsMiddleware
from strop_hub.http.target import TargetMiddleware
from strop_hub.hub import Hub, in_thread
from strop_hub.index.app import IndexApp
from strop_hub.legacy import routes as legacy
from strop_hub.metrics import MetricsMiddleware
from strop_hub.postgres import ChangeListener
from strop_hub.publish import routes as publish
from strop_hub.publish.staging import sweep
from strop_hub.registry import routes as registry
from strop_hub.releases import move_routes as moves
from strop_hub.releases import routes as releases
from strop_hub.releases.deletion import finish_purges
from strop_hub.settings import Settings
from strop_hub.staging import routes as staging
from strop_hub.web import routes as web
from strop_hub.web import rss

if TYPE_CHECKING:
    from strop_hub.tracing import Tracing

_FINISH_INTERVAL_S = 60.0

logger = logging.getLogger(__name__)

_PARTS = (
    status,
    metrics,
    accounts,
    publish,
    legacy,
    staging,
    moves,
    releases,
    checks,
    changes,
    registry,
    rss,
    # Last: its addresses begin with any owner's name.
    web,
)


def create_app(settings: Settings) -> FastAPI:
    """The hub as an ASGI application over the data folder of `settings`.

    The database must have this version's schema: `strop_hub.admin.serve` migrates it first.
    """
    hub = Hub.open(settings)
    tracing = _tracing(hub)
    app = FastAPI(
        title="Strop hub",
        summary="Environments for reinforcement learning of language models, by name and version.",
        version=version("strop"),
        # The interactive pages load scripts from elsewhere; the document itself is served.
        docs_url=None,
        redoc_url=None,
        # Such redirects would name the Host header; both spellings are routes where it matters.
        redirect_slashes=False,
        lifespan=_lifespan(hub, tracing),
    )
    app.state.hub = hub
    problems.add_handlers(app)
    for part in _PARTS:
        app.include_router(part.router)
    app.state.routes = [route for part in _PARTS for route in part.router.routes]
    describe(app)
    app.add_middleware(IndexApp, hub=hub)
    app.add_middleware(BodyLimitMiddleware, max_bytes=settings.max_json_bytes)
    app.add_middleware(ReadOnlyMiddleware, is_on=bool(settings.read_only))
    app.add_middleware(PatienceMiddleware, patience=_patience(settings))
    app.add_middleware(RateLimitMiddleware, per_minute=settings.requests_per_minute)
    app.add_middleware(MetricsMiddleware)
    if tracing is not None:
        from strop_hub.tracing import TracingMiddleware

        app.add_middleware(TracingMiddleware, tracing=tracing)
    app.add_middleware(ReadsMiddleware)
    app.add_middleware(TargetMiddleware)
    app.add_middleware(ProxyMiddleware, trusted=settings.trusted_proxies)
    app.add_middleware(RequestIdMiddleware, version=version("strop"))
    return app


def _tracing(hub: Hub) -> "Tracing | None":
    if not hub.settings.trace_url:
        return None
    try:
        from strop_hub.tracing import Tracing
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`trace_url` is set, and {error.name} is not installed. "
            "Run: pip install 'strop[hub,otel]'"
        ) from error
    tracing = Tracing(hub.settings.trace_url)
    tracing.watch(hub.database.engine)
    return tracing


def _patience(settings: Settings) -> Patience:
    return Patience(settings.body_idle_s, settings.body_s, settings.reader_idle_s)


def _lifespan(
    hub: Hub, tracing: "Tracing | None"
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def run(_app: FastAPI) -> AsyncIterator[None]:
        removed = await in_thread(hub.workers.blob, sweep, hub.settings.uploads)
        if removed:
            logger.warning("removed %d uploads that a crash had cut", removed)
        upkeep = [asyncio.create_task(_flush_often(hub)), asyncio.create_task(_finish_often(hub))]
        listener = ChangeListener(hub.database.engine, hub.database.tell_listeners)
        listener.start()
        yield
        await in_thread(hub.workers.database, listener.stop)
        for task in upkeep:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await in_thread(hub.workers.database, hub.close)
        if tracing is not None:
            await in_thread(hub.workers.blob, tracing.close)

    return run


async def _flush_often(hub: Hub) -> None:
    while True:
        await asyncio.sleep(FLUSH_INTERVAL_S)
        try:
            await in_thread(hub.workers.database, hub.flush)
        except HubError as error:
            logger.error("uses of tokens and downloads were not written: %s", error)


async def _finish_often(hub: Hub) -> None:
    """From the start on: this process, or another one of the hub, may have been killed."""
    while True:
        try:
            for record in await in_thread(hub.workers.blob, finish_purges, hub):
                logger.warning(
                    "erased what %s/%s@%s left: its purge had been cut off",
                    record.owner,
                    record.name,
                    record.version,
                )
        except (HubError, StropError, DBAPIError, OSError) as error:
            logger.error("a purge that was cut off is not finished: %s", error)
        await asyncio.sleep(_FINISH_INTERVAL_S)
