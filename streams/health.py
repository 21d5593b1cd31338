"""What an orchestrator and Prometheus ask a role: /live, /ready, /metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from streams.metrics import READY

Check = Callable[[], str | None]
"""None when all is well, else a sentence that says why not."""


async def serve_health(host: str, port: int, live: Check, ready: Check) -> tuple[web.AppRunner, int]:
    """Serve until the runner is cleaned up; returns it and the port (0 asks for a free one).

    Live means that work makes progress; ready means that partitions are assigned and nothing is waited for.
    Raises OSError where the port is taken.
    """

    def answer(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(_: web.Request) -> web.Response:
            problem = check()
            return web.Response(text=(problem or "ok") + "\n", status=503 if problem else 200)

        return handler

    async def metrics(_: web.Request) -> web.Response:
        READY.set(ready() is None)
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/live", answer(live)), web.get("/ready", answer(ready)), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError:
        await runner.cleanup()
        raise
    return runner, int(runner.addresses[0][1])
