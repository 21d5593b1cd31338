"""A transport in memory, and what it takes to run a role's handler on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.acks import OrderedAcks, Token
from streams.ports import Record, TooLarge
from streams.topics import Topic


@dataclass(frozen=True)
class Sent:
    topic: str
    key: str | bytes | None
    value: bytes | None
    headers: Mapping[str, str]
    partition: int | None

    @property
    def json(self) -> Any:
        assert self.value is not None
        return json.loads(self.value)


@dataclass
class MemoryOutbox:
    """Keeps what is sent; `too_large` names topics that refuse, `now` is the next message's append time."""

    sent: list[Sent] = field(default_factory=list)
    too_large: set[str] = field(default_factory=set)
    now: int = 1_700_000_000_000

    async def send(
        self,
        topic: Topic,
        key: str | bytes | None,
        value: bytes | None,
        *,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> int:
        if topic.name in self.too_large:
            raise TooLarge("the message is too large")
        self.sent.append(Sent(topic.name, key, value, headers or {}, partition))
        self.now += 1
        return self.now

    def on(self, topic: Topic) -> list[Sent]:
        return [sent for sent in self.sent if sent.topic == topic.name]


class NoBacklog:
    """Judges that have nothing left to do."""

    async def lags(self, before: int, *, bulk: bool) -> bool:
        return False


class Feed:
    """Records of one topic with their tokens, and what was acknowledged."""

    def __init__(self, topic: Topic) -> None:
        self.topic, self.acks, self.acknowledged, self._offset = topic, OrderedAcks(), list[int](), 0
        self.acks.assign(1)

    def next(self, value: bytes | None, timestamp: int = 1_700_000_000_000, partition: int = 0) -> tuple[Record, Token]:
        offset, self._offset = self._offset, self._offset + 1
        record = Record(self.topic.name, partition, offset, None, value, timestamp)
        token = self.acks.take(self.topic.name, partition, offset, 1, lambda: self.acknowledged.append(offset))
        assert token is not None
        return record, token
