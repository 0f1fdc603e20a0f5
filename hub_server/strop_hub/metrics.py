"""What the hub counts about itself, for Prometheus; one page for all processes of a hub."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import APIRouter, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
    multiprocess,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strop_hub import log
from strop_hub.http.request_scope import REQUEST_ID

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60)
_INDEX = ("/simple", "/owners/", "/auth/")

_own = CollectorRegistry()
requests = Counter(
    "strop_hub_requests_total",
    "Answered requests.",
    ["method", "route", "status"],
    registry=_own,
)
seconds = Histogram(
    "strop_hub_request_seconds",
    "From the headers of a request to the end of its answer.",
    ["route"],
    buckets=_BUCKETS,
    registry=_own,
)
sent_bytes = Counter("strop_hub_sent_bytes_total", "Bytes of bodies sent.", registry=_own)

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
def show_metrics() -> Response:
    """The counters as text."""
    registry = _own
    if _FOLDER in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@contextmanager
def shared_by_processes() -> Iterator[None]:
    """Let the processes that are started in the block count together."""
    folder = tempfile.mkdtemp(prefix="strop-metrics-")
    os.environ[_FOLDER] = folder
    try:
        yield
    finally:
        os.environ.pop(_FOLDER, None)
        shutil.rmtree(folder, ignore_errors=True)


class MetricsMiddleware:
    """Counts every request by its route, never by its path, of which there are any number."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        log.request_id.set(scope.get(REQUEST_ID))
        began = time.perf_counter()
        status, size_bytes = 500, 0

        async def send_counted(message: Message) -> None:
            nonlocal status, size_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            route = route_of(scope)
            requests.labels(scope["method"], route, status).inc()
            seconds.labels(route).observe(time.perf_counter() - began)
            sent_bytes.inc(size_bytes)


def route_of(scope: Scope) -> str:
    """The route that answered, as the code spells it; all addresses of the index are one."""
    route = getattr(scope.get("route"), "path", None)
    if route is not None:
        return str(route)
    return "index" if scope["path"].startswith(_INDEX) else "other"
