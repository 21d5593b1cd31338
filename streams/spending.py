"""Whether a request is judged at all: the sampling rules, and the tokens of the day.

What a day has cost stands in one place, the answers on `glassbox.results`, each with its broker timestamp. So every
intake comes to the same sum, also after a restart, and nothing has to be kept beside the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Literal, Protocol

from confluent_kafka import KafkaException, TopicPartition
from pydantic import ValidationError

from glassbox.contract.events import RESULT, Judged
from glassbox.contract.request import EvaluationRequest
from glassbox.contract.spending import DAY_MS, Spending
from streams import metrics
from streams.access import group
from streams.clients import Broker, BrokerError, explained, watcher
from streams.clock import monotonic
from streams.topics import RESULTS

log = logging.getLogger("glassbox.streams")

_TIMEOUT_S = 5.0
_PATIENCE_S = 30.0
_RETRY_S = 1.0


class Meter(Protocol):
    """What the log says of tokens."""

    async def tokens(self, day: int) -> int:
        """Spent on a day of the budget, counted from 1970, by all answers that are in the log; of the log's own newest
        day where that is later. Waits until it can be told."""
        ...


@dataclass
class Tally:
    """The tokens of the newest day of a log: a sum, whatever the order in which its partitions are read."""

    day: int = 0
    tokens: int = 0

    def add(self, value: bytes | None, timestamp: int) -> None:
        """One message of `results`, appended at `timestamp` ms."""
        day = timestamp // DAY_MS
        if day < self.day:
            return
        if day > self.day:
            self.day, self.tokens = day, 0
        try:
            event = RESULT.validate_json(value or b"", extra="ignore")
        except ValidationError:
            return  # the join buries it
        if isinstance(event, Judged):
            self.tokens += sum(used.tokens for used in event.usage)

    def on(self, day: int) -> int:
        return self.tokens if day <= self.day else 0


class KafkaMeter:
    """`Meter` by clients of its own that join no group, commit nothing and read on from where they were."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # one that fetches is answered late or wrong when it asks for offsets
        self._asking, self._reading = (watcher(broker, group("intake")) for _ in range(2))
        self._next: dict[int, int] = {}
        self._tally = Tally()

    async def tokens(self, day: int) -> int:
        while True:
            try:
                return await asyncio.to_thread(self._read_on, day)
            except (BrokerError, KafkaException) as error:
                said = explained(error, self._broker) if isinstance(error, KafkaException) else error
                log.warning("what the day has cost cannot be told, and requests wait: %s", said)
                await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        for consumer in (self._asking, self._reading):
            await asyncio.to_thread(consumer.close)

    def _read_on(self, day: int) -> int:
        partitions = range(self._broker.partitions)
        offsets = {p: self._asking.get_watermark_offsets(_at(p), timeout=_TIMEOUT_S, cached=False) for p in partitions}
        if not self._next:
            self._next = self._begin(day, offsets)
            self._reading.assign([_at(partition, offset) for partition, offset in self._next.items()])
        for partition, (low, _) in offsets.items():
            self._next[partition] = max(self._next[partition], low)  # what retention took is of another day
        heard = time.monotonic()
        while any(self._next[partition] < high for partition, (_, high) in offsets.items()):
            for message in self._reading.consume(500, 0.2):
                if message.error():
                    continue  # the client goes on by itself
                heard = time.monotonic()
                self._tally.add(message.value(), message.timestamp()[1])
                self._next[message.partition() or 0] = (message.offset() or 0) + 1
            if time.monotonic() - heard > _PATIENCE_S:
                raise BrokerError(f"{self._broker.address} stopped answering while {RESULTS.name} was read")
        return self._tally.on(day)

    def _begin(self, day: int, offsets: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Where the day begins, by append time."""
        if self._broker.embedded:  # it answers 0 both for the first offset and for none
            return {partition: low for partition, (low, _) in offsets.items()}
        asked = [_at(partition, day * DAY_MS) for partition in offsets]
        found = self._asking.offsets_for_times(asked, timeout=_TIMEOUT_S)
        return {at.partition: at.offset if at.offset >= 0 else offsets[at.partition][1] for at in found}


def _at(partition: int, offset: int = 0) -> TopicPartition:
    return TopicPartition(RESULTS.name, partition, offset)


@dataclass
class Gate:
    """Says of each request whether it is judged. `key`: the id key. `meter`: asked where there is a budget, at most
    every `every_s` seconds for all requests together."""

    spending: Spending = field(default_factory=Spending)
    key: bytes = b""
    meter: Meter | None = None
    every_s: float = 1.0
    _spent: tuple[int, float, int] = field(default=(-1, 0.0, 0), init=False)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def skips(
        self, request: EvaluationRequest, evaluation_id: str, now: float
    ) -> Literal["sampled_out", "budget_spent"] | None:
        """Why a request is not judged, None where it is. `now`: ms by the broker's clock.

        What is being judged is not in the log yet, so a day ends above its budget by what was under way.
        """
        if not self.spending.samples(request, evaluation_id, self.key):
            return "sampled_out"
        budget = self.spending.budget
        if budget is None or self.meter is None:
            return None
        return "budget_spent" if await self._tokens(self.meter, now) >= budget.tokens_per_day else None

    async def _tokens(self, meter: Meter, now: float) -> int:
        today = int(now) // DAY_MS
        async with self._asking:
            day, at, tokens = self._spent
            if day != today or monotonic() - at >= self.every_s:
                tokens = await meter.tokens(today)
                metrics.BUDGET_SPENT.set(tokens)
                self._spent = today, monotonic(), tokens
            return tokens
