"""Registrations of policies, found where they stand on the log.

A scorecard's policy comes by a partition of its own. Where the committer reads everything anew, such as into an empty
ledger, it may be behind more scorecards of the other partitions than the committer holds while one of them waits.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from confluent_kafka import KafkaException, TopicPartition
from pydantic import ValidationError

from glassbox.contract.events import ENTRY, PolicyRegistration
from streams.access import group
from streams.clients import Broker, watcher
from streams.topics import SCORECARDS, partition_of

log = logging.getLogger("glassbox.streams")

_TIMEOUT_S = 5.0
_PREFIX = "policy:"


class LoggedRegistrations:
    """Reads a policy's partition of the scorecard topic, each time from where it stopped before."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._found: dict[str, PolicyRegistration] = {}
        self._next: dict[int, int] = {}

    async def find(self, digest: str) -> PolicyRegistration | None:
        """The registration of the policy with this digest; None where there is none, or no broker says so."""
        if digest not in self._found:
            await asyncio.to_thread(self._read_on, partition_of(f"{_PREFIX}{digest}".encode(), self._broker.partitions))
        return self._found.get(digest)

    def _read_on(self, partition: int) -> None:
        consumer = watcher(self._broker, group("committer"))
        try:
            low, end = consumer.get_watermark_offsets(TopicPartition(SCORECARDS.name, partition), timeout=_TIMEOUT_S)
            at = max(low, self._next.get(partition, low))
            consumer.assign([TopicPartition(SCORECARDS.name, partition, at)])
            while at < end and (messages := consumer.consume(500, _TIMEOUT_S)):
                for message in messages:
                    if message.error() is None:
                        at = (message.offset() or 0) + 1
                        self._take(message.key(), message.value())
            self._next[partition] = at
        except KafkaException as error:
            log.warning("where a policy is registered cannot be read: %s", error.args[0].str())
        finally:
            consumer.close()

    def _take(self, key: bytes | str | None, value: bytes | str | None) -> None:
        name = key.decode(errors="replace") if isinstance(key, bytes) else key or ""
        if name.startswith(_PREFIX):
            with suppress(ValidationError):  # the committer buries it when it comes to it
                entry = ENTRY.validate_json(value or b"", extra="ignore")
                if isinstance(entry, PolicyRegistration):
                    self._found[name.removeprefix(_PREFIX)] = entry
