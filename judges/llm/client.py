"""The one way to a model: an OpenAI-compatible endpoint, with limits on time and on calls in flight."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from judges.llm.endpoint import Endpoint
from judges.llm.errors import EndpointError, status_error
from judges.llm.session import Session
from judges.llm.transport import ShardedTransport
from judges.port import ResponseCache

MARGIN_S = 0.1


@dataclass
class ClientStats:
    """Counts since the start. `retries`: by the cause that made them necessary; `cache_hits`: asks answered without
    a call; `peak`: the most calls ever in flight at once."""

    calls: int = 0
    in_flight: int = 0
    peak: int = 0
    cache_hits: int = 0
    retries: Counter[str] = field(default_factory=Counter)


class EndpointClient:
    """Shared by all judges of a process; each evaluation asks through a `session` of its own."""

    def __init__(self, endpoint: Endpoint, *, jitter: Callable[[], float] = random.random) -> None:
        from openai import AsyncOpenAI

        self.endpoint, self.jitter, self.stats = endpoint, jitter, ClientStats()
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._openai = AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",
            max_retries=0,
            timeout=None,  # `post` owns the limits
            http_client=httpx.AsyncClient(
                transport=ShardedTransport(endpoint.concurrency, endpoint.base_url),
                timeout=None,  # noqa: S113
            ),
        )

    def session(self, deadline: float, cache: ResponseCache | None = None) -> Session:
        """What one evaluation asks of the endpoint. `deadline`: `time.monotonic()` seconds; the session gives up
        `MARGIN_S` before it, so that its judge can still say which part failed."""
        return Session(self, deadline - MARGIN_S, cache)

    async def post(self, path: str, body: Mapping[str, Any], deadline: float) -> bytes:
        """One call, once: the response's body. A call waits for its slot until `deadline`, then may take
        `call_limit_s` of what is left. Raises `EndpointError` for everything that is not a 2xx response."""
        from openai import APIConnectionError, APIStatusError

        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise EndpointError("timeout", "the deadline has passed", final=True)
        try:
            async with asyncio.timeout(remaining), self._slots:
                async with asyncio.timeout(self.endpoint.call_limit_s):
                    self.stats.calls += 1
                    self.stats.in_flight += 1
                    self.stats.peak = max(self.stats.peak, self.stats.in_flight)
                    try:
                        response = await self._openai.post(path, cast_to=httpx.Response, body=body)
                    finally:
                        self.stats.in_flight -= 1
            return response.content
        except TimeoutError:
            raise EndpointError("timeout", "no answer from the endpoint in time") from None
        except APIStatusError as error:
            raise status_error(error.status_code, error.response.headers) from None
        except APIConnectionError as error:
            reason = type(error.__cause__ or error).__name__
            raise EndpointError("unavailable", f"the endpoint cannot be reached ({reason})") from None

    async def close(self) -> None:
        await self._openai.close()
