"""uvicorn, held to what a door to the network needs: nobody may keep a connection without saying anything."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from glassbox.gateway.guard import HEADERS
from glassbox.gateway.limits import Limits
from glassbox.gateway.problems import MEDIA_TYPE, Problem

GRACE_S = 25
"""How long requests under way may take when the gateway is asked to stop: longer than a delivery to the broker."""
_HEAD_MAX = 32 * 1024


class Server(uvicorn.Server):
    """Serves until SIGTERM, then takes nothing new and finishes what it has begun. `listening` is told the port."""

    def __init__(self, app: Any, host: str, port: int, limits: Limits, listening: Callable[[int], object]) -> None:
        class Protocol(GuardedProtocol):
            most, head_s = limits.connections, limits.header_s

        super().__init__(
            uvicorn.Config(
                app,
                host,
                port,
                http=Protocol,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                date_header=True,
                proxy_headers=False,
                h11_max_incomplete_event_size=_HEAD_MAX,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=GRACE_S,
            )
        )

        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.startup`."""
        await super().startup(sockets)
        if self.started:
            self._listening(int(self.servers[0].sockets[0].getsockname()[1]))


class GuardedProtocol(H11Protocol):
    """`most`: connections at once, beyond which a new one is closed. `head_s`: how long a request's head may take, from
    the connection's first moment or from the end of the answer before."""

    most = 1024
    head_s = 15.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._idle():
            self._watch()  # the beginning of a head, perhaps
        else:
            self._unwatch()

    def on_response_complete(self) -> None:
        self._unwatch()  # from here the keep-alive timer counts
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP gets a problem too."""
        body = json.dumps(Problem("malformed", msg).body()).encode()
        headers = {**HEADERS, "Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), "Connection": "close"}
        lines = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        for event in (h11.Response(status_code=400, headers=lines, reason=b"Bad Request"), h11.Data(data=body)):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _watch(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.head_s, self._give_up)

    def _unwatch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if self._idle():
            self.transport.close()

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first
