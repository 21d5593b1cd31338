"""Waiting for the evidence store: its trouble is nobody's verdict (DESIGN §4.1 rule 5)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ledger.port import StoreUnavailable
from streams import metrics
from streams.clock import monotonic

T = TypeVar("T")


async def patiently(operation: Callable[[], Awaitable[T]], until: float | None = None) -> T:
    """Run a store operation and repeat it while the store does not answer.

    `until`: seconds of `clock.monotonic` after which `StoreUnavailable` is let through; None waits for ever.
    """
    delay = 0.05
    while True:
        try:
            return await operation()
        except StoreUnavailable:
            metrics.STORE_TROUBLE.inc()
            if until is not None and monotonic() + delay > until:
                raise
            await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 — jitter, not a secret
            delay = min(delay * 2, 5.0)
