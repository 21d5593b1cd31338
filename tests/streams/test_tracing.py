from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from glassbox.contract.events import DeadlinePassed
from streams import tracing
from streams.join import Card, step
from streams.ports import Record
from tests.operations.collector import Collector
from tests.streams.events import announced, judged

OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, {}),
        ({OTLP: "http://collector:4318"}, {"traces": "otlp", "logs": "otlp"}),
        ({OTLP: "http://collector:4318", "OTEL_LOGS_EXPORTER": "none"}, {"traces": "otlp"}),
        ({OTLP: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, {"logs": "otlp"}),
        ({OTLP: "http://collector:4318", "OTEL_SDK_DISABLED": "TRUE"}, {}),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, {"traces": "otlp"}),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, {"traces": "otlp"}),
        ({"OTEL_TRACES_EXPORTER": "console"}, {"traces": "console"}),
        ({"OTEL_TRACES_EXPORTER": "none"}, {}),
    ],
)
def test_the_standard_variables_say_what_is_exported(environment: dict[str, str], asked: dict[str, str]) -> None:
    assert tracing.exporters(environment) == asked


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'; set it to otlp, console or none"),
        ({OTLP: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "GlassBox speaks http/protobuf"),
    ],
)
def test_what_is_not_there_is_said(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(tracing.TracingError, match=sentence):
        tracing.exporters(environment)


def test_nothing_of_it_is_imported_while_it_is_off() -> None:
    check = (
        "import sys, streams.faust_app, glassbox.cli.worker; from streams import tracing; tracing.start('join', '1'); "
        "tracing.headers(); sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    environment = {
        "OTEL_SDK_DISABLED": "true",
        OTLP: "http://127.0.0.1:1",
        "PYTHONPATH": ":".join(sys.path),
    }
    assert subprocess.run([sys.executable, "-c", check], env=environment, check=False).returncode == 0


def test_each_part_of_a_scorecard_is_an_event_and_so_is_its_trust() -> None:
    window, _ = step(None, announced("e-1"), 1)
    window, _ = step(window, judged("relevance", 0.9, "e-1"), 2)
    _, emission = step(window, DeadlinePassed(evaluation_id="e-1"), 300_001)
    assert isinstance(emission, Card)
    events = list(tracing.evaluation_results(emission.record))
    by_name = {event["gen_ai.evaluation.name"]: event for event in events}
    assert len(by_name) == len(events) == len(emission.record["parts"]) + 1
    relevance = by_name["llm_relevance"]
    assert relevance["gen_ai.evaluation.score.value"] == 0.9
    assert relevance["glassbox.evaluation_id"] == "e-1"
    assert relevance["glassbox.judge"] == "contextual_precision"
    missing = by_name["faithfulness"]
    assert missing["error.type"] == "deadline"
    assert "gen_ai.evaluation.score.value" not in missing
    assert by_name["trust"]["gen_ai.evaluation.score.label"] == emission.record["outcome"]


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("parents", "states", "found"),
    [
        ([PARENT], [], {"traceparent": PARENT}),
        ([PARENT], ["a=1", "b=2"], {"traceparent": PARENT, "tracestate": "a=1,b=2"}),
        ([PARENT], ["a=" + "1" * 511], {"traceparent": PARENT}),
        ([PARENT], ["a=\u00e9"], {"traceparent": PARENT}),
        ([f"cc-{TRACE}-{SPAN}-01-what-is-to-come"], [], {"traceparent": PARENT}),
        ([f"00-{TRACE}-{SPAN}-01-more"], [], None),
        ([f"ff-{TRACE}-{SPAN}-01"], [], None),
        ([PARENT.upper()], [], None),
        ([f"00-{'0' * 32}-{SPAN}-01"], [], None),
        ([PARENT, PARENT], [], None),
        ([], ["a=1"], None),
    ],
)
def test_of_an_http_request_a_trace_is_read_as_w3c_says(
    parents: list[str], states: list[str], found: dict[str, str] | None
) -> None:
    assert tracing.received(parents, states) == found


def test_a_role_without_tracing_passes_on_what_it_was_given() -> None:
    came = {"traceparent": PARENT, "tracestate": "a=1"}
    record = Record("glassbox.requests", 0, 0, None, b"", 1, {name: text.encode() for name, text in came.items()})
    with tracing.work("intake", record, from_producer=True):
        assert tracing.headers() == came
        with tracing.work("join", Record("glassbox.results", 0, 0, None, b"", 1)):
            assert tracing.headers() == {}
    assert tracing.headers() == {}


@pytest.mark.parametrize("exporter", ["otlp", "none"])
def test_results_go_to_the_span_of_who_asked_however_often_the_request_was_moved(
    monkeypatch: pytest.MonkeyPatch, exporter: str
) -> None:
    carrier, parents = {"traceparent": PARENT}, set()
    with closing(Collector()) as collector:
        monkeypatch.setenv(OTLP, collector.address)
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", exporter)
        stop = tracing.start("intake", "1")
        for _ in range(2):  # as intake moves it to the bulk lane
            record = Record("glassbox.requests", 0, 0, None, b"", 1, {k: v.encode() for k, v in carrier.items()})
            with tracing.work("intake", record, from_producer=True):
                carrier = dict(tracing.headers())
                parents.add(carrier["traceparent"])
                none: dict[str, Any] = {
                    "parts": [],
                    "evaluation_id": "e",
                    "outcome": "pass",
                    "trust": None,
                    "reasons": [],
                }
                tracing.announce_results(none)
        stop()
    assert len(parents - {PARENT}) == len(collector.spans) == (2 if exporter == "otlp" else 0)
    assert [event.span_id.hex() for event in collector.events] == [SPAN, SPAN]
