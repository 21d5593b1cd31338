"""Admission: while judges lag, requests wait where nobody's clock runs (DESIGN §4.1 rule 7).

A task that is sent counts its deadline from its append. Sending more than the judges can do turns into verdicts that
are `failed: expired`; a request that waits in its own topic costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from streams import metrics
from streams.clock import BrokerClock, monotonic

LAG = 0.25
"""Share of the deadline that the oldest unacknowledged task of a kind may be old before requests wait."""


class Backlog(Protocol):
    """What the transport can say of the judges' progress, from committed offsets and append times."""

    async def lags(self, before: int, *, bulk: bool) -> bool:
        """Whether some kind's oldest unacknowledged task of this lane was appended before this time, ms by the
        broker's clock.

        Where it cannot be told the answer is no: admission spares work and must hold up none.
        """
        ...


@dataclass
class Admission:
    """`every_s`: how often a lane's backlog is looked at, at most, for all its requests together."""

    backlog: Backlog
    every_s: float = 1.0
    clock: BrokerClock = field(default_factory=BrokerClock)
    _looked: dict[tuple[float, bool], tuple[float, bool]] = field(default_factory=dict, init=False)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def wait(self, deadline_s: float, wanted: Callable[[], bool], *, bulk: bool = False) -> bool:
        """Wait while judges lag in this lane, at most one deadline, and no longer than `wanted` says; returns whether
        it waited, which means that what was read before may be out of date."""
        until, waited = monotonic() + deadline_s, False
        while wanted() and monotonic() < until and await self._lags(deadline_s * LAG, bulk):
            waited = True
            with metrics.HELD_REQUESTS.labels(lane="bulk" if bulk else "main").track_inprogress():
                await asyncio.sleep(min(self.every_s, deadline_s / 10))
        return waited

    async def _lags(self, age_s: float, bulk: bool) -> bool:
        async with self._looking:
            at, lags = self._looked.get((age_s, bulk), (float("-inf"), False))
            if monotonic() - at >= min(self.every_s, age_s / 4):
                lags = await self.backlog.lags(round(self.clock.now() - age_s * 1000), bulk=bulk)
                self._looked[age_s, bulk] = monotonic(), lags
            return lags
