"""Never more is lent out than there is, in the order of asking, and a large request is not starved by small ones."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.room import NoRoom, Room


@given(st.lists(st.integers(0, 30), max_size=20))
def test_what_is_held_never_exceeds_the_room_and_everybody_has_a_turn(sizes: list[int]) -> None:
    held, began = 0, list[int]()

    async def hold(room: Room, number: int, size: int) -> None:
        nonlocal held
        async with room.taken(size, 60):
            began.append(number)
            held += min(size, 10)
            assert held <= 10
            await asyncio.sleep(0)
            held -= min(size, 10)

    async def run() -> None:
        room = Room(10)
        await asyncio.gather(*(hold(room, number, size) for number, size in enumerate(sizes)))

    asyncio.run(run())
    assert began == list(range(len(sizes)))


async def test_who_waits_too_long_is_told_and_takes_nothing() -> None:
    room = Room(10)
    async with room.taken(8, 1):
        with pytest.raises(NoRoom):
            async with room.taken(3, 0.01):
                pytest.fail("there is no room")
    async with room.taken(10, 0.01):
        pass
