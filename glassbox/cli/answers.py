"""Publishing requests and following what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from glassbox.cli.inputs import Line, evaluation_id_of
from glassbox.cli.publish import Publisher
from glassbox.cli.tracking import Answer, Tracker

if TYPE_CHECKING:
    from glassbox.contract.events import Receipt
    from streams.clients import Broker
    from streams.redrive import DeadLetter

_BATCH = 500


class Feed:
    """Receipts and dead letters as they come. Raises `BrokerError` where the broker or its topics are not there."""

    def __init__(self, broker: Broker, *, from_end: bool = True) -> None:
        from streams.clients import reader
        from streams.topics import DEAD_LETTERS, RECEIPTS

        self._receipts = RECEIPTS.name
        self._consumer = reader(broker, [RECEIPTS, DEAD_LETTERS], from_end=from_end)

    def read(self, timeout_s: float) -> Iterator[Receipt | DeadLetter]:
        from glassbox.contract.events import Receipt
        from streams.redrive import note_of

        for message in self._consumer.consume(_BATCH, timeout_s):
            if message.error():
                continue  # the client goes on by itself; the topic's end is one of these
            if message.topic() == self._receipts:
                yield Receipt.model_validate_json(message.value() or b"")
            elif note_of((letter := dead_letter(message)).headers) is None:
                yield letter

    def close(self) -> None:
        self._consumer.close()


def dead_letter(message: Any) -> DeadLetter:
    from streams.redrive import DeadLetter

    headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers() or []}
    return DeadLetter(headers, message.key(), message.value(), message.partition(), message.offset())


class Submission:
    """Requests sent to the pipeline, and their answers so far."""

    def __init__(self, broker: Broker, id_key: Callable[[], bytes], *, follow: bool) -> None:
        self.tracker = Tracker()
        self._broker, self._id_key = broker, id_key
        self._feed = Feed(broker) if follow else None  # before the first request, so that no answer is missed

    def send(self, lines: Iterable[Line], per_second: float | None = None) -> Iterator[list[Answer]]:
        """Publish each line under its evaluation id, byte for byte; yields the answers that came meanwhile."""
        from streams.topics import REQUESTS

        began = time.monotonic()
        with Publisher(self._broker) as publisher:
            for count, (number, raw) in enumerate(lines):
                evaluation_id = evaluation_id_of(raw, self._id_key)
                while per_second and (early := began + count / per_second - time.monotonic()) > 0:
                    yield self.poll(min(early, 0.1))
                    publisher.poll()
                self.tracker.sent(number, evaluation_id, time.monotonic())
                key = evaluation_id.encode() if evaluation_id else None
                publisher.send(REQUESTS, key, raw, self._delivered(number))
                if count % 50 == 0:
                    yield self.poll(0)

    def _delivered(self, number: int) -> Callable[[int, int], None]:
        return lambda partition, offset: self.tracker.delivered(number, (partition, offset))

    def poll(self, timeout_s: float) -> list[Answer]:
        """The answers that came within `timeout_s` seconds at most."""
        if self._feed is None:
            time.sleep(timeout_s)
            return []
        found: list[Answer] = []
        from streams.redrive import DeadLetter

        for event in self._feed.read(timeout_s):
            now = time.monotonic()
            if isinstance(event, DeadLetter):
                position = source_position(event)
                if position is not None:
                    found += self.tracker.dead(position, event.headers, now)
            else:
                found += self.tracker.receipt(event.evaluation_id, event.record, now)
        return found

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()


def source_position(letter: DeadLetter) -> tuple[int, int] | None:
    """Where the dead request stands; None for a dead letter of another topic."""
    from streams.topics import REQUESTS

    headers = letter.headers
    if headers.get("source_topic") != REQUESTS.name:
        return None
    try:
        return int(headers["source_partition"]), int(headers["source_offset"])
    except (KeyError, ValueError):
        return None
