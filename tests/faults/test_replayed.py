"""The log alone makes the ledger again: scorecards into an empty one, results into the same scorecards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from glassbox.contract.canonical import canonical
from glassbox.contract.record import record_digest
from streams.access import group
from streams.admin import create_topics
from streams.clients import BrokerError, read_all
from streams.topics import CLOSED, SCORECARDS
from tests.faults.gates import Gate, Gates
from tests.kafka import Kafka
from tests.pipeline import until

pytestmark = pytest.mark.timeout(600)

NOT_YET = {
    KafkaError.NON_EMPTY_GROUP,  # the broker believes in a member that died until its session ends
    KafkaError.NOT_COORDINATOR,  # a broker was away just before, and another looks after the group
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
}
GONE = {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_TOPIC_OR_PART}
"""What somebody hears who asks again after a time-out, where it had been done."""


def delete(what: str, ask: Callable[[], Mapping[str, Future[None]]]) -> None:
    """Ask until it is done: brokers may just have been away."""

    def deleted() -> bool:
        (done,) = ask().values()
        try:
            done.result()
        except KafkaException as error:
            code = error.args[0].code()
            if code not in NOT_YET | GONE:
                raise
            return code in GONE
        return True

    until(deleted, 120, f"{what} is deleted")


def forget_position(kafka: Kafka, role: str) -> None:
    """A role reads its topic from the beginning when it starts again. Its group must be empty."""
    delete(f"the group of {role}", lambda: kafka.admin.delete_consumer_groups([group(role)]))


def forget_closed_ids(kafka: Kafka) -> None:
    """A join that starts again knows of no evaluation that it was closed."""

    def known() -> bool:
        try:
            return CLOSED.name in kafka.admin.list_topics(timeout=10).topics
        except KafkaException:
            return True

    delete("the topic of closed ids", lambda: kafka.admin.delete_topics([CLOSED.name]))
    until(lambda: not known(), 120, "no closed id is known")

    def made() -> bool:
        try:
            create_topics(kafka.broker, [CLOSED])
        except BrokerError:
            return False
        return True

    until(made, 120, "the topic of closed ids is there again")


def test_scorecards_from_the_start_into_an_empty_ledger(gates: Gates, gate: Gate, one_broker: Kafka) -> None:
    gate.publish(50)
    gate.settle()
    names = set(scorecards(gates))
    before, size = gates.audited(names)
    gates.stop("committer")
    forget_position(one_broker, "committer")
    (gates.data / "ledger").rename(gates.data / "ledger-before")
    gates.pipeline.start_role("committer")
    gates.pipeline.wait_ready("committer")
    until(lambda: not gates.backlog(), 300, "every scorecard was read again")
    assert gates.audited(names) == (before, size)


def scorecards(gates: Gates) -> dict[str, set[bytes]]:
    """Evaluation id -> the different scorecards, as bytes, that stand on the topic under it."""
    found: dict[str, set[bytes]] = {}
    for message in read_all(gates.pipeline.broker, SCORECARDS):
        try:
            event = json.loads(message.value() or b"")
            if event["type"] == "scorecard":
                record_digest(event["record"])
                found.setdefault(event["record"]["evaluation_id"], set()).add(canonical(event["record"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # the poison of another gate
    return found


def test_results_from_the_start_into_a_join_that_remembers_nothing(gates: Gates, gate: Gate, one_broker: Kafka) -> None:
    gate.publish(50)
    gate.settle()
    before = scorecards(gates)
    gates.stop("join")
    forget_position(one_broker, "join")
    forget_closed_ids(one_broker)
    made = SCORECARDS.name, sum(1 for _ in read_all(gates.pipeline.broker, SCORECARDS))
    gates.pipeline.start_role("join")
    gates.pipeline.wait_ready("join")
    until(lambda: not gates.backlog(), 90, "every result was read again")
    assert sum(1 for _ in read_all(gates.pipeline.broker, SCORECARDS)) > made[1]
    assert scorecards(gates) == before
    assert {name: len(cards) for name, cards in before.items()} == dict.fromkeys(before, 1)
