from __future__ import annotations

import subprocess
import sys

import pytest

from glassbox.contract.events import DeadlinePassed
from streams import tracing
from streams.join import Card, step
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
