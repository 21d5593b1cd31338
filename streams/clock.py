"""Time for decisions: the broker's, carried forward by this process's monotonic clock (DESIGN §4.1 rule 13)."""

from __future__ import annotations

import asyncio


def monotonic() -> float:
    """Seconds by the running event loop: `time.monotonic` in production, virtual time in a simulation."""
    return asyncio.get_running_loop().time()


class BrokerClock:
    """The latest append time seen plus the monotonic time since. Never ahead of the broker by more than latency."""

    def __init__(self) -> None:
        self._offset: float | None = None

    def observe(self, timestamp: int) -> None:
        """An append time (ms) seen on a record or on an acknowledgement of our own message."""
        offset = timestamp - monotonic() * 1000
        if self._offset is None or offset > self._offset:
            self._offset = offset

    def now(self) -> float:
        """Milliseconds since 1970 by the broker's clock, as far as this process can know; 0 before any record."""
        return 0.0 if self._offset is None else self._offset + monotonic() * 1000
