"""How many tasks a process works on at once, shared between the lanes so that neither can keep the other waiting."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

_SPARED = 16
"""One place of so many, and at least one of several, the bulk lane leaves free for a task of the main lane."""
_TURN = 8
"""While both lanes wait, the bulk lane has every so-manieth place: it is slowed down, never stopped."""


@dataclass(eq=False, slots=True)
class _Waiting:
    bulk: bool
    alone: bool
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Slots:
    """`size` places. The bulk lane gets nearly all of them while nothing else wants one, and a task of the main lane
    still finds one free. A task that must run alone gets all, and nothing begins while it waits for them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._spared = max(1, size // _SPARED) if size > 1 else 0
        self._held = {False: 0, True: 0}  # by lane: is it the bulk lane
        self._since_bulk = 0
        self._waiting: list[_Waiting] = []  # one a lane at most, as lanes read one record after another

    @property
    def held(self) -> int:
        """Places that are taken."""
        return sum(self._held.values())

    async def take(self, *, bulk: bool = False, alone: bool = False) -> None:
        """Wait for a place, or for all of them."""
        waiting = _Waiting(bulk, alone)
        self._waiting.append(waiting)
        self._grant()
        try:
            await waiting.granted
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self._grant()
            else:
                self.give_back(bulk=bulk, alone=alone)
            raise

    def give_back(self, *, bulk: bool = False, alone: bool = False) -> None:
        """What `take` was asked for with the same arguments."""
        self._held[bulk] -= self.size if alone else 1
        self._grant()

    def _grant(self) -> None:
        while (chosen := self._next()) is not None:
            self._waiting.remove(chosen)
            self._held[chosen.bulk] += self.size if chosen.alone else 1
            self._since_bulk = 0 if chosen.bulk else self._since_bulk + 1
            chosen.granted.set_result(None)

    def _next(self) -> _Waiting | None:
        waiting = [each for each in self._waiting if not each.granted.done()]  # one that is done was cancelled
        if alone := next((each for each in waiting if each.alone), None):
            return alone if self.held == 0 else None
        free = self.size - self.held
        if not free:
            return None
        lanes = {each.bulk: each for each in reversed(waiting)}  # the first of each
        main, bulk = lanes.get(False), lanes.get(True)
        if main is None:
            return bulk if free > self._spared or not self._held[True] else None
        return bulk if bulk is not None and self._since_bulk >= _TURN - 1 else main
