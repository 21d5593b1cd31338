"""Reading topics beside the pipeline: batches of messages, acknowledged when their reader has taken them in.

For a reader whose work is idempotent and needs no order between topics, such as the catalogue. The roles that decide
something read by `streams.reading`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams import metrics
from streams.clients import Broker, explained, watcher
from streams.ports import Record
from streams.topics import Topic

log = logging.getLogger("glassbox.follow")

_NOTHING_TO_COMMIT = KafkaError._NO_OFFSET


class Follower:
    """A member of a consumer group. What was read and not committed is read again, by this process or another."""

    def __init__(self, broker: Broker, group: str, topics: Sequence[Topic]) -> None:
        self._broker = broker
        self._consumer: Consumer = watcher(broker, group)
        self.joined = False
        self._consumer.subscribe([topic.name for topic in topics], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.joined = True
        metrics.ASSIGNED.set(len(partitions))

    def _revoked(self, *_: object) -> None:
        self.joined = False
        metrics.ASSIGNED.set(0)
        metrics.LAG.clear()

    def read(self, most: int, timeout_s: float) -> list[Record]:
        """The messages that come within `timeout_s` seconds, `most` at most. Raises `BrokerError` where the broker
        refuses; one that is away is waited for."""
        records = []
        for message in self._consumer.consume(most, timeout_s):
            error = message.error()
            if error is None:
                records.append(record := record_of(message))
                metrics.was_read(record.topic, record.timestamp)
            elif not (error.retriable() or error.code() in (KafkaError._PARTITION_EOF, KafkaError._ALL_BROKERS_DOWN)):
                raise explained(KafkaException(error), self._broker)
        self._measure()
        return records

    def _measure(self) -> None:
        """Show how far the log is ahead, as far as the last fetch told."""
        for at in self._consumer.position(self._consumer.assignment()):
            _, high = self._consumer.get_watermark_offsets(at, cached=True)
            if at.offset >= 0 and high >= 0:
                metrics.LAG.labels(topic=at.topic, partition=at.partition).set(max(0, high - at.offset))

    def commit(self) -> None:
        """What was read need not be read again. Where the group has changed meanwhile it is, by whoever has it now."""
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != _NOTHING_TO_COMMIT:
                log.info("not committed, to be read again: %s", error.args[0].str())

    def close(self) -> None:
        self._consumer.close()


def record_of(message: Message) -> Record:
    """A message as the pipeline's own code reads it."""
    headers: Any = message.headers()  # pairs, though its type says that it may be a mapping
    return Record(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        timestamp=message.timestamp()[1],
        headers={name: _bytes(value) or b"" for name, value in headers or ()},
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
