"""How far the judges are, asked of the broker: committed offsets against append times."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from glassbox.contract.events import LATEST
from streams import metrics
from streams.access import group
from streams.clients import Broker, watcher
from streams.topics import judge_topic

log = logging.getLogger("glassbox.streams")

_TIMEOUT_S = 5.0


class KafkaBacklog:
    """`admission.Backlog` by the groups of the worker kinds. It asks for offsets and, of the embedded broker only,
    reads a message; it belongs to no group."""

    def __init__(self, broker: Broker, kinds: Iterable[str]) -> None:
        self._broker = broker
        self._asking = {kind: watcher(broker, group(kind)) for kind in kinds}

    async def lags(self, before: int, *, bulk: bool) -> bool:
        return await asyncio.to_thread(self._lags, before, bulk)

    async def measure(self, every_s: float = 5.0) -> None:
        """Show how many tasks each kind has left, for ever: a kind whose workers are gone cannot say so itself."""
        while True:
            for kind, consumer in self._asking.items():
                with suppress(KafkaException):  # the last known figure stands; `lags` says what is wrong
                    metrics.BACKLOG.labels(kind=kind).set(await asyncio.to_thread(self._left, kind, consumer))
            await asyncio.sleep(every_s)

    async def close(self) -> None:
        for consumer in self._asking.values():
            await asyncio.to_thread(consumer.close)

    def _lags(self, before: int, bulk: bool) -> bool:
        try:
            return any(
                oldest.offset < high and self._is_older(consumer, oldest, high, before)
                for kind, consumer in self._asking.items()
                for oldest, high in self._open(judge_topic(kind, bulk=bulk).name, consumer)
            )
        except KafkaException as error:
            log.warning("how far the judges are cannot be told, requests go on: %s", error.args[0].str())
            return False

    def _left(self, kind: str, consumer: Consumer) -> int:
        lanes = (self._open(judge_topic(kind, bulk=bulk).name, consumer) for bulk in (False, True))
        # the embedded broker says that a partition ends within its last batch: of that one it counts too few
        return sum(max(0, high - oldest.offset) for lane in lanes for oldest, high in lane)

    def _open(self, topic: str, consumer: Consumer) -> Iterator[tuple[TopicPartition, int]]:
        """Each partition at its oldest task without an acknowledgement, and the offset after its last task."""
        every = [TopicPartition(topic, partition) for partition in range(self._broker.partitions)]
        for at in consumer.committed(every, timeout=_TIMEOUT_S):
            low, high = consumer.get_watermark_offsets(at, timeout=_TIMEOUT_S, cached=False)
            yield TopicPartition(topic, at.partition, max(at.offset, low)), high  # below zero: nothing was committed

    def _is_older(self, consumer: Consumer, oldest: TopicPartition, high: int, before: int) -> bool:
        """Whether the message at this offset was appended before the time."""
        if self._broker.embedded:  # it answers 0 both for the first offset and for none
            return _appended_at(consumer, oldest) < before
        asked = TopicPartition(oldest.topic, oldest.partition, max(before, 0))
        (since,) = consumer.offsets_for_times([asked], timeout=_TIMEOUT_S)
        return oldest.offset < (since.offset if since.offset >= 0 else high)


def _appended_at(consumer: Consumer, where: TopicPartition) -> int:
    """Append time in ms of one message; the year 9999 if it does not come, since then nothing is known."""
    consumer.assign([where])
    try:
        message = consumer.poll(_TIMEOUT_S)
    finally:
        consumer.unassign()
    return LATEST if message is None or message.error() else int(message.timestamp()[1])
