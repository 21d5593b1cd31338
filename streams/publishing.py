"""Sending from an event loop: each message awaited until the broker has acknowledged it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streams.clients import Broker, producer
from streams.ports import TooLarge
from streams.topics import Topic

_POLL_S = 0.2
_DELIVERY_S = 10.0
"""Who waits for an answer over HTTP waits no longer."""


class NotAcknowledged(Exception):
    """The broker has not said that it has the message: it may be lost, or may stand there. Send it again."""


class QueueFull(Exception):
    """As many messages as may wait for the broker do: none was taken."""


class AcknowledgedProducer:
    """Everything that is sent is acknowledged by all replicas in sync, or the sender is told."""

    def __init__(self, broker: Broker) -> None:
        self._producer = producer(broker, delivery_s=_DELIVERY_S)
        self._stop = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="acknowledgements", daemon=True)
        self._poller.start()
        self.trouble: str | None = None

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(_POLL_S)

    async def send(self, topic: Topic, key: bytes, value: bytes, headers: Mapping[str, str]) -> None:
        """Returns when the broker has acknowledged. Raises `NotAcknowledged`, `QueueFull`, or `TooLarge` where it
        never will."""
        loop = asyncio.get_running_loop()
        acknowledged: asyncio.Future[None] = loop.create_future()

        def delivered(error: KafkaError | None, _message: Any) -> None:
            loop.call_soon_threadsafe(self._settle, acknowledged, error)

        options: dict[str, Any] = {"headers": dict(headers)} if headers else {}
        try:
            # the embedded broker keeps the time that the producer sets
            at = time.time_ns() // 1_000_000
            self._producer.produce(topic.name, value, key, on_delivery=delivered, timestamp=at, **options)
        except BufferError:
            raise QueueFull from None
        except KafkaException as error:
            self._settle(acknowledged, error.args[0])
        await acknowledged

    def _settle(self, acknowledged: asyncio.Future[None], error: KafkaError | None) -> None:
        self.trouble = None if error is None else error.str()
        if acknowledged.done():  # its sender has gone
            return
        if error is None:
            acknowledged.set_result(None)
        elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            acknowledged.set_exception(TooLarge(error.str()))
        else:
            acknowledged.set_exception(NotAcknowledged(error.str()))

    def close(self) -> None:
        """Waits for what is on its way."""
        self._producer.flush(_DELIVERY_S)
        self._stop.set()
        self._poller.join()
