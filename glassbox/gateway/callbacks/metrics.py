"""Prometheus metrics of callbacks; never by address."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

ATTEMPTS = Counter("glassbox_callback_attempts", "Attempts to call back, by what came of them", ["result"])
DELIVERED = Counter("glassbox_callback_delivered", "Callbacks that were taken in (2xx)")
FAILED = Counter("glassbox_callback_failed", "Callbacks that were given up, by the last attempt", ["result"])
for _result in ("3xx", "4xx", "5xx", "no_key", "not_allowed", "private_address", "timeout", "unreachable"):
    FAILED.labels(result=_result)  # a rate cannot see the first of a series that was not there before
PENDING = Gauge("glassbox_callback_pending", "Callbacks that are still to be delivered")
SECONDS = Histogram(
    "glassbox_callback_seconds", "Time that an attempt took", buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
)
