"""`POST /v1/traces` as exporters use it, and as nobody should."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.trace import Tracer, format_span_id, format_trace_id
from prometheus_client import REGISTRY

from glassbox.contract.request import MAX_BODY
from glassbox.gateway.limits import Limits
from glassbox.gateway.otlp.door import MAX_EXPORT
from glassbox.gateway.otlp.traces import Spans, judged
from glassbox.gateway.server import Server
from streams.publishing import NotAcknowledged
from tests.gateway.otlp import exports
from tests.gateway.otlp.exports import ANSWER, PASSAGES, QUESTION, TRACE, export, ident, span
from tests.gateway.otlp.wire import binary, field
from tests.gateway.parts import Broker, Door, door
from tests.gateway.test_submitting import problem

URL = "/v1/traces"
JSON = {"Content-Type": "application/json"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}
LIMITS = Limits(trace_settle_s=0.2, trace_quiet_s=0.4)


async def post(client: httpx.AsyncClient, *spans: dict[str, Any]) -> dict[str, Any]:
    """What an export is answered: the members of its partial success."""
    answer = await client.post(URL, content=export(spans), headers=JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    found: dict[str, Any] = answer.json().get("partialSuccess", {})
    return found


async def until(true: Any) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("glassbox_otlp_traces_total", {"outcome": outcome}) or 0.0


def sent(broker: Broker, number: int = 0) -> tuple[str, dict[str, Any], Mapping[str, str]]:
    key, body, headers = broker.sent[number]
    return key.decode(), json.loads(body), headers


async def test_a_whole_trace_is_with_the_broker_before_it_is_answered(open_door: Door) -> None:
    async with open_door.client() as client:
        assert await post(client, *exports.langchain()) == {}
    ((key, request, headers),) = [sent(open_door.broker)]
    assert (request["query"], request["answer"], len(request["retrieved_passages"])) == (QUESTION, ANSWER, 2)
    assert headers == {"traceparent": f"00-{TRACE}-{ident(1)}-01"}
    assert key == request["evaluation_id"]
    assert len(key) == 64


async def test_the_same_again_is_harmless_here_and_at_another_gateway(tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
    with door(tmp_path / "one") as one, door(tmp_path / "two") as two:
        async with one.client() as client, two.client() as other:
            assert await post(client, *exports.langchain()) == {}
            again = await post(client, *exports.langchain())
            assert list(again) == ["errorMessage"], "nothing is rejected"
            assert "1 x late" in again["errorMessage"]
            assert await post(other, *reversed(exports.langchain()), *exports.langchain()) == {}
        assert len(one.broker.sent) == 1
        assert one.broker.sent == two.broker.sent, "the same id and the same content"


async def test_a_trace_in_pieces_waits_for_its_root(open_door: Door) -> None:
    *children, root = exports.llama_index()
    async with open_door.client() as client:
        for each in children:
            assert await post(client, each) == {}
        assert open_door.broker.sent == []
        assert await post(client, root) == {}
    assert sent(open_door.broker)[1]["retrieved_passages"][0]["score"] == 7.5


async def test_a_trace_whose_root_never_comes_is_judged_after_a_while(tmp_path: Path) -> None:
    *children, _ = exports.openllmetry_langchain()
    with door(tmp_path, limits=LIMITS) as made:
        async with made.client() as client:
            assert await post(client, *children) == {}
            await until(lambda: made.broker.sent)
            _, request, headers = sent(made.broker)
            assert (request["query"], request["answer"]) == (QUESTION, ANSWER)
            assert headers["traceparent"] == f"00-{TRACE}-{ident(2)}-01", "the topmost span that there is"
            assert "1 x late" in (await post(client, exports.openllmetry_langchain()[-1]))["errorMessage"]


async def test_what_is_held_when_the_process_ends_is_judged(open_door: Door) -> None:
    async with open_door.client() as client:
        await post(client, *exports.llama_index()[:-1])
        await post(client, span(1, 9, {"gen_ai.operation.name": "embeddings"}, trace="a" * 32))
        assert open_door.broker.sent == []
        await open_door.app.state.traces.conclude()
    assert len(open_door.broker.sent) == 1


async def test_what_a_trace_lacks_is_said_and_counted(open_door: Door) -> None:
    silent = exports.otel(as_json=True, captured=False)
    before = counted("content_not_recorded"), counted("not_genai")
    async with open_door.client() as client:
        said = await post(
            client, *silent, span(1, None, {"http.route": "/"}, trace="b" * 32), span(1, None, trace="0" * 32)
        )
    assert said["rejectedSpans"] == str(len(silent) + 1)
    assert "1 x content_not_recorded" in said["errorMessage"]
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in said["errorMessage"]
    assert "1 x malformed_span" in said["errorMessage"]
    assert (counted("content_not_recorded"), counted("not_genai")) == (before[0] + 1, before[1] + 1)
    assert open_door.broker.sent == []


async def test_what_is_found_later_is_said_with_the_next_export_of_the_same_tenant(tmp_path: Path) -> None:
    with door(tmp_path, keyed=True, limits=LIMITS) as made:
        async with made.client(made.key("acme")) as client, made.client(made.key("umbrella")) as other:
            before = counted("no_answer")
            assert await post(client, span(2, 1, {"gen_ai.operation.name": "embeddings"})) == {}
            await until(lambda: counted("no_answer") > before)
            assert await post(other) == {}
            said = await post(client)
            assert "1 x no_answer" in said["errorMessage"]
            assert "rejectedSpans" not in said, "they were taken then"
            assert await post(client) == {}


async def test_what_breaks_the_contract_is_named_and_the_rest_is_taken(open_door: Door) -> None:
    long, nul, good = ("c" * 32, "d" * 32, "e" * 32)

    def answered(trace: str, text: str) -> dict[str, Any]:
        return {**exports.otel_of_events()[0], "traceId": trace, "attributes": exports.pairs(chat(text)), "events": []}

    def chat(text: str) -> dict[str, Any]:
        messages = {
            "gen_ai.input.messages": [exports.otel_message("user", QUESTION)],
            "gen_ai.output.messages": [exports.otel_message("assistant", text)],
        }
        return {**exports.OLD_CHAT, **messages}

    async with open_door.client() as client:
        said = await post(client, answered(long, "x" * MAX_BODY), answered(nul, "a\0b"), answered(good, ANSWER))
    assert said["rejectedSpans"] == "2"
    assert "1 x too_large" in said["errorMessage"]
    assert "1 x contract: answer: " in said["errorMessage"]
    assert "xxx" not in said["errorMessage"]
    assert [sent(open_door.broker)[1]["answer"]] == [ANSWER]


async def test_behind_the_same_keys_tenants_and_rates(tmp_path: Path) -> None:
    with door(tmp_path, keyed=True) as made:
        body = export(exports.otel_of_events())
        async with made.client() as client:
            problem(await client.post(URL, content=body, headers=JSON), 401, "unauthenticated")
        async with made.client(made.key("acme", "read")) as client:
            problem(await client.post(URL, content=body, headers=JSON), 403, "forbidden")
        for tenant in ("acme", "umbrella"):
            async with made.client(made.key(tenant)) as client:
                assert (await client.post(URL, content=body, headers=JSON)).status_code == 200
        (one, first, headers), (two, second, _) = sent(made.broker), sent(made.broker, 1)
        assert (first["tenant"], second["tenant"], headers["tenant"]) == ("acme", "umbrella", "acme")
        assert one != two, "the same trace id of another tenant is another trace"
        async with made.client(made.key("acme", rate=1)) as client:
            traces = [
                span(1, None, trace=f"{n:032x}") | {"events": exports.otel_of_events()[0]["events"]}
                for n in range(1, 6)
            ]
            for each in traces:
                each["attributes"] = exports.pairs(exports.OLD_CHAT)
            answer = await client.post(URL, content=export(traces), headers=JSON)
            problem(answer, 429, "rate_limited")
            assert int(answer.headers["retry-after"]) > 0
        assert 2 < len(made.broker.sent) < 7, "an evaluation is what the rate counts"


async def test_a_broker_that_is_away_is_told_and_the_export_is_taken_again(open_door: Door) -> None:
    *children, root = exports.llama_index()
    async with open_door.client() as client:
        await post(client, *children)
        open_door.broker.error = NotAcknowledged("away")
        answer = await client.post(URL, content=export([root]), headers=JSON)
        problem(answer, 503, "broker_unavailable")
        assert int(answer.headers["retry-after"]) < 10, "exporters give up after 10 s"
        open_door.broker.error = None
        assert await post(client, root) == {}
    assert len(sent(open_door.broker)[1]["retrieved_passages"]) == 1


async def test_a_broker_that_is_away_does_not_cost_what_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassbox.gateway.otlp.door._AGAIN_S", 0.1)
    with door(tmp_path, limits=LIMITS) as made:
        made.broker.error = NotAcknowledged("away")
        tried = asyncio.Event()

        async with made.client() as client:
            await post(client, *exports.llama_index()[:-1])
            traces = made.app.state.traces
            again = traces._holding.again
            monkeypatch.setattr(traces._holding, "again", lambda key, at: (tried.set(), again(key, at)))
            async with asyncio.timeout(60):
                await tried.wait()
            made.broker.error = None
            await until(lambda: made.broker.sent)


async def test_a_trace_that_breaks_the_door_is_dropped_and_the_others_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(spans: Spans) -> Any:
        if ident(2) in spans:
            raise ZeroDivisionError
        return judged(spans)

    monkeypatch.setattr("glassbox.gateway.otlp.door.judged", broken)
    before = counted("failed")
    with door(tmp_path, limits=LIMITS) as made:
        async with made.client() as client:
            await post(client, span(2, 1, exports.OLD_CHAT))
            await until(lambda: counted("failed") > before)
            await post(client, {**exports.otel_of_events()[0], "traceId": "a" * 32, "parentSpanId": ident(9)})
            await until(lambda: made.broker.sent)
            assert REGISTRY.get_sample_value("glassbox_otlp_held_traces") == 0


async def test_memory_for_what_waits_is_bounded(tmp_path: Path) -> None:
    with door(tmp_path, keyed=True, limits=Limits(in_flight_bytes=200_000)) as made:
        waits = [span(2, 1, trace=f"{n:032x}") for n in range(1, 90)]
        async with made.client(made.key("acme")) as client:
            assert await post(client, *waits) == {}
            more = [span(2, 1, trace=f"{n:032x}") for n in range(100, 190)]
            answer = await client.post(URL, content=export(more), headers=JSON)
            problem(answer, 429, "too_busy")
            assert await post(client, *exports.langchain()) == {}, "a whole trace needs no room"
        async with made.client(made.key("umbrella")) as client:
            assert await post(client, *waits) == {}, "another tenant has room"


HOSTILE: dict[str, tuple[dict[str, str], bytes, int, str, str]] = {
    "type": ({"Content-Type": "text/plain"}, b"", 415, "unsupported_media_type", ""),
    "no type": ({}, b"", 415, "unsupported_media_type", ""),
    "encoding": ({**JSON, "Content-Encoding": "br"}, b"", 415, "unsupported_media_type", ""),
    "no gzip": ({**JSON, "Content-Encoding": "gzip"}, b"no gzip", 400, "malformed", "body"),
    "bomb": ({**JSON, "Content-Encoding": "gzip"}, gzip.compress(bytes(MAX_EXPORT + 1)), 413, "too_large", "body"),
    "huge": (JSON, b" " * (MAX_EXPORT + 1), 413, "too_large", "body"),
    "deep": (JSON, b"[" * 1_000_000, 400, "malformed", "body"),
    "no JSON": (JSON, b"\xff" * 100, 400, "malformed", "body"),
    "no Protobuf": (PROTOBUF, b"\xff" * 2_000_000, 400, "malformed", "body"),
    "100,000 spans": (PROTOBUF, field(1, field(2, b"\x12\x00" * 100_000)), 413, "too_large", "body"),
}


async def test_hostile_bodies(open_door: Door) -> None:
    async with open_door.client() as client:
        for headers, body, status, code, place in HOSTILE.values():
            problem(await client.post(URL, content=body, headers=headers), status, code, place)
        assert await post(client, *exports.otel_of_events()) == {}, "and goes on"


async def test_a_trace_of_too_many_spans(open_door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbox.gateway.otlp.door.MAX_TRACE", 20)
    chain = [span(n + 1, n) for n in range(1, 22)]
    async with open_door.client() as client:
        said = await post(client, *chain)
        assert said["rejectedSpans"] == str(len(chain))
        assert "1 x too_many_spans" in said["errorMessage"]
        assert "late" in (await post(client, span(1, None)))["errorMessage"]


async def test_an_answer_comes_in_the_encoding_of_the_question(open_door: Door) -> None:
    async with open_door.client() as client:
        answer = await client.post(URL, content=b"", headers=PROTOBUF)
        assert (answer.headers["content-type"], answer.content) == ("application/x-protobuf", b"")
        answer = await client.post(URL, content=export([]), headers={"Content-Type": "application/json; charset=utf-8"})
        assert answer.json() == {}


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[tuple[str, Door]]:
    """A gateway on a port, and its address for exporters."""
    with door(tmp_path, keyed=True) as made:
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        server = Server(made.app, "127.0.0.1", 0, Limits(), port.set_result)
        serving = asyncio.create_task(server._serve())
        try:
            yield f"http://127.0.0.1:{await port}{URL}", made
        finally:
            server.should_exit = True
            await serving


def ask(tracer: Tracer) -> str:
    """What an application does that its instrumentation records; the `traceparent` of its root."""
    with tracer.start_as_current_span("rag") as root:
        root.set_attributes({"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER})
        with tracer.start_as_current_span("retrieve") as retrieve:
            retrieve.set_attribute("openinference.span.kind", "RETRIEVER")
            retrieve.set_attributes(exports.documents("retrieval.documents", PASSAGES, [0.9, 0.4]))
        with tracer.start_as_current_span("chat") as chat:
            chat.set_attributes({**exports.OLD_CHAT, "gen_ai.completion.0.content": ANSWER})
    context = root.get_span_context()
    return f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-01"


@pytest.mark.parametrize(
    ("processor", "compression"),
    [(BatchSpanProcessor, Compression.Gzip), (SimpleSpanProcessor, Compression.NoCompression)],
)
async def test_opentelemetrys_own_sdk_and_exporter(
    listening: tuple[str, Door], compression: Compression, processor: type, caplog: pytest.LogCaptureFixture
) -> None:
    url, made = listening
    exporter = OTLPSpanExporter(url, headers={"authorization": f"Bearer {made.key('acme')}"}, compression=compression)
    provider = TracerProvider(resource=Resource({"service.name": "library", "glassbox.policy": "direct"}))
    provider.add_span_processor(processor(exporter))

    def run() -> Sequence[str]:
        parents = [ask(provider.get_tracer("app")) for _ in range(3)]
        assert provider.force_flush(60_000)
        provider.shutdown()
        return parents

    parents = await asyncio.to_thread(run)
    assert not [each for each in caplog.records if each.name.startswith("opentelemetry")]
    assert [headers["traceparent"] for *_, headers in made.broker.sent] == list(parents)
    _, request, _ = sent(made.broker)
    assert (request["query"], request["answer"], request["policy"]) == (QUESTION, ANSWER, "direct")
    assert [each["score"] for each in request["retrieved_passages"]] == [0.9, 0.4]
    assert request["model"] == {"provider": "openai", "name": "gpt-4"}
    assert (request["tenant"], request["metadata"]["service_name"]) == ("acme", "library")


async def test_the_exporter_tries_again_until_the_broker_is_back(
    listening: tuple[str, Door], caplog: pytest.LogCaptureFixture
) -> None:
    url, made = listening
    exporter = OTLPSpanExporter(url, headers={"authorization": f"Bearer {made.key('acme')}"}, timeout=60)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    made.broker.error = NotAcknowledged("away")
    ask(provider.get_tracer("app"))
    flushing = asyncio.create_task(asyncio.to_thread(provider.force_flush, 60_000))
    await until(lambda: "Transient error" in caplog.text)
    made.broker.error = None
    await flushing
    await asyncio.to_thread(provider.shutdown)
    assert len(made.broker.sent) == 1


async def test_a_refused_trace_is_told_in_protobuf(open_door: Door) -> None:
    async with open_door.client() as client:
        body = binary(export(exports.otel(as_json=False, captured=False)))
        answer = await client.post(URL, content=gzip.compress(body), headers={**PROTOBUF, "Content-Encoding": "gzip"})
    told = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert told.rejected_spans == 5
    assert "content_not_recorded" in told.error_message
