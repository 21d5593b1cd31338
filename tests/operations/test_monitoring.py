"""What an operator sees of a running pipeline: metrics by a real Prometheus, the dashboards' queries, an alert, traces,
events and logs. All of it looks at one pipeline, which takes longest to start."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from glassbox.cli.children import Child, free_ports, stop_all
from glassbox.contract.verdict import FAILED, KINDS, NOT_APPLICABLE
from judges.lexical import CHAT_MODEL, EMBEDDING_MODEL
from streams.roles import DOORS, ROLES
from streams.topics import topics
from tests.operations.collector import Collector, attributes
from tests.operations.prometheus import Prometheus, promtool
from tests.pipeline import ROOT, Pipeline, get, request, until

pytestmark = pytest.mark.timeout(400)  # whichever test is first starts it all

DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
QUIET = ("failed", "failures", "not_applicable", "anchored", "cost", "budget", "callback", "otlp")
"""A query that names one of these has no data while nothing fails, is anchored, has a price or comes as a trace, and
nobody is called back."""

TEXT, NAME, KEY = "Zanzibar", "kwm", "sk-not-to-be-seen"
"""What stands in every text, in every id, and the endpoint's key."""
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
"""Of a producer that traces."""

PARTS = {part for parts in KINDS.values() for part in parts}
LABELS: dict[str, set[str] | re.Pattern[str]] = {
    "role": {*ROLES, *DOORS},
    "kind": set(KINDS),
    "lane": {"main", "bulk"},
    "method": {"GET", "POST"},
    "route": re.compile(r"/v1/[a-z:/]+(\{evaluation_id\}[a-z/]*)?"),
    "status": re.compile(r"[1-5]\d\d"),
    "topic": {topic.name for topic in topics()},
    "partition": re.compile(r"\d{1,4}"),
    "part": PARTS,
    "state": {"scored", "not_applicable", "failed"},
    "direction": {"prompt", "completion"},
    "cause": {"", "unavailable", "unknown_policy", "unknown_reference", *FAILED, *NOT_APPLICABLE},
    "outcome": re.compile(r"[a-z_]+"),
    "result": re.compile(r"[a-z0-9_]+"),
    "reason": re.compile(r"[a-z_]+"),
    "le": re.compile(r"[0-9.]+|\+Inf"),
    "version": re.compile(r"[0-9.a-z+]+"),
}


@dataclass(frozen=True)
class Running:
    pipeline: Pipeline
    collector: Collector
    door: str

    def post(self, asked: dict[str, Any], **headers: str) -> None:
        """A request over HTTP."""
        answer = httpx.post(f"{self.door}/v1/evaluations", json=asked, headers=headers, timeout=30)
        assert answer.status_code == 202, answer.text


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Every role and the doors; the calibration judge is the product's own, which asks an endpoint."""
    folder = tmp_path_factory.mktemp("monitored")
    port, door = free_ports(2)
    command = [sys.executable, "-m", "judges.lexical", "--host", "127.0.0.1", "--port", str(port)]
    model = Child("model", command, dict(os.environ), ROOT)
    model.log = folder / "model.log"
    collector = Collector()
    made = Pipeline(
        folder,
        environment={
            "GLASSBOX_LLM_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "GLASSBOX_LLM_API_KEY": KEY,
            "GLASSBOX_LOG_LEVEL": "DEBUG",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_BLRP_SCHEDULE_DELAY": "200",
            "GLASSBOX_LLM_MODEL": CHAT_MODEL,
            "GLASSBOX_EMBEDDING_MODEL": EMBEDDING_MODEL,
            "GLASSBOX_GATEWAY_PORT": str(door),
        },
    )
    try:
        model.start()
        made.start([*(role for role in ROLES if role != "calibration"), *DOORS])
        made.start_role("calibration", command=[sys.executable, "-m", "glassbox.cli", "worker"])
        made.wait_ready("calibration")
        yield Running(made, collector, f"http://127.0.0.1:{door}")
    finally:
        made.close()
        stop_all([model], 2)
        collector.close()


@pytest.fixture(scope="module")
def pipeline(running: Running) -> Pipeline:
    return running.pipeline


@pytest.fixture(scope="module")
def prometheus(
    running: Running, tmp_path_factory: pytest.TempPathFactory, prometheus_installed: None
) -> Iterator[Prometheus]:
    """It has seen the pipeline before and after two lots of requests, one of each lot over HTTP."""
    pipeline = running.pipeline
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), pipeline.ports)
    try:
        made.start()
        until(lambda: len(made.query("up == 1")) == len(ROLES) + len(DOORS), 60, "every process is scraped")
        with pipeline.watching() as read:
            for lot, seen in (("a", 1), ("b", 2)):
                names = [f"{NAME}-{lot}{n}" for n in range(5)]
                passages = [{"text": f"{TEXT} is {word}.", "score": 1 / n} for n, word in enumerate(NUMBERS, 1)]
                texts: dict[str, Any] = {"query": f"Where is {TEXT}?", "answer": f"{TEXT} is an island."}
                over_http, *asked = (request(name, **texts, retrieved_passages=passages, tenant=TEXT) for name in names)
                running.post(over_http)
                pipeline.publish(asked)
                settled = read(lambda s, names=names: set(names) <= s.receipts.keys(), 60)
                assert set(names) <= settled.receipts.keys()
                until(
                    lambda seen=seen: _seen(made, "end_to_end_seconds_count") >= 5 * seen, 60, "committed ones are seen"
                )
                until(lambda seen=seen: _seen(made, "http_accepted_total") >= seen, 60, "accepted ones are seen")
            pipeline.publish([request(f"{NAME}-bad", query=" ", answer=TEXT)])
            until(lambda: pipeline.metric("intake", "glassbox_dead_letters_total") == 1, 30, "a dead letter")
        yield made
    finally:
        made.close()


NUMBERS = ("one", "two", "three", "four", "five", "six")


def _seen(prometheus: Prometheus, metric: str) -> float:
    found = prometheus.query(f"sum(glassbox_{metric})")
    return float(found[0]["value"][1]) if found else 0.0


@pytest.mark.usefixtures("prometheus")
def test_metrics_of_every_process_are_well_named_and_bounded(pipeline: Pipeline) -> None:
    for role in (*ROLES, *DOORS):
        scraped = get(pipeline.ports[role], "/metrics")[1]
        promtool("check", "metrics", given=scraped)
        assert TEXT not in scraped
        assert NAME not in scraped
        for family in text_string_to_metric_families(scraped):
            if not family.name.startswith("glassbox_"):
                continue
            for sample in family.samples:
                for label, value in sample.labels.items():
                    allowed = LABELS[label]
                    known = allowed.fullmatch(value) if isinstance(allowed, re.Pattern) else value in allowed
                    assert known, f"{sample.name}: {label}={value!r}"
        count = sum(not line.startswith("#") for line in scraped.splitlines())
        assert count < 400, f"{role} has {count} series"


def test_metrics_say_what_was_asked_and_what_became_of_it(prometheus: Prometheus) -> None:
    def value(expression: str) -> float:
        ((sample),) = prometheus.query(expression)
        return float(sample["value"][1])

    assert value("sum(glassbox_end_to_end_seconds_count)") == 10
    assert value("sum(glassbox_ledger_commit_seconds_count)") == 10
    assert value("sum(glassbox_evaluation_seconds_count)") == 10
    assert value("sum(glassbox_end_to_end_seconds_sum)") >= value("sum(glassbox_ledger_commit_seconds_sum)")
    assert value('glassbox_llm_calls_total{kind="calibration"}') >= 10
    assert value('glassbox_llm_tokens_total{kind="calibration",direction="prompt"}') > 0
    assert value("time() - max(glassbox_ledger_newest_record_timestamp_seconds)") < 120
    assert value("count(glassbox_build_info == 1)") == len(ROLES) + len(DOORS)
    assert value("sum(glassbox_http_accepted_total)") == 2
    assert value('glassbox_messages_consumed_total{role="catalogue",topic="glassbox.receipts"}') >= 10
    assert len(prometheus.query("glassbox_backlog_messages")) == len(KINDS)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_query_of_a_dashboard_has_an_answer(prometheus: Prometheus, path: Path) -> None:
    dashboard = json.loads(path.read_text())
    queries = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    assert dashboard["uid"] == path.stem
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for title, expression in queries:
        asked = expression.replace("$__rate_interval", "5m")
        if any(word in expression for word in QUIET):
            prometheus.query(asked)
        else:  # a rate takes two looks at the role
            until(lambda asked=asked: _has_numbers(prometheus.query(asked)), 30, f"{title}: data for {expression}")


def _has_numbers(found: list[dict[str, Any]]) -> bool:
    return any(sample["value"][1] != "NaN" for sample in found)


def test_a_stopped_judge_is_noticed_and_so_is_its_return(
    pipeline: Pipeline, prometheus: Prometheus, capsys: pytest.CaptureFixture[str]
) -> None:
    until(lambda: "GlassBoxJudgeStopped" not in prometheus.firing(), 60, "no task is left")
    pipeline.kill("relevance")
    stopped = time.monotonic()
    try:
        pipeline.publish([request(f"{NAME}-late")])
        until(lambda: "GlassBoxJudgeStopped" in prometheus.firing(), 90, "the alert fires")
        noticed = time.monotonic() - stopped
        (alert,) = prometheus.query('ALERTS{alertname="GlassBoxJudgeStopped",alertstate="firing"}')
        assert alert["metric"]["kind"] == "relevance"
    finally:
        pipeline.start_role("relevance")
    with pipeline.watching() as read:
        pipeline.publish([request(f"{NAME}-later")])
        assert f"{NAME}-later" in read(lambda s: f"{NAME}-later" in s.receipts, 60).receipts
    until(lambda: "GlassBoxJudgeStopped" not in prometheus.firing(), 60, "the alert ends")
    with capsys.disabled():
        sys.stdout.write(f"\nGlassBoxJudgeStopped fired {noticed:.1f} s after SIGKILL (`for` 2s in place of 1m)\n")


def test_one_trace_leads_from_the_producer_over_every_role_to_its_events(running: Running) -> None:
    pipeline, collector = running.pipeline, running.collector
    name = f"{NAME}-traced"
    with pipeline.watching() as read:
        asked = request(name, answer=f"{TEXT} is an island.")
        running.post(asked, traceparent=f"00-{TRACE}-{SPAN}-01", tracestate="vendor=x")
        assert name in read(lambda s: name in s.receipts, 60).receipts

    def spans() -> dict[str, Any]:
        return {service: span for service, span in collector.spans if span.trace_id.hex() == TRACE}

    def events() -> dict[str, Any]:
        return {attributes(e.attributes)["gen_ai.evaluation.name"]: e for e in collector.events if name in str(e)}

    def taken_in() -> set[bytes]:
        """The spans of the trace that the catalogue's own, which are of no trace of ours, link to."""
        batches = [span for service, span in collector.spans if service == "glassbox-catalogue"]
        return {link.span_id for span in batches for link in span.links if link.trace_id.hex() == TRACE}

    through = ("gateway", *ROLES)
    until(lambda: len(spans()) == len(through) and len(events()) == 8, 60, "the collector has the trace and its events")
    found = spans()
    assert set(found) == {f"glassbox-{role}" for role in through}
    names = {role: found[f"glassbox-{role}"].name for role in through}
    steps = {"gateway": "POST /v1/evaluations", "intake": "intake", "join": "join", "committer": "commit"}
    assert names == {**steps, **{kind: f"judge {kind}" for kind in KINDS}}
    ids = {role: found[f"glassbox-{role}"].span_id for role in through}
    parents = {role: found[f"glassbox-{role}"].parent_span_id for role in through}
    assert parents["gateway"].hex() == SPAN
    assert parents["intake"] == ids["gateway"]
    until(lambda: taken_in() == set(ids.values()), 60, "the catalogue has taken in what each of them sent")
    assert {parents[kind] for kind in (*KINDS, "join")} == {ids["intake"]}
    assert parents["committer"] == ids["join"]
    assert {link.span_id for link in found["glassbox-join"].links} == {ids[kind] for kind in KINDS}
    for span in found.values():
        assert attributes(span.attributes)["glassbox.evaluation_id"] == name
    assert set(events()) == {*PARTS, "trust"}
    for event in events().values():
        assert event.event_name == "gen_ai.evaluation.result"
        assert (event.trace_id.hex(), event.span_id.hex()) == (TRACE, SPAN)
    faithfulness = attributes(events()["faithfulness"].attributes)
    assert faithfulness["gen_ai.evaluation.score.value"] == pytest.approx(0.96)
    assert faithfulness["gen_ai.evaluation.score.label"] == "pass"
    assert TEXT.encode() not in collector.bytes


def test_logs_are_json_that_names_the_work_and_quotes_nothing(pipeline: Pipeline) -> None:
    name = f"{NAME}-raises"
    with pipeline.watching() as read:
        asked = request(name, query=f"raise:grounding about {TEXT}")
        pipeline.publish([asked, request(f"{NAME}-bad2", query=" ", answer=TEXT), f"not JSON: {TEXT}".encode()])
        assert name in read(lambda s: name in s.receipts, 60).receipts
    for role in (*ROLES, *DOORS):
        text = pipeline.roles[role].log.read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert lines
        for line in lines:
            assert line["role"] == role
            assert {"event", "level", "logger", "timestamp"} <= line.keys()
        for secret in (TEXT, KEY):
            assert secret not in text, f"{role} logs what it must not"
    (crash,) = _logged(pipeline, "grounding", "error")
    assert crash["evaluation_id"] == name
    assert crash["topic"] == "glassbox.judge.grounding"
    assert {"partition", "offset"} <= crash.keys()
    letters = _logged(pipeline, "intake", "warning")
    assert {(letter["event"], letter["topic"]) for letter in letters} == {
        ("dead letter: contract (query)", "glassbox.requests"),
        ("dead letter: contract (body)", "glassbox.requests"),
    }


def _logged(pipeline: Pipeline, role: str, level: str) -> list[dict[str, Any]]:
    lines = map(json.loads, pipeline.roles[role].log.read_text().splitlines())
    return [line for line in lines if line["level"] == level]
