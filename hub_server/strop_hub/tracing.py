"""Spans of requests and of their work in the database, for an OpenTelemetry collector.

Only imported where `trace_url` is set: a hub without it does nothing of this.
"""

from importlib.metadata import version
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from sqlalchemy import Engine, event
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strop_hub.http.request_scope import REQUEST_ID
from strop_hub.metrics import route_of

SERVICE = "strop-hub"
_SPAN = "strop_span"
_FAULT = 500
_SEND_S = 2
"""A collector that is away must not hold up the end of a hub."""

_PROPAGATOR = TraceContextTextMapPropagator()
"""Who called, by the header ``traceparent``."""


class Tracing:
    """Where the spans of one process go, until it ends."""

    def __init__(self, url: str) -> None:
        resource = Resource.create({"service.name": SERVICE, "service.version": version("strop")})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(url, timeout=_SEND_S))
        )
        self.tracer = self._provider.get_tracer("strop_hub", version("strop"))

    def watch(self, engine: Engine) -> None:
        """Make a span of every statement that a request sends to a database."""
        watcher = _Statements(self.tracer, engine.dialect.name)
        event.listen(engine, "before_cursor_execute", watcher.begin)
        event.listen(engine, "after_cursor_execute", watcher.end)
        event.listen(engine, "handle_error", watcher.fail)

    def close(self) -> None:
        """Send what has not been sent."""
        self._provider.shutdown()


class TracingMiddleware:
    """A plain ASGI middleware: a span for each request, below the caller's where it names one."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self.app = app
        self.tracer = tracing.tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        carrier = dict(Headers(scope=scope))
        attributes = {
            "http.request.method": scope["method"],
            "url.path": scope["path"][:200].encode("utf-8", "replace").decode(),
            "strop.request_id": scope.get(REQUEST_ID, ""),
        }
        with self.tracer.start_as_current_span(
            scope["method"], _PROPAGATOR.extract(carrier), SpanKind.SERVER, attributes
        ) as span:

            async def send_noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _note_status(span, message["status"])
                await send(message)

            try:
                await self.app(scope, receive, send_noted)
            finally:
                # By its route, never by its path, of which there are any number.
                route = route_of(scope)
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.route", route)


class _Statements:
    """Spans of statements: their text, and never their parameters."""

    def __init__(self, tracer: Tracer, system: str) -> None:
        self._tracer = tracer
        self._system = system

    def begin(self, _connection: Any, _cursor: Any, statement: str, *more: Any) -> None:
        """A statement goes to the database."""
        _, context, _ = more
        if context is None or not trace.get_current_span().is_recording():
            return
        attributes = {"db.system.name": self._system, "db.query.text": statement[:2000]}
        name = statement.split(maxsplit=1)[0].upper()
        span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
        setattr(context, _SPAN, span)

    def end(self, _connection: Any, _cursor: Any, _statement: str, *more: Any) -> None:
        """It was carried out."""
        _, context, _ = more
        span: Span | None = getattr(context, _SPAN, None)
        if span is not None:
            span.end()

    def fail(self, fault: Any) -> None:
        """It was not."""
        span: Span | None = getattr(fault.execution_context, _SPAN, None)
        if span is not None:
            span.set_status(Status(StatusCode.ERROR, type(fault.original_exception).__name__))
            span.end()


def _note_status(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= _FAULT:
        span.set_status(Status(StatusCode.ERROR))
