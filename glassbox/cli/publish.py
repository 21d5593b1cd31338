"""Sending to the broker from the command: every message acknowledged, or a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.clients import Broker
    from streams.topics import Topic

FLUSH_S = 40.0
"""Longer than the producer's own delivery timeout, which is what says why."""

Delivered = Callable[[int, int], None]
"""Called with the partition and offset at which a message stands."""


class Publisher:
    """A producer whose end waits for every acknowledgement. Raises `BrokerError` where one does not come."""

    def __init__(self, broker: Broker) -> None:
        from streams.clients import producer

        self._broker, self._producer = broker, producer(broker)
        self._failure: str | None = None

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()

    def send(
        self,
        topic: Topic,
        key: bytes | None,
        value: bytes | None,
        delivered: Delivered | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> None:
        def report(error: Any, message: Any) -> None:
            if error is not None:
                self._failure = self._failure or str(error)
            elif delivered is not None:
                delivered(message.partition(), message.offset())

        # The embedded broker keeps the timestamp that the producer sets.
        arguments: dict[str, Any] = {"value": value, "key": key, "on_delivery": report}
        if headers is not None:
            arguments["headers"] = dict(headers)
        if partition is not None:
            arguments["partition"] = partition
        while True:
            try:
                self._producer.produce(topic.name, timestamp=time.time_ns() // 1_000_000, **arguments)
                break
            except BufferError:
                self._producer.poll(0.05)
        self.poll()

    def poll(self) -> None:
        """Handle the acknowledgements that are there."""
        self._producer.poll(0)
        self._raise()

    def flush(self) -> None:
        left = self._producer.flush(FLUSH_S)
        self._raise()
        if left:
            self._failure = f"{left} messages without an acknowledgement"
            self._raise()

    def _raise(self) -> None:
        from streams.clients import BrokerError

        if self._failure is not None:
            raise BrokerError(
                f"the broker at {self._broker.address} did not take a message ({self._failure}); "
                "see that it runs and has the topics (`glassbox topics describe`)"
            )
