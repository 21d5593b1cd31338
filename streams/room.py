"""A bound on what is in memory at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NoRoom(Exception):
    """There was no room in time."""


class Room:
    """`size` bytes that are lent out in the order in which they were asked for."""

    def __init__(self, size: int) -> None:
        self._size = self._free = size
        self._turn, self._given_back = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int, timeout_s: float) -> AsyncIterator[None]:
        """Hold so many bytes; who asks for more than there are gets all of them. Raises `NoRoom`."""
        size = min(size, self._size)
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                while self._free < size:
                    self._given_back.clear()
                    await self._given_back.wait()
                self._free -= size
        except TimeoutError:
            raise NoRoom from None
        try:
            yield
        finally:
            self._free += size
            self._given_back.set()
