"""Time for decisions: the broker's, carried forward by this process's monotonic clock (DESIGN §4.1 rule 13)."""

from __future__ import annotations

import asyncio


def monotonic() -> float:
    """Seconds by the running event loop: `time.monotonic` in production, virtual time in a simulation."""
    return asyncio.get_running_loop().time()


class BrokerClock:
    """The broker's clock as append times tell of it: a record was appended before it was read, a message of our own
    between its sending and its acknowledgement. So records carry this clock forward, and an acknowledgement also takes
    it back, where the broker's had jumped ahead and was set right: else every task would be late from then on."""

    def __init__(self) -> None:
        self._offset: float | None = None

    def observe(self, timestamp: int) -> None:
        """The append time (ms) of a record that was read: no less than that is it now."""
        earliest = timestamp - monotonic() * 1000
        self._offset = earliest if self._offset is None else max(self._offset, earliest)

    def acknowledged(self, timestamp: int, sent: float) -> None:
        """The append time (ms) of a message of our own that was handed over at `sent` by `monotonic`: no less than
        that is it now, and no more than that with the time since."""
        self.observe(timestamp)
        assert self._offset is not None
        self._offset = min(self._offset, timestamp - sent * 1000)

    def now(self) -> float:
        """Milliseconds since 1970 by the broker's clock, as far as this process can know; 0 before any record."""
        return 0.0 if self._offset is None else self._offset + monotonic() * 1000
