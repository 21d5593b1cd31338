from __future__ import annotations

import asyncio

from streams.acks import OrderedAcks, Token
from streams.ports import Record
from streams.reading import InFlight, Pool
from streams.slots import Slots


async def test_work_that_was_cancelled_before_its_first_step_keeps_no_slot() -> None:
    acks, in_flight, handled = OrderedAcks(), InFlight(), list[int]()

    async def handle(record: Record, token: Token) -> None:
        handled.append(record.offset)

    pool = Pool(handle, acks, in_flight, Slots(1))
    for generation in (1, 2, 3):
        acks.assign(generation)
        token = acks.take("topic", 0, 0, generation, lambda: None)
        assert token is not None
        async with asyncio.timeout(5):
            await pool.on_record(Record("topic", 0, 0, None, b"", generation), token)
        if generation < 3:
            for task in list(in_flight._tasks):
                task.cancel()  # as a rebalance does with what is left
        await in_flight.drain(1)
        acks.revoke()
    assert handled == [0]


async def test_nothing_of_an_assignment_runs_on_after_it_was_given_up() -> None:
    in_flight, ended = InFlight(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    in_flight.spawn(stubborn())
    assert await in_flight.drain(0.01) == 1
    assert ended.is_set()
