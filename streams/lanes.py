"""The two lanes of intake and of the worker kinds: what waits in the bulk lane holds up nothing in the main one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams.acks import OrderedAcks, Token
from streams.ports import Record
from streams.reading import Consumer, Handler, InFlight, Pool
from streams.slots import Slots
from streams.starts import Notes, Starts
from streams.topics import BULK_REQUESTS, REQUESTS, judge_topic


@dataclass(frozen=True)
class Lanes:
    """A `Consumer` of several topics, each of which has one of its own, by the topic's name."""

    of: Mapping[str, Consumer]

    async def on_record(self, record: Record, token: Token) -> None:
        await self.of[record.topic].on_record(record, token)

    async def tick(self) -> None:
        for consumer in self.of.values():
            await consumer.tick()

    async def hand_over(self) -> None:
        for consumer in self.of.values():
            await consumer.hand_over()

    def clear(self) -> None:
        for consumer in self.of.values():
            consumer.clear()


def request_lanes(handle: Handler, acks: OrderedAcks, in_flight: InFlight, size: int) -> Lanes:
    """Intake's, each with up to `size` requests at a time: a bulk request that waits for the judges keeps its place."""
    topics = (REQUESTS, BULK_REQUESTS)
    return Lanes({topic.name: Pool(handle, acks, in_flight, Slots(size)) for topic in topics})


def task_lanes(
    kind: str,
    handle: Handler,
    give_up: Handler,
    acks: OrderedAcks,
    in_flight: InFlight,
    size: int,
    notes: Notes,
    reserve: int | None = None,
) -> Lanes:
    """Those of a worker kind, with `size` tasks at a time between them. `reserve`: see `Starts`; by default `size`."""
    slots = Slots(size)
    pools: dict[str, Consumer] = {}
    for bulk in (False, True):
        starts = Starts(notes, reserve or size)
        pool = Pool(handle, acks, in_flight, slots, bulk, starts=starts, give_up=give_up)
        pools[judge_topic(kind, bulk=bulk).name] = pool
    return Lanes(pools)
