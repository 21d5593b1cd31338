"""Server-sent events (WHATWG HTML §9.2): evaluations as they are committed, gone on with after a break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from glassbox.catalogue.reading import Summary
from glassbox.gateway import metrics
from glassbox.gateway.limits import Limits
from glassbox.gateway.problems import Problem
from glassbox.gateway.shapes import of_summary

_LOOK_S = 0.5
_PING_S = 15.0
_BATCH = 100


class Committed(Protocol):
    """The part of the catalogue that followers read; each call may take a while and may raise
    `CatalogueUnavailable`."""

    async def newest_seq(self) -> int: ...

    async def committed_since(self, tenant: str, seq: int, limit: int) -> list[tuple[int, Summary]]: ...


class Followers:
    """All open streams. One look at the catalogue tells all of them whether there is anything new."""

    def __init__(self, committed: Committed, limits: Limits, stopping: Callable[[], bool]) -> None:
        self._committed, self._limits, self._stopping = committed, limits, stopping
        self._open = 0
        self._newest, self._looked_at = 0, 0.0
        self._looking = asyncio.Lock()

    async def begin(self, last_event_id: int | None) -> int:
        """The number after which a new stream goes on: the one that its reader has seen last, or what is newest now.
        Raises `Problem` where there are streams enough."""
        if self._open >= self._limits.streams:
            raise Problem("too_busy", f"at most {self._limits.streams} followers; try again later")
        return await self._committed.newest_seq() if last_event_id is None else last_event_id

    async def stream(self, tenant: str, seq: int) -> AsyncIterator[str]:
        """The text of the stream, until its time is over or the gateway stops. Its reader comes back by itself, with
        the number of the last event."""
        self._open += 1
        metrics.STREAMS.set(self._open)
        end = time.monotonic() + self._limits.stream_s
        spoke, seen = time.monotonic(), -1
        try:
            yield "retry: 2000\n\n"
            while not self._stopping() and time.monotonic() < end:
                newest = await self._look()
                if newest > seen:
                    found = await self._committed.committed_since(tenant, seq, _BATCH)
                    for seq, item in found:
                        yield _event(seq, item)
                    if found:
                        spoke = time.monotonic()
                    if len(found) == _BATCH:
                        continue
                    seen = newest
                if time.monotonic() - spoke > _PING_S:
                    yield ": still here\n\n"
                    spoke = time.monotonic()
                await asyncio.sleep(_LOOK_S)
        finally:
            self._open -= 1
            metrics.STREAMS.set(self._open)

    async def _look(self) -> int:
        """The newest number, asked for at most once in half a second whoever wants it."""
        async with self._looking:
            if time.monotonic() - self._looked_at >= _LOOK_S:
                self._newest = await self._committed.newest_seq()
                self._looked_at = time.monotonic()
        return self._newest


def _event(seq: int, item: Summary) -> str:
    return f"id: {seq}\nevent: scorecard\ndata: {of_summary(item).model_dump_json()}\n\n"
