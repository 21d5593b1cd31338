"""The roles as processes on a real broker: what a judge does wrong, and what a producer does wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.roles import ROLES
from tests.kafka import EITHER
from tests.pipeline import Pipeline, get, request, until

QUICK = "[policy.quick]\ndeadline_s = 8\n"


@pytest.fixture(scope="module", params=EITHER)
def pipeline(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """Every role but the structure worker, which is missing, on either broker."""
    broker = request.getfixturevalue("kafka").empty() if request.param == "kafka" else None
    folder: Path = tmp_path_factory.mktemp("pipeline")
    (folder / "glassbox.toml").write_text(QUICK)
    environment = {"GLASSBOX_CONFIG": str(folder / "glassbox.toml"), "GLASSBOX_POLICY": "quick"}
    made = Pipeline(folder, environment=environment, broker=broker)
    try:
        made.start([role for role in ROLES if role != "structure"])
        yield made
    finally:
        made.close()


@pytest.mark.timeout(240)
def test_trouble_in_a_judge_ends_in_an_incomplete_scorecard(pipeline: Pipeline) -> None:
    asked = {
        "plain": request("plain"),
        "raises": request("raises", query="please raise:relevance"),
        "hangs": request("hangs", query="please hang:calibration"),
    }
    with pipeline.watching() as read:
        pipeline.publish(asked.values())
        settled = read(lambda s: len(s.receipts) == 3, 60)
    assert set(settled.receipts) == set(asked)
    causes = {
        name: {part["part"]: part["cause"] for part in record["parts"] if part["cause"]}
        for name, record in settled.records.items()
    }
    missing = {"entities": "deadline", "relations": "deadline"}
    assert causes["plain"] == missing
    assert causes["raises"] == {**missing, "llm_relevance": "crashed"}
    assert causes["hangs"] == {**missing, "similarity_calibration": "timeout"}
    assert {record["outcome"] for record in settled.records.values()} == {"incomplete"}


@pytest.mark.timeout(240)
def test_bad_requests_become_dead_letters_and_the_next_is_served(pipeline: Pipeline) -> None:
    bad = [b"nope", b"[]", None, request("b1", query=" "), request("b2", retrieved_passages="text")]
    bad.append(request("b3", answer="x" * 5_000_000))
    twice = [request("one"), request("one"), request("one", answer="Another answer.")]
    with pipeline.watching() as read:
        pipeline.publish([*bad, *twice, request("next")])
        settled = read(lambda s: len(s.dead) == 7 and {"one", "next"} <= s.receipts.keys(), 60)
    reasons = sorted(letter["reason"] for letter in settled.dead.values())
    assert reasons == ["contract"] * 6 + ["id_reused"]
    assert {letter["field"] for letter in settled.dead.values()} == {
        "body",
        "query",
        "retrieved_passages",
        "evaluation_id",
    }
    assert settled.values[None] == 1
    assert not {"b1", "b2", "b3"} & settled.receipts.keys()
    assert all(len(digests) == 1 for digests in settled.digests.values())


def test_metrics_and_health_are_served(pipeline: Pipeline) -> None:
    assert get(pipeline.ports["intake"], "/live") == (200, "ok\n")
    assert get(pipeline.ports["intake"], "/ready") == (200, "ok\n")
    assert pipeline.metric("intake", "glassbox_messages_consumed_total") > 0
    assert pipeline.metric("intake", "glassbox_assigned_partitions") == pipeline.broker.partitions
    until(lambda: pipeline.metric("intake", "glassbox_consumer_lag_messages") == 0, 20, "no lag, once commits are in")
    assert get(pipeline.ports["intake"], "/other")[0] == 404
