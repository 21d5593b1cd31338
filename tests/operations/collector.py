"""A collector for the tests: takes what OTLP/HTTP exporters send, and keeps it decoded."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue


def attributes(pairs: Any) -> dict[str, Any]:
    """OTLP attributes as a dict."""

    def value(pair: KeyValue) -> Any:
        return getattr(pair.value, pair.value.WhichOneof("value") or "string_value")

    return {pair.key: value(pair) for pair in pairs}


class Collector:
    """`spans`: (service, span); `events`: log records that have an event's name. Both as decoded from protobuf."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Any]] = []
        self.events: list[Any] = []
        self.bytes = b""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        self.bytes += body
        if path == "/v1/traces":
            for spans in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = attributes(spans.resource.attributes)["service.name"]
                self.spans += ((service, span) for scope in spans.scope_spans for span in scope.spans)
        elif path == "/v1/logs":
            for logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.events += (each for scope in logs.scope_logs for each in scope.log_records if each.event_name)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
