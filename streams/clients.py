"""Kafka client settings, in one place for every client of the pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streams.access import READER_GROUP
from streams.security import Security
from streams.topics import MESSAGE_MAX, Topic


class BrokerError(Exception):
    """The broker cannot be used as it is; the message says what to do next."""


class NoBroker(BrokerError):
    """None answers: one that starts, or has too much to do, may answer the next time."""


_NEW_LEADER_S = 10.0
_LEADER_CHANGES = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
_QUIET = {"log_level": 0}  # librdkafka prints every failed connection to stderr; our errors say it once


@dataclass(frozen=True)
class Broker:
    """Where the log is and how it is laid out. `embedded`: the in-memory broker of `glassbox up`."""

    address: str
    partitions: int = 4
    replication: int = 1
    embedded: bool = False
    security: Security = field(default_factory=Security)

    @property
    def min_insync_replicas(self) -> int:
        """A majority of the replicas, so that an acknowledged message survives the loss of one broker of three."""
        return self.replication // 2 + 1


def common(broker: Broker) -> dict[str, Any]:
    """What every confluent-kafka client is told."""
    return {**_QUIET, "bootstrap.servers": broker.address, **broker.security.librdkafka()}


def producer(broker: Broker, *, delivery_s: float = 30.0) -> Producer:
    """An idempotent producer whose keys go where every other client of the pipeline puts them. What the broker has not
    acknowledged after `delivery_s` seconds has failed."""
    return Producer(
        {
            **common(broker),
            "acks": "all",
            "enable.idempotence": not broker.embedded,  # the embedded broker has no producer ids
            "partitioner": "murmur2_random",  # the default of librdkafka is CRC32, of aiokafka murmur2
            "message.max.bytes": MESSAGE_MAX,
            "linger.ms": 5,
            "delivery.timeout.ms": round(delivery_s * 1000),
        }
    )


def watcher(broker: Broker, group: str) -> Consumer:
    """A consumer that commits nothing; `group` is the one that it names, or asks about."""
    return Consumer(
        {
            **common(broker),
            "group.id": group,
            "enable.auto.commit": False,
            "fetch.message.max.bytes": MESSAGE_MAX,
            "auto.offset.reset": "earliest",
        }
    )


def reader(broker: Broker, topics: Sequence[Topic], *, from_end: bool = True) -> Consumer:
    """A consumer that reads every partition of `topics` without a group: for watching, never for work.

    Raises `BrokerError` where the broker does not answer or a topic is missing.
    """
    return _reader(broker, topics, from_end)[0]


def _reader(broker: Broker, topics: Sequence[Topic], from_end: bool) -> tuple[Consumer, dict[tuple[str, int], int]]:
    """The consumer, and the offset after the last of each partition that is not empty. They are asked for before the
    consumer is assigned: one that fetches may be answered late or wrong."""
    consumer = watcher(broker, READER_GROUP)
    where, ends = [], {}
    try:
        for topic in topics:
            for partition in range(broker.partitions):
                low, high = _offsets(consumer, TopicPartition(topic.name, partition))
                where.append(TopicPartition(topic.name, partition, high if from_end else low))
                if low < high:
                    ends[topic.name, partition] = high
        consumer.assign(where)
    except KafkaException as error:
        consumer.close()
        raise explained(error, broker) from None
    return consumer, ends


def _offsets(consumer: Consumer, where: TopicPartition) -> tuple[int, int]:
    """The first offset of a partition and the one after its last; waits while it changes its leader."""
    end = time.monotonic() + _NEW_LEADER_S
    while True:
        try:
            return consumer.get_watermark_offsets(where, timeout=5)
        except KafkaException as error:
            if error.args[0].code() not in _LEADER_CHANGES or time.monotonic() > end:
                raise
            time.sleep(0.1)


_QUIET_S = 0.5
"""The embedded broker says that a partition ends within its last batch; what comes beyond, comes at once."""
SURE_QUIET_S = 3.0
"""For who would rather wait than lack something."""


def read_all(broker: Broker, topic: Topic, patience_s: float = 30, quiet_s: float = _QUIET_S) -> Iterator[Message]:
    """Every message that stands on a topic now, partition by partition in the order of its offsets. The embedded
    broker's is taken to have ended once nothing comes for `quiet_s` seconds.

    Raises `BrokerError` as `reader` does, and where nothing comes for `patience_s` seconds before the end.
    """
    consumer, ends = _reader(broker, [topic], from_end=False)
    try:
        last = time.monotonic()
        while ends:
            for message in consumer.consume(500, 0.2):
                if message.error():
                    continue  # the client goes on by itself
                last = time.monotonic()
                where, offset = (topic.name, message.partition() or 0), message.offset() or 0
                if broker.embedded or offset < ends.get(where, 0):
                    yield message
                if offset + 1 >= ends.get(where, 0):
                    ends.pop(where, None)
            if time.monotonic() - last > patience_s:
                raise BrokerError(f"{broker.address} stopped answering while {topic.name} was read")
        while broker.embedded and (rest := consumer.consume(500, quiet_s)):
            yield from (message for message in rest if not message.error())
    except KafkaException as error:
        raise explained(error, broker) from None
    finally:
        consumer.close()


def explained(error: KafkaException, broker: Broker) -> BrokerError:
    """What went wrong with a broker, and the next step, as a sentence."""
    inner = error.args[0]
    code, reason = (inner.code(), inner.str()) if isinstance(inner, KafkaError) else (None, str(inner))
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        return BrokerError(
            f"{broker.address} lacks a topic or partition; run `glassbox topics create`{unless_hidden(broker)}"
        )
    if code in _FORBIDDEN:
        return BrokerError(
            f"{broker.address} does not allow this to its user ({reason}); `glassbox topics acls` lists what each needs"
        )
    if isinstance(inner, KafkaError) and of_trust(inner):
        return BrokerError(
            f"{broker.address} and this client do not trust each other ({reason}); set GLASSBOX_BROKER_SECURITY and "
            "the settings of its SASL user or certificates right"
        )
    return NoBroker(
        f"no broker answers at {broker.address} ({reason}); start one with `glassbox up` or set GLASSBOX_BROKER"
    )


def of_trust(error: KafkaError) -> bool:
    """Whether client and broker do not trust each other. A failed handshake may also come as a broken connection, by
    what the client was doing when it failed."""
    return error.code() in _UNTRUSTED or "SSL routines" in error.str()


def unless_hidden(broker: Broker) -> str:
    """The other reason why a topic is not seen, where users are told apart."""
    if broker.security.protocol == "PLAINTEXT":
        return ""
    return ", or let this user see it (`glassbox topics acls` lists what each needs)"


_UNTRUSTED = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
