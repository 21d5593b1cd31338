"""The trace of an HTTP request goes on with the evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streams import tracing
from streams.ports import Record
from tests.gateway.parts import ASKED, Door
from tests.operations.collector import Collector, attributes

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CAME = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=x"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Has every span once `tracing.start`'s result was called."""
    made = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.address)
    yield made
    made.close()


async def submit(door: Door, headers: dict[str, str], **changes: Any) -> Any:
    async with door.client(headers=headers) as client:
        return await client.post("/v1/evaluations", json={**ASKED, **changes})


async def test_without_tracing_it_is_passed_on_as_it_came(open_door: Door) -> None:
    assert (await submit(open_door, CAME)).status_code == 202
    ((_, _, sent),) = open_door.broker.sent
    assert sent == CAME


@pytest.mark.parametrize("parent", ["", "nonsense", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-01-x"])
async def test_what_is_no_trace_is_not_passed_on(open_door: Door, parent: str) -> None:
    assert (await submit(open_door, {**CAME, "traceparent": parent})).status_code == 202
    ((_, _, sent),) = open_door.broker.sent
    assert sent == {}


async def test_the_lines_of_a_batch_belong_to_its_trace(open_door: Door) -> None:
    async with open_door.client(headers={**CAME, "Content-Type": "application/x-ndjson"}) as client:
        lines = b'{"query": "a?", "answer": "a", "retrieved_passages": []}\n' * 2
        assert (await client.post("/v1/evaluations:batch", content=lines)).status_code == 200
    assert [sent for _, _, sent in open_door.broker.sent] == [CAME, CAME]


async def test_with_tracing_the_gateways_span_stands_between(open_door: Door, collector: Collector) -> None:
    stop = tracing.start("gateway", "1")
    try:
        assert (await submit(open_door, CAME, evaluation_id="traced")).status_code == 202
        open_door.broker.error = RuntimeError("a fault")
        assert (await submit(open_door, {})).status_code == 500
    finally:
        stop()
    ((_, _, sent),) = open_door.broker.sent
    (service, span), (_, failed) = collector.spans
    assert service == "glassbox-gateway"
    assert span.name == failed.name == "POST /v1/evaluations"
    assert span.kind == span.SPAN_KIND_SERVER
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
    assert sent["traceparent"] == f"00-{TRACE}-{span.span_id.hex()}-01"
    assert sent["tracestate"] == f"glassbox={SPAN},vendor=x"  # the caller's span is still the producer's
    assert attributes(span.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/evaluations",
        "http.response.status_code": 202,
        "url.scheme": "http",
        "glassbox.evaluation_id": "traced",
    }
    assert attributes(failed.attributes)["error.type"] == "500"
    assert failed.parent_span_id == b""
    assert str(ASKED["answer"]).encode() not in collector.bytes


def test_the_catalogues_span_links_to_what_it_took_in(collector: Collector) -> None:
    def record(offset: int, **headers: str) -> Record:
        return Record("glassbox.receipts", 0, offset, None, b"", 1, {k: v.encode() for k, v in headers.items()})

    stop = tracing.start("catalogue", "1")
    with tracing.batch("catalogue", [record(0, **CAME), record(1, **CAME), record(2)]):
        pass
    stop()
    ((service, span),) = collector.spans
    assert service == "glassbox-catalogue"
    assert [link.span_id.hex() for link in span.links] == [SPAN]
    assert span.trace_id.hex() != TRACE
    assert attributes(span.attributes)["messaging.batch.message_count"] == 3
