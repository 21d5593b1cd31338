"""The one way to a model: an OpenAI-compatible endpoint, with limits on time and on calls in flight.

aiohttp, because on fast local endpoints the client is what costs: 0.9 ms CPU a call here against 3.0 ms with the openai
package, whose connection pool is also quadratic in the calls in flight.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import aiohttp

from judges.llm.dialect import adapt, asks_the_offline_model, refused_parameter
from judges.llm.endpoint import Endpoint, environment_proxy
from judges.llm.errors import EndpointError, UnsupportedParameter, retry_after, status_error
from judges.llm.fence import Fence
from judges.llm.session import Session
from judges.port import ResponseCache

MARGIN_S = 0.1

KEEP_ALIVE_S = 4.0
"""Idle connections are dropped before the server does it (uvicorn: after 5 s), or a call would meet a closed one."""

PAUSE_CAP_S = 30.0
"""One refusal makes the calls of others wait this long at most, whatever the endpoint asked for."""

MAX_RESPONSE = 64 * 1024 * 1024
"""Longest response that is read, in bytes."""

_PARAMETER_REFUSED = (400, 422)
_OFFLINE = "the offline model answers only GlassBox's own questions; this one needs a configured endpoint"


@dataclass
class ClientStats:
    """Counts since the start. `failures`: by cause, of calls without an answer that could be used, and `retries`
    those that were made again; `answers`: asks that got one, and `cache_hits` those of them without a call; `peak`:
    the most calls ever in flight at once; the tokens are those of every answer that arrived, used or not."""

    calls: int = 0
    in_flight: int = 0
    peak: int = 0
    answers: int = 0
    cache_hits: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)


class EndpointClient:
    """Shared by all judges of a process; each evaluation asks through a `session` of its own. `fence` encloses what
    is judged; `fence_key` is the id key."""

    def __init__(
        self, endpoint: Endpoint, fence_key: bytes = b"", *, jitter: Callable[[], float] = random.random
    ) -> None:
        self.endpoint, self.jitter, self.stats = endpoint, jitter, ClientStats()
        self.fence = Fence(fence_key)
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._proxy = environment_proxy(endpoint.base_url)
        self._http: aiohttp.ClientSession | None = None
        self._refused: set[str] = set()
        self._paused_until = 0.0

    def session(self, deadline: float, cache: ResponseCache | None = None) -> Session:
        """What one evaluation asks of the endpoint. `deadline`: `time.monotonic()` seconds; the session gives up
        `MARGIN_S` before it, so that its judge can still say which part failed."""
        return Session(self, deadline - MARGIN_S, cache)

    async def ask(self, path: str, body: Mapping[str, Any], deadline: float) -> tuple[bytes, tuple[str, ...]]:
        """`post`, adapted to what the endpoint takes: the response's body, and which parameters were adapted. What it
        refuses once (`dialect`) is not sent again in this client's life."""
        while True:
            refused = frozenset(self._refused)
            try:
                response = await self.post(path, adapt(body, refused), deadline)
            except UnsupportedParameter as error:
                if error.parameter in refused or error.parameter not in body:
                    raise
                self._refused.add(error.parameter)
            else:
                return response, tuple(sorted(refused & body.keys()))

    async def post(self, path: str, body: Mapping[str, Any], deadline: float) -> bytes:
        """One call, once: the response's body. A call waits for its slot until `deadline`, then may take
        `call_limit_s` of what is left. Where the endpoint asked any call to wait (429 with Retry-After), all do.
        Raises `EndpointError` for everything that is not a 2xx response."""
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise EndpointError("timeout", "the deadline has passed", final=True)
        data = json.dumps(body, ensure_ascii=False).encode()
        try:
            async with asyncio.timeout(remaining):
                while True:
                    await self._unpaused(deadline)
                    async with self._slots:
                        if self._pause() > 0:  # begun while this call waited for its slot
                            continue
                        async with asyncio.timeout(self.endpoint.call_limit_s):
                            return await self._exchange(path, data)
        except TimeoutError:
            raise EndpointError("timeout", "no answer from the endpoint in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointError("unavailable", f"the endpoint cannot be reached ({type(error).__name__})") from None

    def _pause(self) -> float:
        return self._paused_until - time.monotonic()

    async def _unpaused(self, deadline: float) -> None:
        while (pause := self._pause()) > 0:
            if time.monotonic() + pause >= deadline:
                raise EndpointError("rate_limited", "the endpoint asks to wait past the deadline", final=True)
            await asyncio.sleep(pause)

    async def _exchange(self, path: str, data: bytes) -> bytes:
        stats = self.stats
        stats.calls += 1
        stats.in_flight += 1
        stats.peak = max(stats.peak, stats.in_flight)
        try:
            # A redirect would carry the key and the texts to an address that nobody configured.
            async with self._connected().post(
                self.endpoint.base_url.rstrip("/") + path, data=data, proxy=self._proxy, allow_redirects=False
            ) as response:
                if response.status >= 300:
                    await self._refusal(response)
                return await _read(response)
        finally:
            stats.in_flight -= 1

    async def _refusal(self, response: aiohttp.ClientResponse) -> NoReturn:
        if response.status == 429 and (wait := retry_after(response.headers)):
            self._paused_until = max(self._paused_until, time.monotonic() + min(wait, PAUSE_CAP_S))
        if response.status in _PARAMETER_REFUSED:
            body = await _read(response)
            if asks_the_offline_model(body):
                raise EndpointError("refused", _OFFLINE, final=True)
            if name := refused_parameter(body):
                raise UnsupportedParameter(response.status, name)
        raise status_error(response.status, response.headers)

    def _connected(self) -> aiohttp.ClientSession:
        """Made at the first call, because aiohttp binds it to the running loop."""
        if self._http is None:
            headers = {"Content-Type": "application/json"}
            if self.endpoint.api_key:
                headers["Authorization"] = f"Bearer {self.endpoint.api_key}"
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),  # the slots are the limit
                timeout=aiohttp.ClientTimeout(total=None),  # `post` owns the limits
                headers=headers,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._http

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body. Raises `EndpointError` (malformed_output) for one over `MAX_RESPONSE`, before it is in memory."""
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > MAX_RESPONSE:
            raise EndpointError("malformed_output", f"a response of more than {MAX_RESPONSE} bytes", final=True)
    return bytes(body)
