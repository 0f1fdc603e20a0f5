"""Spans of requests and database work reach a collector; without the setting nothing is made."""

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from strop.errors import ConfigError
from strop_hub.app import create_app
from strop_hub.settings import Settings
from tests.hub_server.author import Author
from tests.hub_server.running_hub import run_hub

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector(ThreadingHTTPServer):
    """Takes spans as OTLP over HTTP has them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.exports: list[ExportTraceServiceRequest] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/traces"

    @property
    def spans(self) -> list[Span]:
        """All that came."""
        return [
            span
            for export in self.exports
            for resource in export.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        self.server.exports.append(ExportTraceServiceRequest.FromString(content))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the test tells enough."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def attributes_of(span: Span) -> dict[str, object]:
    return {
        one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value")
        for one in span.attributes
    }


def test_requests_and_their_statements_are_spans_of_the_callers_trace(
    hub_data: Path, tmp_path: Path, collector: Collector
) -> None:
    with run_hub(hub_data, trace_url=collector.url) as hub:
        author = Author.new(hub, tmp_path)
        author.publish("maze")
        given = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "proxy-1"}
        response = httpx.get(f"{hub.url}/api/v1/environments/{author.owner}/maze", headers=given)
        assert response.status_code == 200
        httpx.get(f"{hub.url}/simple/maze/")
        # Ending, it sends what is left.
        hub.stop()

    spans = {span.name: span for span in collector.spans}
    push = spans["POST /api/v1/owners/{owner}/versions"]
    shown = spans["GET /api/v1/environments/{owner}/{name}"]
    below = [span for span in collector.spans if span.parent_span_id == push.span_id]
    assert "GET index" in spans
    assert (shown.trace_id.hex(), shown.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes_of(shown)["http.response.status_code"] == 200
    assert attributes_of(shown)["strop.request_id"] == "proxy-1"
    assert {"SELECT", "INSERT"} <= {span.name for span in below}
    assert all(span.kind == Span.SPAN_KIND_CLIENT for span in below)
    assert all(
        "INTO" in str(attributes_of(s)["db.query.text"]) for s in below if s.name == "INSERT"
    )
    resource = collector.exports[0].resource_spans[0].resource
    assert "strop-hub" in str(resource)
    assert author.token not in str(collector.exports)


def test_a_collector_that_is_away_hinders_nobody(hub_data: Path, tmp_path: Path) -> None:
    with run_hub(hub_data, trace_url="http://127.0.0.1:9/v1/traces") as hub:
        Author.new(hub, tmp_path).publish("maze")

        assert hub.get("/simple/maze/").status_code == 200


def test_without_the_setting_nothing_of_it_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from strop_hub.app import create_app\nfrom strop_hub.settings import Settings\n"
        f"app = create_app(Settings(data=Path({str(tmp_path / 'hub')!r})))\n"
        "app.state.hub.close()\n"
        "wanted = ('strop_hub.tracing', 'opentelemetry.sdk')\n"
        "print([name for name in wanted if name in sys.modules])\n"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert printed.stdout.strip() == "[]", printed.stderr


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.startswith(("opentelemetry", "strop_hub.tracing")):
            monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ConfigError, match=r"strop\[hub,otel\]"):
        create_app(Settings(data=tmp_path / "hub", trace_url="http://127.0.0.1:9/v1/traces"))
