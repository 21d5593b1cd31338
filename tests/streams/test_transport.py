"""What the two brokers do otherwise, as docs/kafka.md has it; all else of the pipeline is tested on both alike."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, Producer

from streams.admin import Admin, create_topics
from streams.clients import Broker, common, read_all
from streams.topics import MESSAGE_MAX, REQUESTS

LONG_AGO = 1_000_000_000_000  # ms; 2001


def send(broker: Broker, value: bytes, timestamp: int) -> KafkaError | None:
    outcome = []
    producer = Producer({**common(broker), "message.max.bytes": MESSAGE_MAX})
    producer.produce(
        REQUESTS.name, value, b"key", timestamp=timestamp, on_delivery=lambda error, _: outcome.append(error)
    )
    assert producer.flush(30) == 0
    return outcome[0]


def test_whose_clock_dates_a_message(broker: Broker) -> None:
    create_topics(broker)
    began = time.time() * 1000 - 1000
    assert send(broker, b"{}", LONG_AGO) is None
    ((_, dated),) = [message.timestamp() for message in read_all(broker, REQUESTS)]
    if broker.embedded:
        assert dated == LONG_AGO, "the producer's, so our own producers must set it"
    else:
        assert began <= dated <= time.time() * 1000 + 1000, "the broker's"


def test_who_refuses_a_message_that_is_too_large(broker: Broker) -> None:
    create_topics(broker)
    error = send(broker, b"x" * (REQUESTS.max_message_bytes + 1000), LONG_AGO)
    if broker.embedded:
        assert error is None
    else:
        assert error is not None
        assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert send(broker, b"x" * (REQUESTS.max_message_bytes - 1000), LONG_AGO) is None


def test_whether_settings_can_be_compared(broker: Broker) -> None:
    create_topics(broker, [REQUESTS])
    found = Admin(broker).find([REQUESTS])[REQUESTS.name]
    assert (found.partitions, found.replication) == (broker.partitions, 1)
    assert bool(found.config) is not broker.embedded
