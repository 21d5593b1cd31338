"""Bounds: how much may be in memory at once, and how often one key may ask."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from glassbox.gateway import metrics
from glassbox.gateway.problems import Problem


@dataclass(frozen=True)
class Limits:
    """`in_flight_bytes`, `in_flight_requests`: what may be on its way through this process; more is refused at once.
    `body_s`: how long a body, or a line of a batch, may take. `header_s`: how long a request's head may.
    `streams`: followers of events; each is ended after `stream_s` seconds, to come back with what it has seen.
    `trace_settle_s`, `trace_quiet_s`: how long more of a trace is waited for (`otlp.holding.Patience`); what waits has
    as many bytes as `in_flight_bytes` again."""

    in_flight_bytes: int = 64 * 1024 * 1024
    in_flight_requests: int = 256
    connections: int = 1024
    body_s: float = 30.0
    header_s: float = 15.0
    batch_lines: int = 10_000
    streams: int = 128
    stream_s: float = 900.0
    trace_settle_s: float = 10.0
    trace_quiet_s: float = 120.0


class Held:
    """Bytes of one request that are in memory."""

    def __init__(self, bytes_: InFlightBytes) -> None:
        self._bytes, self.size = bytes_, 0

    def grow(self, size: int) -> None:
        """Raises `Problem` where there is no room."""
        self._bytes.take(size)
        self.size += size

    def shrink(self, size: int) -> None:
        self._bytes.give_back(size)
        self.size -= size


class InFlightBytes:
    """Request bodies between their first byte and the broker's acknowledgement. Nobody waits here: who finds no room
    is told so before anything of the body is read."""

    def __init__(self, most: int) -> None:
        self._most, self._taken = most, 0

    def take(self, size: int) -> None:
        if self._taken + size > self._most:
            raise Problem("too_busy", "the gateway holds as many bytes as it may; try again", headers=CLOSE)
        self._taken += size
        metrics.IN_FLIGHT_BYTES.set(self._taken)

    def give_back(self, size: int) -> None:
        self._taken -= size
        metrics.IN_FLIGHT_BYTES.set(self._taken)

    @contextmanager
    def held(self) -> Iterator[Held]:
        held = Held(self)
        try:
            yield held
        finally:
            self.give_back(held.size)


CLOSE = {"Connection": "close"}
"""For answers given before the body was read: the rest of it is not waited for."""


class Rates:
    """Token buckets by key: `rate` a second on average, twice as many at once."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str, rate: float | None, now: float | None = None) -> None:
        """Raises `Problem` where the bucket is empty. `now`: seconds of a monotonic clock."""
        if rate is None:
            return
        now = time.monotonic() if now is None else now
        most = max(1.0, 2 * rate)
        level, at = self._buckets.get(key, (most, now))
        level = min(most, level + (now - at) * rate)
        if level < 1:
            wait = (1 - level) / rate
            self._buckets[key] = level, now
            raise Problem("rate_limited", f"at most {rate:g} a second", headers={"Retry-After": str(int(wait) + 1)})
        self._buckets[key] = level - 1, now
