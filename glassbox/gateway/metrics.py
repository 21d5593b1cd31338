"""Prometheus metrics of the gateway; a route is its template, never the path that was asked for."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

REQUESTS = Counter("glassbox_http_requests", "HTTP requests answered", ["route", "method", "status"])
SECONDS = Histogram(
    "glassbox_http_request_seconds", "Time from a request's head to its answer's end", ["route"], buckets=_SECONDS
)
REJECTED = Counter("glassbox_http_rejected", "Requests and lines that were not accepted", ["reason"])
ACCEPTED = Counter("glassbox_http_accepted", "Evaluation requests that the broker has acknowledged")
PRODUCE_SECONDS = Histogram("glassbox_http_produce_seconds", "Time until the broker acknowledged", buckets=_SECONDS)
IN_FLIGHT_REQUESTS = Gauge("glassbox_http_in_flight_requests", "HTTP requests that are being answered")
IN_FLIGHT_BYTES = Gauge("glassbox_http_in_flight_bytes", "Bytes of request bodies in memory")
STREAMS = Gauge("glassbox_http_event_streams", "Followers of /v1/events")
SPANS = Counter("glassbox_otlp_spans", "Spans that came over OTLP")
TRACES = Counter("glassbox_otlp_traces", "Traces over OTLP by what became of them", ["outcome"])
HELD_TRACES = Gauge("glassbox_otlp_held_traces", "Traces of which more spans are waited for")
HELD_BYTES = Gauge("glassbox_otlp_held_bytes", "Bytes of spans in memory that more are waited for")
