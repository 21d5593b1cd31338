"""What every request passes through: its trace, a bound on how many are answered at once, security headers, metrics,
and a plain word where the gateway itself fails."""

from __future__ import annotations

import logging
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassbox.gateway import metrics
from glassbox.gateway.limits import CLOSE
from glassbox.gateway.problems import Problem
from streams import tracing

log = logging.getLogger("glassbox.gateway")

EVENTS_PATH = "/v1/events"
"""Followers stay for minutes, so they are counted apart."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer that says nothing else. No CORS header is ever sent: pages of other sites read nothing here."""


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most, self._now = app, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        came = tracing.received(headers.getlist("traceparent"), headers.getlist("tracestate"))
        with tracing.serving(_method(scope), scope["scheme"], came) as answered:
            answered(*await self._answer(scope, receive, _Answer(send)))

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> tuple[str, int]:
        """The route and the status of what was answered."""
        counted = scope["path"] != EVENTS_PATH
        started = time.monotonic()
        self._now += counted
        metrics.IN_FLIGHT_REQUESTS.set(self._now)
        try:
            if self._now > self._most:
                problem = Problem("too_busy", "as many requests are answered as may be; try again", headers=CLOSE)
                await problem.response()(scope, receive, answer)
            else:
                await self._app(scope, receive, answer)
        except ClientDisconnect:
            answer.status = 499  # as proxies count it: nobody is there to hear
        except Exception as error:
            # only its kind and place: the message of an error may quote what was being read
            log.error("%s failed: %s at %s", scope["path"].split("/")[1:3], type(error).__name__, _place(error))
            if not answer.status:
                await Problem("failed", "the operator finds the reason in the log").response()(scope, receive, answer)
        finally:
            self._now -= counted
            metrics.IN_FLIGHT_REQUESTS.set(self._now)
            route, status = getattr(scope.get("route"), "path", "none"), answer.status or 499
            metrics.REQUESTS.labels(route=route, method=_method(scope), status=str(status)).inc()
            metrics.SECONDS.labels(route=route).observe(time.monotonic() - started)
        return route, status


class _Answer:
    """Passes an answer on with the security headers, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self._send, self.status = send, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"


def _place(error: BaseException) -> str:
    trace: Any = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
