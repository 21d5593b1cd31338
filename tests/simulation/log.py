"""The broker: a partitioned log that stamps what it appends, and consumer groups with fenced generations."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streams.ports import Record
from streams.topics import partition_of

EPOCH_MS = 1_700_000_000_000

Where = tuple[str, int]
"""Topic and partition."""


@functools.cache
def home(key: bytes, partitions: int) -> int:
    """`partition_of`, remembered: it is pure Python, and ids are few."""
    return partition_of(key, partitions)


class Log:
    """Every topic with `partitions` partitions. `now`: virtual seconds; `ahead_ms` is added to append times, since a
    broker's clock may jump."""

    def __init__(self, partitions: int, now: Callable[[], float]) -> None:
        self.partitions, self._now, self.ahead_ms = partitions, now, 0
        self._records: defaultdict[Where, list[Record]] = defaultdict(list)
        self.heard: list[Callable[[Record], None]] = []
        self.readers: dict[str, Callable[[], None]] = {}
        """Topic -> who is told that there is something to read."""

    def time_ms(self) -> int:
        return EPOCH_MS + round(self._now() * 1000) + self.ahead_ms

    def append(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Mapping[str, bytes]
    ) -> Record:
        records = self._records[topic, partition]
        record = Record(topic, partition, len(records), key, value, self.time_ms(), headers)
        records.append(record)
        for hear in self.heard:
            hear(record)
        if topic in self.readers:
            self.readers[topic]()
        return record

    def read(self, where: Where) -> list[Record]:
        return self._records[where]

    def topic(self, name: str) -> list[Record]:
        """All records of a topic, partition by partition."""
        return [record for partition in range(self.partitions) for record in self._records[name, partition]]


@dataclass
class Offsets:
    """What the group coordinator keeps: the current generation and, per partition, the committed offset with its
    metadata."""

    generation: int = 0
    committed: dict[Where, int] = field(default_factory=dict)
    notes: dict[Where, str] = field(default_factory=dict)

    def commit(self, generation: int, positions: Mapping[Where, int]) -> bool:
        """False for a member of an older generation: it is fenced, and nothing is kept."""
        if generation != self.generation:
            return False
        self.committed.update(positions)
        return True
