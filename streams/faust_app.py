"""Faust, held to the protocol: with `streams.drain` the one place that knows it.

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
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import faust
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.auth import SASLCredentials, SSLCredentials
from faust.types import TP

from glassbox.contract.events import LATEST
from streams import metrics, tracing
from streams.acks import Continuity, OrderedAcks, Skipped
from streams.clients import Broker
from streams.drain import DrainingConsumer
from streams.joiner import Marker
from streams.ports import Record, SendFailed, TooLarge
from streams.reading import REVOKE_GRACE_S, Consumer, InFlight, Reader
from streams.security import Security
from streams.starts import Note, Where
from streams.topics import BULK_REQUESTS, CLOSED, MESSAGE_MAX, REQUESTS, Topic, partition_of

log = logging.getLogger("glassbox.streams")

DRAIN_S = 5.0
"""How long work in flight may take to finish when the process is asked to stop."""
_WITH_HOLES = (REQUESTS.name, BULK_REQUESTS.name)
"""Topics that transactional producers may write, whose markers take offsets."""


def make_app(app_id: str, broker: Broker, data_dir: Path, *, max_poll_records: int) -> faust.App:
    """A Faust app with the settings that the protocol needs (each measured)."""
    for noisy in ("faust", "aiokafka", "mode", "streams.drain"):  # the last: its class is one of theirs
        logging.getLogger(noisy).setLevel(logging.WARNING)
    data_dir.mkdir(parents=True, exist_ok=True)
    app = faust.App(
        app_id,
        broker=f"kafka://{broker.address}",
        broker_credentials=_credentials(broker.security),
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
    cast(Any, app.transport).Consumer = DrainingConsumer
    return app


def _credentials(security: Security) -> SASLCredentials | SSLCredentials | None:
    context = security.ssl_context()
    if security.sasl:
        return SASLCredentials(
            username=security.username, password=security.password, ssl_context=context, mechanism=security.mechanism
        )
    return SSLCredentials(context) if context is not None else None


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
        named = {**tracing.headers(), **(headers or {})}
        encoded = [(name, text.encode()) for name, text in named.items()] or None
        try:
            # past Faust's topic, which makes three objects and a callback of each message for sensors that nobody reads
            producer = await self._app.maybe_start_producer()
            # the first await hands over to the producer, the second waits for the broker
            sent = await producer.send(topic.name, raw_key, value, partition, None, encoded)
            metadata = await sent
        except MessageSizeTooLargeError as error:
            raise TooLarge(str(error)) from None
        except Exception as error:
            if isinstance(error.__cause__, MessageSizeTooLargeError):  # Faust wraps what its producer refuses
                raise TooLarge(str(error.__cause__)) from None
            raise SendFailed(f"{topic.name}: {type(error).__name__}: {error}") from error
        metrics.PRODUCED.labels(topic=topic.name).inc()
        return int(metadata.timestamp or 0)


class FaustClosedIds:
    """`joiner.ClosedIds` on a Faust table: in memory, rebuilt from its changelog.

    The table holds bytes, which are read here: what Faust cannot read, it waits for in vain.
    """

    def __init__(self, app: faust.App, outbox: FaustOutbox, partitions: int) -> None:
        self._outbox, self._partitions = outbox, partitions
        self._table = app.Table("closed", partitions=partitions, key_type=bytes, value_type=bytes)
        self._index: dict[int, dict[str, Marker]] = {}
        self._table.on_recover(self._recovered)

    async def _recovered(self) -> None:
        self._index, foreign = {}, 0
        for key, value in self._table.items():
            found = Marker.decode(key, value)
            if found is None:
                foreign += 1
                continue
            evaluation_id, marker = found
            partition = partition_of(evaluation_id.encode(), self._partitions)
            self._index.setdefault(partition, {})[evaluation_id] = marker
        metrics.FOREIGN_MARKERS.set(foreign)
        if foreign:
            log.error(
                "%d messages of %s are none of ours and were passed over: see who else may write there "
                "(`glassbox topics acls` lists who needs to)",
                foreign,
                CLOSED.name,
            )

    def get(self, evaluation_id: str) -> Marker | None:
        return self._index.get(partition_of(evaluation_id.encode(), self._partitions), {}).get(evaluation_id)

    async def mark(self, evaluation_id: str, partition: int, marker: Marker) -> None:
        key, value = marker.encode(evaluation_id)
        self._table.data[key] = value
        self._index.setdefault(partition, {})[evaluation_id] = marker
        # Faust would send this in the background; the tokens must wait until the changelog has it
        await self._outbox.send(CLOSED, key, value, partition=partition)

    def forget(self, evaluation_id: str, partition: int) -> None:
        marker = self._index.get(partition, {}).pop(evaluation_id, None)
        if marker is not None:
            key, _ = marker.encode(evaluation_id)
            self._table.data.pop(key, None)
            self._table.send_changelog(partition, key, None)

    def oldest(self, partition: int, count: int) -> list[tuple[str, Marker]]:
        index = self._index.get(partition, {})
        return [item for item, _ in zip(index.items(), range(count), strict=False)]


class FaustNotes:
    """`starts.Notes` in the metadata of the consumer's own commits, so that a member of an older generation is fenced
    with its notes too."""

    def __init__(self, app: faust.App, acks: OrderedAcks) -> None:
        self._app, self._acks = app, acks
        self._kept: dict[TopicPartition, str] = {}
        self._noted: Any = None

    async def read(self, where: Where) -> Note:
        at = TopicPartition(*where)
        consumer = self._consumer()
        try:
            found = await self._in_its_thread(consumer._coordinator.fetch_committed_offsets, [at])
        except KafkaError as error:
            raise SendFailed(f"the starts of {where[0]} cannot be read: {error}") from error
        note = Note.decode(found[at].metadata) if at in found else Note()
        self._kept[at] = note.encode()
        return note

    async def write(self, where: Where, note: Note) -> None:
        at = TopicPartition(*where)
        self._kept[at] = note.encode()
        offset = self._acks.position(*where)
        try:
            await self._in_its_thread(self._consumer().commit, {at: OffsetAndMetadata(offset, self._kept[at])})
        except KafkaError as error:
            raise SendFailed(f"the start of {where[0]} cannot be noted: {error}") from error

    def _consumer(self) -> Any:
        """The client below Faust, whose commits, Faust's own too, carry the notes from the first time on."""
        consumer = cast(Any, self._app.consumer)._thread._ensure_consumer()
        if consumer is not self._noted:
            self._noted, commit = consumer, consumer.commit

            async def noted(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
                await commit(
                    {at: OffsetAndMetadata(it.offset, self._kept.get(at, it.metadata)) for at, it in offsets.items()}
                )

            consumer.commit = noted
        return consumer

    async def _in_its_thread(self, call: Any, *arguments: Any) -> Any:
        return await cast(Any, self._app.consumer)._thread.call_thread(call, *arguments)


class Role:
    """One role's process: reads its topics, a lane each, through Faust and keeps the protocol's promises around
    them."""

    def __init__(
        self, app: faust.App, outbox: FaustOutbox, topics: Sequence[Topic], acks: OrderedAcks, in_flight: InFlight
    ) -> None:
        self.app, self.outbox, self._topics = app, outbox, topics
        self.acks, self.in_flight = acks, in_flight
        self._continuity = Continuity()
        self._queues: dict[str, asyncio.Queue[Any]] = {}  # of the agents, by topic
        self._assigned = False
        self._stopping = False

    def consume(self, consumer: Consumer) -> None:
        """Wire the consumer to the topics. Called once, before `run`."""
        app, acks = self.app, self.acks
        self._reader = reader = Reader(consumer, acks, self.in_flight)

        async def agent(stream: Any) -> None:
            (topic,) = stream.channel.topics
            self._queues[topic] = stream.channel.queue
            if len(self._topics) > 1:
                cast(Any, app.consumer).queues = self._queues
            async for event in stream.noack().events():
                message = event.message
                if (missing := await self._first_missing(message)) is not None:
                    where = f"{message.topic}/{message.partition}"
                    self.in_flight.fail(
                        Skipped(f"{where}: {message.offset} came, and {missing} did not come before it")
                    )
                    return
                if not await reader.read(_record(message), message.generation_id, event.ack):
                    return  # an exception that left the agent would acknowledge the event

        for topic in self._topics:  # an agent each: the lanes do not wait for one another
            app.agent(self.outbox.channel(topic), concurrency=1, name=topic.name)(agent)

        async def assigned(_app: Any, assigned: set[TP], **_: Any) -> None:
            acks.assign(app.consumer_generation_id)
            metrics.ASSIGNED.set(sum(tp.topic == self._topics[0].name for tp in assigned))
            self._assigned = True

        async def revoked(_app: Any, revoked: set[TP], **_: Any) -> None:
            await self._settle(REVOKE_GRACE_S)
            reader.end()
            metrics.ASSIGNED.set(0)
            metrics.LAG.clear()
            self._assigned = False

        app.on_partitions_assigned.connect(cast(Any, assigned), weak=False)
        app.on_partitions_revoked.connect(cast(Any, revoked), weak=False)

        async def ticker() -> None:
            while True:
                await asyncio.sleep(0.25)
                if acks.assigned and not self._stopping:
                    await consumer.tick()
                    if (lost := await self._never_came()) is not None:
                        self.in_flight.fail(lost)
                for (topic, partition), behind in self._lag().items():
                    metrics.LAG.labels(topic=topic, partition=partition).set(behind)
                metrics.UNACKNOWLEDGED.set(acks.open_tokens())
                metrics.OLDEST_UNACKNOWLEDGED_SECONDS.set(acks.oldest_age())

        self._ticker = ticker

    def waits_for(self) -> str | None:
        """What keeps this role from its work, as a sentence; None where nothing does."""
        if not self._assigned:
            return "no partitions are assigned yet"
        recovery = cast(Any, self.app.tables).recovery
        if self.app.rebalancing or recovery.in_recovery or not recovery.completed.is_set():
            left = sum(behind for behind in recovery.active_remaining().values() if behind > 0)
            return f"reading has not begun, {left} messages of a changelog come first"
        return None

    async def _first_missing(self, message: Any) -> int | None:
        """Faust can lose what it had fetched when its flow stops, around a recovery: an event that was never handed
        over must not be committed past. Not for requests, whose producers may be transactional."""
        if message.topic in _WITH_HOLES:
            return None
        where, consumer = TP(message.topic, message.partition), cast(Any, self.app.consumer)
        committed = consumer._committed_offset.get(where)
        missing = self._continuity.first_missing(where, message.offset, message.generation_id, committed)
        return missing if missing is not None and await self._is_kept(where, message.offset) else None

    async def _never_came(self) -> Skipped | None:
        """As `_first_missing`, for the last events of a partition."""
        consumer, read = cast(Any, self.app.consumer), {}
        if self.waits_for() is None and not any(queue.qsize() for queue in self._queues.values()):
            read = _positions(consumer, {topic.name for topic in self._topics}.difference(_WITH_HOLES))
        generation, committed = self.app.consumer_generation_id, consumer._committed_offset
        if (lost := self._continuity.never_came(read, generation, committed, time.monotonic())) is None:
            return None
        (topic, partition), due = lost
        if not await self._is_kept(TP(topic, partition), read[lost[0]]):
            return None
        return Skipped(f"{topic}/{partition}: {read[lost[0]] - due} messages were read from {due} on and never came")

    async def _is_kept(self, where: TP, before: int) -> bool:
        """Whether the log still has something before this offset: what retention took is not missing."""
        earliest: dict[TP, int] = await cast(Any, self.app.consumer).earliest_offsets(where)
        return earliest.get(where, 0) < before

    async def _settle(self, grace_s: float) -> None:
        """Give work in flight its time, then commit what was released (Faust has popped its own lists by now)."""
        done, cancelled = await self._reader.settle(grace_s)
        if cancelled:
            log.warning("%d tasks were still in flight and are left to their successor", cancelled)
        if done:
            await cast(Any, self.app.consumer)._commit_offsets({TP(*where): offset for where, offset in done.items()})

    def _lag(self) -> dict[tuple[str, int], int]:
        """(topic, partition) -> messages in the log that are not acknowledged, as far as the last fetch told."""
        if not self._assigned:
            return {}
        high = {where: self.app.consumer.highwater(TP(*where)) for where in self.acks.positions()}
        return {where: max(0, (high[where] or done) - done) for where, done in self.acks.positions().items()}

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
            log.error("stopping without acknowledging", exc_info=error)
            sys.stderr.flush()
            os._exit(3)  # a regular stop would commit and flush; the restart reads again what was open
        ticker.cancel()
        self._stopping = True
        self.app.flow_control.suspend()
        await self._settle(DRAIN_S)
        self._reader.end()
        await self.app.stop()
        return 0


def _positions(consumer: Any, topics: Collection[str]) -> dict[tuple[str, int], int]:
    """The offset after the last message that the client handed to Faust, of each partition that has one."""
    assignment = consumer._thread._ensure_consumer()._subscription.subscription.assignment
    if assignment is None or not assignment.active:
        return {}
    states = {TP(*where): assignment.state_value(where) for where in assignment.tps if where.topic in topics}
    return {where: state.position for where, state in states.items() if state.has_valid_position}


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
