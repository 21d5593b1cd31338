"""The evidence store behind the product's own vault: atomic single objects, and everything that can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ledger.port import StoreUnavailable

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")


class SimStore:
    """`ledger.store.ObjectStore` in memory. Every operation takes its time, may be refused while the store is down,
    and may be done though the caller is told otherwise."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.objects: dict[str, bytes] = {}
        self.down: list[tuple[float, float]] = []
        self.changed: list[Callable[[str, str, bytes | None], None]] = []

    async def put_if_absent(self, name: str, data: bytes) -> bool:
        return await self._do("put", name, lambda: self._put(name, data))

    async def replace(self, name: str, data: bytes) -> None:
        await self._do("replace", name, lambda: self._set("replace", name, data))

    async def get(self, name: str) -> bytes | None:
        return await self._do("get", name, lambda: self.objects.get(name))

    async def delete(self, name: str) -> None:
        await self._do("delete", name, lambda: self.remove("delete", name))

    async def names(self, owner: str) -> list[str]:
        return await self._do("names", owner, lambda: sorted(n for n in self.objects if n.startswith(owner + "/")))

    async def close(self) -> None: ...

    def remove(self, what: str, name: str) -> None:
        """Take an object away: asked to, or by a fault."""
        if self.objects.pop(name, None) is not None:
            self._tell(what, name, None)

    def _put(self, name: str, data: bytes) -> bool:
        if name in self.objects:
            return False
        self._set("put", name, data)
        return True

    def _set(self, what: str, name: str, data: bytes) -> None:
        self.objects[name] = data
        self._tell(what, name, data)

    def _tell(self, what: str, name: str, data: bytes | None) -> None:
        for hear in self.changed:
            hear(what, name, data)

    async def _do(self, what: str, name: str, operation: Callable[[], T]) -> T:
        world, answer = self._world, asyncio.get_running_loop().create_future()
        caller = world.caller()

        def arrive() -> None:
            if not caller.alive and world.chance(0.5):
                return
            now = world.loop.time()
            if any(start <= now < end for start, end in self.down):
                world.fail(world.random.uniform(0.05, 2), answer, StoreUnavailable("down"))
                return
            result: Any = operation()
            if world.fault("store_lost_answers", 0.1):
                world.note("store answer lost", what, name)
                world.fail(world.latency(), answer, StoreUnavailable("no answer"))
            else:
                world.answer(world.latency(), answer, result)

        slow = world.fault("store_slow", 0.15)
        world.after(world.random.uniform(5, 20) if slow else world.latency(), arrive)
        result: T = await answer
        return result
