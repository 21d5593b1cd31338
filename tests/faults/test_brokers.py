"""Three brokers: restarted one after the other under load, then one lost for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.kafka import Kafka, lacking
from tests.pipeline import Pipeline, request

COUNT = 120


@pytest.fixture
def brokers(tmp_path: Path, missing: Callable[[str], NoReturn]) -> Iterator[Kafka]:
    if sentence := lacking():
        missing(sentence)
    with Kafka(tmp_path / "kafka", brokers=3) as kafka:
        yield kafka


@pytest.fixture
def pipeline(brokers: Kafka, tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path, broker=brokers.broker, environment={"GLASSBOX_PRODUCTION": "true"})
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.timeout(400)
def test_a_rolling_restart_and_a_lost_broker_lose_nothing(brokers: Kafka, pipeline: Pipeline) -> None:
    names = [f"e{n}" for n in range(COUNT)]
    rounds = [names[n * COUNT // 4 : (n + 1) * COUNT // 4] for n in range(4)]
    with pipeline.watching() as read:
        for number, ids in zip((1, 2, 3), rounds, strict=False):
            pipeline.publish(request(name) for name in ids[: len(ids) // 2])
            brokers.stop(number)
            pipeline.publish(request(name) for name in ids[len(ids) // 2 :])
            brokers.start(number)
        pipeline.publish(request(name) for name in rounds[3][:20])
        brokers.kill(2)
        pipeline.publish(request(name) for name in rounds[3][20:])
        settled = read(lambda s: len(s.receipts) == COUNT, 120)
    assert set(settled.receipts) == set(names)
    assert {name: len(digests) for name, digests in settled.digests.items()} == dict.fromkeys(names, 1)
    assert not settled.dead
    ended = {name: role.exit_code for name, role in pipeline.roles.items() if not role.running}
    assert not ended
