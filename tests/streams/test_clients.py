from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from glassbox.cli.children import free_ports
from streams.admin import check_topics, create_topics, wait_for_broker
from streams.clients import Broker, BrokerError, explained, producer, read_all, reader
from streams.topics import RECEIPTS, REQUESTS, TOPICS


def test_topics_are_created_once(broker: Broker) -> None:
    assert create_topics(broker) == [topic.name for topic in TOPICS]
    assert create_topics(broker) == []
    assert check_topics(broker) == []


def test_a_missing_topic_is_named_with_the_next_step(broker: Broker) -> None:
    with pytest.raises(BrokerError, match=r"topics glassbox\.requests, .* are missing; run `glassbox topics create`"):
        check_topics(broker)
    with pytest.raises(BrokerError, match="glassbox topics create"):
        reader(broker, [REQUESTS])


def test_another_number_of_partitions_is_refused(broker: Broker) -> None:
    create_topics(broker, [REQUESTS])
    other = replace(broker, partitions=6)
    for act in (check_topics, create_topics):
        with pytest.raises(BrokerError, match="has 4 partitions, GLASSBOX_PARTITIONS says 6"):
            act(other, [REQUESTS, RECEIPTS])


def test_reading_all_of_a_topic_leaves_nothing_out(broker: Broker) -> None:
    """Also not the last of several messages that went out as one batch."""
    create_topics(broker, [RECEIPTS])
    assert list(read_all(broker, RECEIPTS)) == []
    sender = producer(broker)
    for count in range(5):
        for n in range(4):
            sender.produce(RECEIPTS.name, key=f"{count}-{n}".encode(), value=b"x")
        sender.flush()
        found = [(message.partition(), message.offset()) for message in read_all(broker, RECEIPTS)]
        assert len(set(found)) == len(found) == 4 * (count + 1)


def test_a_broker_that_is_not_there_is_a_sentence() -> None:
    (port,) = free_ports(1)
    nowhere = Broker(f"127.0.0.1:{port}")
    with pytest.raises(BrokerError, match="start one with `glassbox up` or set GLASSBOX_BROKER"):
        wait_for_broker(nowhere, 0.2)


@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [
        (KafkaError._SSL, "handshake failed", "do not trust each other"),
        (KafkaError._TRANSPORT, "SSL routines::certificate verify failed (in state SSL_HANDSHAKE)", "do not trust"),
        (KafkaError._TRANSPORT, "sasl_ssl://kafka:9093/bootstrap: Connect to kafka failed", "no broker answers"),
    ],
)
def test_a_broker_that_is_not_trusted_is_told_from_one_that_does_not_answer(code: int, reason: str, told: str) -> None:
    assert told in str(explained(KafkaException(KafkaError(code, reason)), Broker("kafka:9093")))
