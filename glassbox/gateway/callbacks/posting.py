"""One attempt to call back, over a network that may do anything."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from glassbox.gateway.callbacks.addresses import CallbackRules, Target
from judges.llm.errors import retry_after

_READ_MAX = 64 * 1024
_READ_S = 1.0
"""What is read of an answer, out of politeness: only its status counts."""

Lookup = Callable[[str, int], Awaitable[Sequence[tuple[int, str]]]]
"""Host and port -> address family and IP address, each. It raises OSError."""


@dataclass(frozen=True)
class Attempt:
    """`result`: the status that was answered, or what came before one: `timeout`, `unreachable`, `no_such_host`,
    `private_address`, `tls` … `wait_s`: how long the receiver asks to be left alone."""

    result: str
    wait_s: float | None = None

    @property
    def delivered(self) -> bool:
        return self.result.startswith("2")


def lookup_in(threads: Executor) -> Lookup:
    """By the system's resolver, in threads of its own: it may take its time, and nobody else's."""

    def ask(host: str, port: int) -> list[tuple[int, str]]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, str(address[0])) for family, _, _, _, address in found]

    async def lookup(host: str, port: int) -> Sequence[tuple[int, str]]:
        return await asyncio.get_running_loop().run_in_executor(threads, ask, host, port)

    return lookup


class _Checked(AbstractResolver):
    """Knows the addresses that were checked, and asks nobody: what a name stands for in a moment does not matter."""

    def __init__(self, addresses: Sequence[tuple[int, str]]) -> None:
        self._addresses = addresses

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[ResolveResult]:
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address, port=port, family=its, proto=0, flags=flags)
            for its, address in self._addresses
        ]

    async def close(self) -> None:
        pass


async def post(
    target: Target, headers: Mapping[str, str], body: bytes, rules: CallbackRules, limit_s: float, look: Lookup
) -> Attempt:
    """Send a body and tell what came of it. The name is looked up once; every address it has must be allowed, and to
    these alone is connected. No redirect is followed, no proxy asked, no cookie kept."""
    try:
        async with asyncio.timeout(limit_s) as limit:
            addresses = await look(target.host.strip("[]"), target.port)
            if not addresses or not all(rules.may_reach(address) for _, address in addresses):
                return Attempt("private_address")
            async with _session(addresses) as session:
                return await _exchange(session, target, headers, body, limit)
    except TimeoutError:
        return Attempt("timeout")
    except socket.gaierror:
        return Attempt("no_such_host")
    except aiohttp.ClientSSLError:
        return Attempt("tls")
    except (aiohttp.ClientError, OSError):
        return Attempt("unreachable")


def _session(addresses: Sequence[tuple[int, str]]) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=_Checked(addresses), use_dns_cache=False, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),  # the caller owns the limit
        auto_decompress=False,
        headers={"User-Agent": "GlassBox", "Accept-Encoding": "identity"},
    )


async def _exchange(
    session: aiohttp.ClientSession, target: Target, headers: Mapping[str, str], body: bytes, limit: asyncio.Timeout
) -> Attempt:
    url = URL(target.url, encoded=True)  # as it was given and checked, to the byte
    async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
        limit.reschedule(None)  # it is answered in time, however long the rest may take
        attempt = Attempt(str(response.status), retry_after(response.headers))
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(_READ_S):
                left = _READ_MAX
                while left > 0 and (part := await response.content.read(left)):
                    left -= len(part)
        return attempt
