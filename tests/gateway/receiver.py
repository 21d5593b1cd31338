"""Somebody who is called back, on a real connection; and who calls, also as a process that may be killed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any

from aiohttp import web

from glassbox.catalogue.callbacks import CallbackQueue
from glassbox.catalogue.database import Database
from glassbox.catalogue.reading import Catalogue
from glassbox.gateway.callbacks.addresses import CallbackRules, allowed_hosts
from glassbox.gateway.callbacks.asking import Callbacks
from glassbox.gateway.callbacks.keys import CallbackKeyFile, CallbackKeys
from glassbox.gateway.callbacks.posting import Lookup
from glassbox.gateway.callbacks.sending import Patience, Sender

PAGE = Path(__file__).parent.parent.parent / "docs" / "gateway.md"
QUICK = Patience(attempts=10, first_s=0.02, factor=1.0, limit_s=30.0)


def documented() -> Callable[[str, Mapping[str, str], bytes, set[str]], bool]:
    """The check that the page tells receivers to make."""
    (code,) = re.findall(r"```python\n(import base64.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 — our own page
    check: Callable[[str, Mapping[str, str], bytes, set[str]], bool] = names["take_in"]
    return check


@dataclass
class Call:
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


Answer = int | str | None
DRIPPING = 0
"""An answer whose status comes and whose body does not."""


@dataclass
class Receiver:
    """`answers`: what comes next, a status, a redirect's target, or None for nothing at all; 200 when they are used
    up."""

    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/take?token=sesame"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(Call(request.headers, await request.read()))
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, str):
            return web.Response(status=307, headers={"Location": answer})
        if answer is None:
            await self.over.wait()
        if answer == DRIPPING:
            dripping = web.StreamResponse(headers={"Content-Length": "1000"})
            await dripping.prepare(request)
            await self.over.wait()
            return dripping
        return web.Response(status=answer or 500, text="x" * 300_000)

    async def called(self, times: int) -> list[Call]:
        async with asyncio.timeout(60):
            while len(self.calls) < times:
                await asyncio.sleep(0.01)
        return self.calls


def offering(folder: Path, hosts: str = "hooks.example", tenant: str | None = None) -> Callbacks:
    """A gateway's: these hosts, and this tenant has a secret."""
    file = CallbackKeyFile(folder / "callback-keys.json")
    file.create(tenant)
    return Callbacks(CallbackRules(allowed_hosts(hosts)), CallbackKeys(file))


@asynccontextmanager
async def receiving(*answers: Answer, port: int = 0, tls: SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(answers=list(answers))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        assert site._server is not None
        receiver.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        yield receiver
    finally:
        receiver.over.set()
        await runner.cleanup()


def local(*ports: int) -> CallbackRules:
    """Rules under which these ports of this machine may be called without TLS."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return CallbackRules(allowed_hosts(hosts), allow_http=True, allow_private=True)


def sender(
    queue: CallbackQueue,
    database: Database,
    keys: Path,
    rules: CallbackRules,
    patience: Patience = QUICK,
    look: Lookup | None = None,
) -> Sender:
    return Sender(queue, Catalogue(database), CallbackKeys(CallbackKeyFile(keys)), rules, patience, look)


@asynccontextmanager
async def sending(database: Database, *args: Any, **more: Any) -> AsyncIterator[None]:
    """While it runs, who is due is called."""
    stop = asyncio.Event()
    running = asyncio.create_task(sender(CallbackQueue(database), database, *args, **more).run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


if __name__ == "__main__":
    catalogue = Database(sys.argv[1])
    soon = CallbackQueue(catalogue, lease_ms=1500)
    asyncio.run(sender(soon, catalogue, Path(sys.argv[2]), local(int(sys.argv[3]))).run(asyncio.Event()))
