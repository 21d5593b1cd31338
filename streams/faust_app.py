"""Faust, held to the protocol: the one file that knows it.

What Faust does by itself loses messages (an exception in an agent acknowledges; a commit passes work in flight), so
agents here read without acknowledging, take a token an event, and release it when the work is done; Faust commits
what was acknowledged, in order. On revocation the work in flight gets a bounded time, what was released is
committed, and the rest is left to the successor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import faust
from aiokafka.errors import MessageSizeTooLargeError
from faust.types import TP

from glassbox.contract.events import LATEST
from streams import metrics
from streams.acks import OrderedAcks, Token
from streams.clients import Broker
from streams.joiner import Join, Marker
from streams.ports import Record, SendFailed, TooLarge
from streams.topics import MESSAGE_MAX, Topic, partition_of

log = logging.getLogger("glassbox.streams")

DRAIN_S = 5.0
"""How long work in flight may take to finish when partitions are revoked or the process is asked to stop."""
REVOKE_GRACE_S = 2.0


class Consumer(Protocol):
    """What a role does with the records of its topic, in order."""

    async def on_record(self, record: Record, token: Token) -> None:
        """Take one record; may wait to hold back reading. The token is released by the role."""
        ...

    async def tick(self) -> None:
        """Called about four times a second."""
        ...

    def clear(self) -> None:
        """Partitions were revoked: forget whatever belonged to them."""
        ...


def make_app(app_id: str, broker: Broker, data_dir: Path, *, max_poll_records: int) -> faust.App:
    """A Faust app with the settings that the protocol needs (each measured)."""
    for noisy in ("faust", "aiokafka", "mode"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    data_dir.mkdir(parents=True, exist_ok=True)
    return faust.App(
        app_id,
        broker=f"kafka://{broker.address}",
        store="memory://",
        datadir=str(data_dir / f"{app_id}-{os.getpid()}"),
        topic_partitions=broker.partitions,
        topic_disable_leader=True,
        topic_allow_declare=False,  # topics are created once, with their settings, by `glassbox topics create`
        topic_replication_factor=broker.replication,
        web_enabled=False,
        stream_wait_empty=False,  # True stalls a rebalance until open work is done
        stream_buffer_maxsize=256,
        table_standby_replicas=0,
        broker_commit_interval=0.5,
        broker_session_timeout=6.0,  # the embedded broker takes half of it to form a group
        broker_heartbeat_interval=1.0,
        broker_rebalance_timeout=20.0,
        broker_request_timeout=30.0,
        broker_max_poll_records=max_poll_records,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=MESSAGE_MAX + 64 * 1024,
        producer_acks=-1,
        producer_linger=0.02,  # seconds; halves the CPU per message
        producer_max_request_size=MESSAGE_MAX,
        producer_partitioner=None,
        worker_redirect_stdouts=False,
    )


class FaustOutbox:
    """`ports.Outbox` on Faust's producer."""

    def __init__(self, app: faust.App, partitions: int) -> None:
        self._app, self._partitions = app, partitions
        self._topics: dict[str, Any] = {}

    def channel(self, topic: Topic) -> Any:
        """Faust's topic; made once, or the app would have several of one name."""
        if topic.name not in self._topics:
            self._topics[topic.name] = self._app.topic(
                topic.name,
                key_type=bytes,
                value_type=bytes,
                key_serializer="raw",
                value_serializer="raw",
                partitions=self._partitions,
            )
        return self._topics[topic.name]

    async def send(
        self,
        topic: Topic,
        key: str | bytes | None,
        value: bytes | None,
        *,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> int:
        """See `ports.Outbox`."""
        raw_key = key.encode() if isinstance(key, str) else key
        if partition is None:
            partition = partition_of(raw_key or b"", self._partitions)
        try:
            # the first await hands over to the producer, the second waits for the broker
            sent = await self.channel(topic).send(
                key=raw_key,
                value=value,
                partition=partition,
                headers=[(name, text.encode()) for name, text in (headers or {}).items()] or None,
            )
            metadata = await sent
        except MessageSizeTooLargeError as error:
            raise TooLarge(str(error)) from None
        except Exception as error:
            raise SendFailed(f"{topic.name}: {type(error).__name__}: {error}") from error
        metrics.PRODUCED.labels(topic=topic.name).inc()
        return int(metadata.timestamp or 0)


class InFlight:
    """Tasks whose failure ends the process without acknowledging anything."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.failed: asyncio.Future[BaseException] | None = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        if self.failed is not None and not self.failed.done():
            self.failed.set_result(error)

    async def drain(self, grace_s: float) -> int:
        """Wait for the tasks, cancel what is left after `grace_s` seconds; returns how many were cancelled."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace_s)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        return len(left)


@dataclass
class Pool:
    """A `Consumer` that works on up to `size` records at a time and holds back reading beyond `window` open ones
    (by default 8 × `size`)."""

    handle: Callable[[Record, Token], Awaitable[None]]
    acks: OrderedAcks
    in_flight: InFlight
    size: int
    window: int = 0
    _slots: asyncio.Semaphore = field(init=False)
    _room: asyncio.Event = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.size)
        self.window = self.window or 8 * self.size
        self._room = asyncio.Event()

    async def on_record(self, record: Record, token: Token) -> None:
        await self._slots.acquire()
        while token.live() and self.acks.open_tokens() > self.window:
            self._room.clear()  # a slow task at the head: what follows is done but cannot be acknowledged
            await self._room.wait()
        self.in_flight.spawn(self._work(record, token))

    async def _work(self, record: Record, token: Token) -> None:
        try:
            if token.live():
                await self.handle(record, token)
                self.acks.release(token)
        finally:
            self._slots.release()
            self._room.set()

    async def tick(self) -> None:
        pass

    def clear(self) -> None:
        pass


@dataclass(frozen=True)
class JoinConsumer:
    """The join as a `Consumer`: it never holds back reading."""

    join: Join

    async def on_record(self, record: Record, token: Token) -> None:
        self.join.on_record(record, token)

    async def tick(self) -> None:
        await self.join.tick()

    def clear(self) -> None:
        self.join.clear()


class FaustClosedIds:
    """`joiner.ClosedIds` on a Faust table: in memory, rebuilt from its changelog."""

    def __init__(self, app: faust.App, partitions: int) -> None:
        self._partitions = partitions
        # no value_type: with dict, recovery breaks
        self._table = app.Table("closed", partitions=partitions, key_type=str)
        self._index: dict[int, dict[str, Marker]] = {}
        self._table.on_recover(self._recovered)

    async def _recovered(self) -> None:
        self._index = {}
        for evaluation_id, value in self._table.items():
            partition = partition_of(evaluation_id.encode(), self._partitions)
            self._index.setdefault(partition, {})[evaluation_id] = Marker(*value)

    def get(self, evaluation_id: str) -> Marker | None:
        return self._index.get(partition_of(evaluation_id.encode(), self._partitions), {}).get(evaluation_id)

    async def mark(self, evaluation_id: str, partition: int, marker: Marker) -> None:
        value = [marker.request_digest, marker.appended_at, marker.offset]
        self._table.data[evaluation_id] = value
        self._index.setdefault(partition, {})[evaluation_id] = marker
        # Faust would send this in the background; the tokens must wait until the changelog has it
        await self._table.send_changelog(partition, evaluation_id, value)

    def forget(self, evaluation_id: str, partition: int) -> None:
        self._table.data.pop(evaluation_id, None)
        self._index.get(partition, {}).pop(evaluation_id, None)
        self._table.send_changelog(partition, evaluation_id, None, value_serializer="raw")

    def oldest(self, partition: int, count: int) -> list[tuple[str, Marker]]:
        index = self._index.get(partition, {})
        return [item for item, _ in zip(index.items(), range(count), strict=False)]


class Role:
    """One role's process: reads one topic through Faust and keeps the protocol's promises around it."""

    def __init__(
        self, app: faust.App, outbox: FaustOutbox, topic: Topic, acks: OrderedAcks, in_flight: InFlight
    ) -> None:
        self.app, self.outbox, self._topic = app, outbox, topic
        self.acks, self.in_flight = acks, in_flight
        self.joined = False
        self._stopping = False

    def consume(self, consumer: Consumer) -> None:
        """Wire the consumer to the topic. Called once, before `run`."""
        app, acks = self.app, self.acks
        consumed = metrics.CONSUMED.labels(topic=self._topic.name)
        stale = metrics.STALE.labels(topic=self._topic.name)

        async def agent(stream: Any) -> None:
            async for event in stream.noack().events():
                message = event.message
                token = acks.take(message.topic, message.partition, message.offset, message.generation_id, event.ack)
                if token is None:
                    stale.inc()
                    continue
                consumed.inc()
                try:
                    await consumer.on_record(_record(message), token)
                except Exception as error:
                    self.in_flight.fail(error)  # an exception that left the agent would acknowledge the event
                    return

        app.agent(self.outbox.channel(self._topic), concurrency=1, name=self._topic.name)(agent)

        async def assigned(_app: Any, assigned: set[TP], **_: Any) -> None:
            acks.assign(app.consumer_generation_id)
            metrics.ASSIGNED.set(sum(tp.topic == self._topic.name for tp in assigned))
            self.joined = True

        async def revoked(_app: Any, revoked: set[TP], **_: Any) -> None:
            await self._settle(REVOKE_GRACE_S)
            acks.revoke()
            consumer.clear()
            metrics.ASSIGNED.set(0)
            metrics.LAG.clear()
            self.joined = False

        app.on_partitions_assigned.connect(cast(Any, assigned), weak=False)
        app.on_partitions_revoked.connect(cast(Any, revoked), weak=False)

        async def ticker() -> None:
            while True:
                await asyncio.sleep(0.25)
                if acks.assigned and not self._stopping:
                    await consumer.tick()
                for partition, behind in self._lag().items():
                    metrics.LAG.labels(topic=self._topic.name, partition=partition).set(behind)
                metrics.UNACKNOWLEDGED.set(acks.open_tokens())
                metrics.OLDEST_UNACKNOWLEDGED_SECONDS.set(acks.oldest_age())

        self._ticker = ticker

    async def _settle(self, grace_s: float) -> None:
        """Give work in flight its time, then commit what was released (Faust has popped its own lists by now)."""
        cancelled = await self.in_flight.drain(grace_s)
        if cancelled:
            log.warning("%d tasks were still in flight and are left to their successor", cancelled)
        positions = {TP(topic, partition): offset for (topic, partition), offset in self.acks.positions().items()}
        if positions:
            await cast(Any, self.app.consumer)._commit_offsets(positions)

    def _lag(self) -> dict[int, int]:
        """Partition -> messages in the log that are not acknowledged, as far as the last fetch told."""
        if not self.joined:
            return {}
        high = {where: self.app.consumer.highwater(TP(*where)) for where in self.acks.positions()}
        return {where[1]: max(0, (high[where] or done) - done) for where, done in self.acks.positions().items()}

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT (returns 0) or until something fails that must not be acknowledged (3)."""
        loop = asyncio.get_running_loop()
        stop: asyncio.Future[None] = loop.create_future()
        self.in_flight.failed = failed = loop.create_future()

        def ask_to_stop() -> None:
            if not stop.done():
                stop.set_result(None)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ask_to_stop)
        self.app.finalize()
        await self.app.start()
        ticker = asyncio.create_task(self._ticker())
        crashed = asyncio.create_task(self.app.wait_until_stopped())
        await asyncio.wait({stop, failed, ticker, crashed}, return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            error = failed.result() if failed.done() else ticker.exception() if ticker.done() else self.app.crash_reason
            log.error("stopping without acknowledging: %s: %s", type(error).__name__, error)
            sys.stderr.flush()
            os._exit(3)  # a regular stop would commit and flush; the restart reads again what was open
        ticker.cancel()
        self._stopping = True
        self.app.flow_control.suspend()
        await self._settle(DRAIN_S)
        self.acks.revoke()
        await self.app.stop()
        return 0


def _record(message: Any) -> Record:
    return Record(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        key=message.key,
        value=message.value,
        # -1 means none; on the embedded broker a producer may have set anything
        timestamp=min(max(round(message.timestamp * 1000), 0), LATEST),
        headers=dict(message.headers or ()),
    )
