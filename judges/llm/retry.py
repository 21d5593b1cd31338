"""When to ask again: the one place of retries, as a pure decision."""

from __future__ import annotations

from judges.llm.errors import EndpointError

FIRST_S = 0.5
CAP_S = 20.0
"""Backoff in seconds: FIRST_S doubles with each failure up to CAP_S; jitter takes up to half of it away."""

ANSWERED = frozenset(("malformed_output", "count_mismatch", "no_question", "bad_embedding", "truncated"))
"""Causes found in an answer that did arrive: asked again at once, as the next sample."""

_RETRIES = {"rate_limited": 8, "unavailable": 5, "timeout": 2}


def retry_delay(
    error: EndpointError, failures: int, *, remaining_s: float, call_limit_s: float, jitter: float
) -> float | None:
    """Seconds to wait before asking again, or None to give up.

    `failures`: how often this call has failed for a cause of the same group (answers that could not be used are one
    group), this time included. `remaining_s`: until the deadline. `jitter` in [0, 1]. A retry must leave room for a
    whole call before the deadline; a wait that the endpoint asked for is never cut short.
    """
    limit = 1 if error.cause in ANSWERED else _RETRIES.get(error.cause, 0)
    if error.final or failures > limit:
        return None
    delay = 0.0
    if error.cause not in ANSWERED:
        delay = min(FIRST_S * 2 ** (failures - 1), CAP_S) * (1 - jitter / 2)
        delay = max(delay, error.retry_after_s or 0.0)
    return delay if delay + call_limit_s <= remaining_s else None


def group(cause: str) -> str:
    """The causes that share one budget of retries."""
    return "answered" if cause in ANSWERED else cause
