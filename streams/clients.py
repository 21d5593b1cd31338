"""Kafka client settings, in one place for every client of the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streams.topics import MESSAGE_MAX, TOPICS, Topic


class BrokerError(Exception):
    """The broker cannot be used as it is; the message says what to do next."""


_QUIET = {"log_level": 0}  # librdkafka prints every failed connection to stderr; our errors say it once


@dataclass(frozen=True)
class Broker:
    """Where the log is and how it is laid out. `embedded`: the in-memory broker of `glassbox up`."""

    address: str
    partitions: int = 4
    replication: int = 1
    embedded: bool = False

    @property
    def min_insync_replicas(self) -> int:
        """A majority of the replicas, so that an acknowledged message survives the loss of one broker of three."""
        return self.replication // 2 + 1


def producer(broker: Broker) -> Producer:
    """An idempotent producer whose keys go where every other client of the pipeline puts them."""
    return Producer(
        {
            **_QUIET,
            "bootstrap.servers": broker.address,
            "acks": "all",
            "enable.idempotence": not broker.embedded,  # the embedded broker has no producer ids
            "partitioner": "murmur2_random",  # the default of librdkafka is CRC32, of aiokafka murmur2
            "message.max.bytes": MESSAGE_MAX,
            "linger.ms": 5,
            "delivery.timeout.ms": 30_000,
        }
    )


def reader(broker: Broker, topics: Sequence[Topic], *, from_end: bool = True) -> Consumer:
    """A consumer that reads every partition of `topics` without a group: for watching, never for work.

    Raises `BrokerError` where the broker does not answer or a topic is missing.
    """
    consumer = Consumer(
        {
            **_QUIET,
            "bootstrap.servers": broker.address,
            "group.id": "glassbox-reader",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": MESSAGE_MAX,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        where = []
        for topic in topics:
            for partition in range(broker.partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic.name, partition), timeout=5)
                where.append(TopicPartition(topic.name, partition, high if from_end else low))
        consumer.assign(where)
    except KafkaException as error:
        consumer.close()
        raise _explained(error, broker) from None
    return consumer


def _explained(error: KafkaException, broker: Broker) -> BrokerError:
    inner = error.args[0]
    if isinstance(inner, KafkaError) and inner.code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    ):
        return BrokerError(f"{broker.address} lacks a topic or partition; run `glassbox topics create`")
    return BrokerError(
        f"no broker answers at {broker.address} ({inner}); start one with `glassbox up` or set GLASSBOX_BROKER"
    )


def _admin(broker: Broker) -> AdminClient:
    return AdminClient({**_QUIET, "bootstrap.servers": broker.address})


def wait_for_broker(broker: Broker, timeout_s: float, still_wanted: Callable[[], bool] = lambda: True) -> None:
    """Block until the broker answers. Raises `BrokerError` after `timeout_s` seconds."""
    admin = _admin(broker)
    end = time.monotonic() + timeout_s
    while True:
        try:
            admin.list_topics(timeout=min(1.0, timeout_s))
            return
        except KafkaException as error:
            if time.monotonic() > end or not still_wanted():
                raise _explained(error, broker) from None


def create_topics(broker: Broker, wanted: Sequence[Topic] = TOPICS) -> list[str]:
    """Create what is missing and return the names created. Raises `BrokerError` where an existing topic has another
    number of partitions than configured, or the broker refuses."""
    admin = _admin(broker)
    try:
        there = admin.list_topics(timeout=10).topics
    except KafkaException as error:
        raise _explained(error, broker) from None
    missing = [topic for topic in wanted if topic.name not in there]
    check_topics(broker, [topic for topic in wanted if topic.name in there])
    if not missing:
        return []
    orders = [
        NewTopic(topic.name, broker.partitions, broker.replication, config=topic.config(broker.min_insync_replicas))
        for topic in missing
    ]
    for name, future in admin.create_topics(orders, operation_timeout=30).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # two roles may start at once
                raise BrokerError(f"topic {name} could not be created: {error.args[0].str()}") from None
    return [topic.name for topic in missing]


def check_topics(broker: Broker, wanted: Sequence[Topic] = TOPICS) -> dict[str, Any]:
    """Name -> number of partitions of each topic. Raises `BrokerError` for a missing topic or another count than
    configured: with it, events of one evaluation would be in two places."""
    admin = _admin(broker)
    try:
        there = admin.list_topics(timeout=10).topics
    except KafkaException as error:
        raise _explained(error, broker) from None
    found = {}
    for topic in wanted:
        if topic.name not in there:
            raise BrokerError(f"topic {topic.name} is missing; run `glassbox topics create`")
        found[topic.name] = len(there[topic.name].partitions)
        if found[topic.name] != broker.partitions:
            raise BrokerError(
                f"topic {topic.name} has {found[topic.name]} partitions, GLASSBOX_PARTITIONS says {broker.partitions}; "
                "set it right, or make new topics: an id must keep its partition"
            )
    return found
