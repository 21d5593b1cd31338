"""How a role reads its topic, whatever the transport: who may take an event, how much is worked on at a time, and
what happens when an assignment ends (DESIGN §4.1 rule 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from streams import metrics
from streams.acks import OrderedAcks, Token
from streams.joiner import Join
from streams.ports import Record
from streams.slots import Slots
from streams.starts import Starts

REVOKE_GRACE_S = 2.0
"""How long work in flight may take to finish when partitions are revoked."""


class Consumer(Protocol):
    """What a role does with the records of its topic, in order."""

    async def on_record(self, record: Record, token: Token) -> None:
        """Take one record; may wait to hold back reading. The token is released by the role."""
        ...

    async def tick(self) -> None:
        """Called about four times a second."""
        ...

    async def hand_over(self) -> None:
        """Partitions are given up in good order: the work in flight has had its time."""
        ...

    def clear(self) -> None:
        """Partitions were revoked: forget whatever belonged to them."""
        ...


class InFlight:
    """Tasks whose failure ends the process without acknowledging anything."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Callable[[], object] | None] = {}  # in the order in which they began
        self.failed: asyncio.Future[BaseException] | None = None

    def spawn(self, work: Coroutine[Any, Any, None], ended: Callable[[], object] | None = None) -> None:
        """`ended` is called when the work is over, whatever became of it: a task that is cancelled before its first
        step never enters a `finally` block."""
        task = asyncio.create_task(work)
        self._tasks[task] = ended
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        ended = self._tasks.pop(task, None)
        if ended is not None:
            ended()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        if self.failed is not None and not self.failed.done():
            self.failed.set_result(error)

    async def drain(self, grace_s: float) -> int:
        """Wait for the tasks, cancel what is left after `grace_s` seconds; returns how many were cancelled."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=grace_s)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1.0)  # nothing of the old assignment runs beside the new one
        return len(left)


@dataclass(frozen=True)
class Reader:
    """A consumer behind its acknowledgements: what any transport calls, for each topic by itself."""

    consumer: Consumer
    acks: OrderedAcks
    in_flight: InFlight

    async def read(self, record: Record, generation: int, acknowledge: Callable[[], object]) -> bool:
        """Hand over one record that the assignment `generation` fetched; False once the process is about to exit.

        `acknowledge` is called, in the order of offsets, when the record may be forgotten. A record of an assignment
        that has ended is left to its successor.
        """
        token = self.acks.take(record.topic, record.partition, record.offset, generation, acknowledge)
        if token is None:
            metrics.STALE.labels(topic=record.topic).inc()
            return True
        metrics.was_read(record.topic, record.timestamp)
        try:
            await self.consumer.on_record(record, token)
        except Exception as error:
            self.in_flight.fail(error)
            return False
        return True

    async def settle(self, grace_s: float) -> tuple[Mapping[tuple[str, int], int], int]:
        """Give work in flight its time, and begin no more; returns the positions to commit, and how many tasks are
        left to a successor."""
        self.acks.close()
        cancelled = await self.in_flight.drain(grace_s)
        await self.consumer.hand_over()
        return self.acks.positions(), cancelled

    def end(self) -> None:
        """The assignment is over: nothing of it counts any more."""
        self.acks.revoke()
        self.consumer.clear()


Handler = Callable[[Record, Token], Awaitable[None]]


@dataclass
class Pool:
    """A `Consumer` of one topic that works on as many records at a time as it gets `slots` for, and holds back reading
    beyond `window` open ones (by default 8 × as many). `bulk`: which lane's slots.

    With `starts`, a record that may have killed a worker is worked on alone, and one that has killed too many goes
    to `give_up`.
    """

    handle: Handler
    acks: OrderedAcks
    in_flight: InFlight
    slots: Slots
    bulk: bool = False
    window: int = 0
    starts: Starts | None = None
    give_up: Handler | None = None
    _room: asyncio.Event = field(init=False)

    def __post_init__(self) -> None:
        self.window = self.window or 8 * self.slots.size
        self._room = asyncio.Event()

    async def on_record(self, record: Record, token: Token) -> None:
        alone = self.starts is not None and await self.starts.guarded(record)
        await self.slots.take(bulk=self.bulk, alone=alone)
        while token.live() and self.acks.open_tokens(record.topic) > self.window:
            self._room.clear()  # a slow task at the head: what follows is done but cannot be acknowledged
            await self._room.wait()
        handle = self.handle
        if self.starts is not None and token.may_begin() and not await self.starts.begin(record):
            assert self.give_up is not None
            handle = self.give_up
        self.in_flight.spawn(self._work(handle, record, token), lambda: self._free(alone))

    async def _work(self, handle: Handler, record: Record, token: Token) -> None:
        if token.may_begin():  # a start that was counted meanwhile is not made
            await handle(record, token)
            self.acks.release(token)

    def _free(self, alone: bool) -> None:
        self.slots.give_back(bulk=self.bulk, alone=alone)
        self._room.set()

    async def tick(self) -> None:
        pass

    async def hand_over(self) -> None:
        if self.starts is not None:
            await self.starts.hand_over()

    def clear(self) -> None:
        if self.starts is not None:
            self.starts.clear()


@dataclass(frozen=True)
class JoinConsumer:
    """The join as a `Consumer`: it never holds back reading."""

    join: Join

    async def on_record(self, record: Record, token: Token) -> None:
        self.join.on_record(record, token)

    async def tick(self) -> None:
        await self.join.tick()

    async def hand_over(self) -> None:
        pass

    def clear(self) -> None:
        self.join.clear()
