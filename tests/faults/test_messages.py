"""Messages that are wrong, come twice, come in another order, or come from another version."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from glassbox.cli.publish import Publisher
from streams.clients import Broker, read_all, reader
from streams.topics import MESSAGE_MAX, REQUEST_MAX, REQUESTS, RESULTS, SCORECARDS, Topic, judge_topic
from tests.faults.gates import Gate, Gates
from tests.pipeline import request

pytestmark = pytest.mark.timeout(600)

TASKS = judge_topic("terminology")
WORKED = (REQUESTS, TASKS, judge_topic("structure"), RESULTS, SCORECARDS)
"""Every topic that a role works on."""
POISON = {
    "null": None,
    "empty": b"",
    "not text": b"\xff\xfe\x00\x9f",
    "cut short": b'{"type":"announced","evaluation_id":"cut',
    "not an object": b'["type","judged"]',
    "deep": b"[" * 100_000,
    "a number beyond numbers": b'{"type":"judged","deadline_s":1e999}',
    "of no known kind": b'{"type":"rumour","evaluation_id":"rumour"}',
    "without its fields": b'{"type":"scorecard","tenant":null,"record":{}}',
}
ENVELOPE = 200
"""Bytes that the broker counts besides a message's value."""
NEWER = {"FAULT_NEWER": "1"}
LATER: dict[str, Any] = {
    "schema_version": "1.7",
    "mood": "curious",
    "retrieved_passages": [{"text": "Ada.", "colour": "blue"}],
}
"""What a producer of a later minor version says besides."""
LATER_MAJOR = ("2.0", "10")


def largest(topic: Topic) -> bytes:
    """As many bytes as the broker takes for a topic, and no message of ours."""
    return b"x" * ((REQUEST_MAX if topic is REQUESTS else MESSAGE_MAX) - ENVELOPE)


def events_of(broker: Broker, name: str) -> list[bytes]:
    """What the join has read of an evaluation, in that order."""
    return [m.value() or b"" for m in read_all(broker, RESULTS) if m.key() == name.encode()]


def copied(events: Iterable[bytes], name: str, names: Iterable[str]) -> list[tuple[str, bytes]]:
    """The events of an evaluation as those of others, with their keys."""
    return [(other, event.replace(name.encode(), other.encode())) for other in names for event in events]


def test_poison_between_good_messages(gates: Gates, gate: Gate) -> None:
    poison = [*POISON.values()]
    gate.random.shuffle(poison)
    for value in poison:
        for topic in WORKED:
            gate.send(topic, [(None, value)])
        gate.publish(5)
    for topic in WORKED:
        gate.send(topic, [("large", largest(topic))])
    gate.publish(5)
    seen = gate.settle(letters=(len(POISON) + 1) * len(WORKED))
    assert {topic for topic, _, _ in seen.letters} == {topic.name for topic in WORKED}
    assert {letter["reason"] for letter in seen.letters.values()} == {"contract", "bad_task", "bad_result", "bad_entry"}
    assert all(seen.values[value] == len(WORKED) for value in POISON.values() if value is not None)


@contextmanager
def doubled(broker: Broker) -> Iterator[None]:
    """Meanwhile every message of every role's topic is delivered a second time."""
    consumer, stop = reader(broker, WORKED), threading.Event()

    def run() -> None:
        topics = {topic.name: topic for topic in WORKED}
        with Publisher(broker) as publisher:
            while not stop.is_set():
                for message in consumer.consume(500, 0.05):
                    headers = {key: value.decode() for key, value in message.headers() or ()}
                    if message.error() is None and "again" not in headers:
                        again = {**headers, "again": "1"}
                        where = topics[str(message.topic())]
                        publisher.send(
                            where, message.key(), message.value(), headers=again, partition=message.partition()
                        )
        consumer.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_every_message_delivered_twice(gates: Gates, gate: Gate) -> None:
    with doubled(gates.pipeline.broker):
        gate.publish(60)
        seen = gate.settle()
    assert seen.results["exists"] + seen.results["duplicate"] > 0


def test_answers_in_any_order_and_before_the_announcement(gates: Gates, gate: Gate) -> None:
    (model,) = gate.publish(1)
    gate.settle()
    events = events_of(gates.pipeline.broker, model)
    assert sorted(json.loads(event)["type"] for event in events) == ["announced", "judged", "judged"]
    copies = copied(events, model, gate.fresh(150))
    gate.random.shuffle(copies)
    gate.send(RESULTS, copies)
    gate.settle()


def test_a_newer_minor_version_runs_beside_the_old_one(gates: Gates, gate: Gate) -> None:
    pipeline = gates.pipeline
    gate.publish(20)
    newer = [f"{role}-2" for role in ("intake", "terminology", "structure", "join")]
    for name in newer:
        pipeline.start_role(name, NEWER)
        gate.publish(10)
        gate.publish(10, **LATER)
    for name in newer:
        pipeline.wait_ready(name)
    gate.publish(20)
    gate.publish(20, **LATER)
    gate.answered(len(gate.names))
    pipeline.publish(request(f"{gate.name}-{major}", schema_version=major) for major in LATER_MAJOR)
    card = gate.seen.records[gate.names[0]]
    future = {"type": "scorecard", "tenant": None, "record": {**card, "evaluation_id": "future", "schema_version": "2"}}
    gate.send(SCORECARDS, [("future", json.dumps(future).encode())])
    seen = gate.settle(letters=3)
    assert sorted(letter["reason"] for letter in seen.letters.values()) == ["contract", "contract", "refused"]
    assert {letter["field"] for letter in seen.letters.values()} == {"schema_version"}
    gates.retire(*newer)
