"""A batch: lines in, an outcome for each out, in their order, while both go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from glassbox.gateway import bodies, metrics
from glassbox.gateway.limits import CLOSE, Held, InFlightBytes, Limits
from glassbox.gateway.problems import Problem
from glassbox.gateway.shapes import Accepted, LineOutcome

_AT_ONCE = 64
"""Lines of one batch that wait for the broker together."""

Accept = Callable[[bytes], Awaitable[Accepted]]


class Streamed(Response):
    """An answer that is made while the body still comes in. (Starlette's own would read the body away, to learn whether
    the client is still there.)"""

    def __init__(self, content: AsyncIterator[bytes], media_type: str) -> None:
        # a body that was left unread where it went wrong must not be taken for the next request
        super().__init__(headers=CLOSE, media_type=media_type)
        del self.headers["content-length"]
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for part in self._content:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def outcomes(request: Request, held_bytes: InFlightBytes, limits: Limits, accept: Accept) -> AsyncIterator[bytes]:
    """JSON lines of `LineOutcome`. Where the body ends badly the last line says so, with the number of the line that
    was not read. Lines are counted as they stand in the body; a blank one has no outcome.

    The body is read on whether or not the client reads what it is answered: some send everything first. What waits
    for such a client is a short line each, `batch_lines` at most.
    """
    waiting: asyncio.Queue[asyncio.Task[LineOutcome] | None] = asyncio.Queue()
    with held_bytes.held() as held:
        reading = asyncio.create_task(_read(request, held, limits, accept, waiting))
        try:
            while (task := await waiting.get()) is not None:
                outcome = await task
                yield outcome.model_dump_json(exclude_none=True).encode() + b"\n"
            await reading
        finally:
            reading.cancel()


async def _read(
    request: Request,
    held: Held,
    limits: Limits,
    accept: Accept,
    waiting: asyncio.Queue[asyncio.Task[LineOutcome] | None],
) -> None:
    slots, number, taken = asyncio.Semaphore(_AT_ONCE), 0, 0
    try:
        async for line in bodies.lines(request, held, limits.body_s):
            number += 1
            if line == b"":
                continue
            taken += 1
            if taken > limits.batch_lines:
                problem = Problem("too_large", f"at most {limits.batch_lines} lines a batch; the rest was not read")
                waiting.put_nowait(_done(number, problem))
                return
            await slots.acquire()
            if line is None:
                waiting.put_nowait(_done(number, Problem("too_large", "the line is larger than a request may be")))
                slots.release()
                continue
            held.grow(len(line))
            task = asyncio.create_task(_one(number, line, held, accept))
            task.add_done_callback(lambda _: slots.release())
            waiting.put_nowait(task)
    except Problem as problem:  # too slow, or no room
        waiting.put_nowait(_done(number + 1, problem))
    finally:
        waiting.put_nowait(None)


async def _one(number: int, line: bytes, held: Held, accept: Accept) -> LineOutcome:
    try:
        accepted = await accept(line)
    except Problem as problem:
        return _refused(number, problem)
    finally:
        held.shrink(len(line))
    return LineOutcome(line=number, status=202, evaluation_id=accepted.evaluation_id, status_url=accepted.status_url)


def _refused(number: int, problem: Problem) -> LineOutcome:
    metrics.REJECTED.labels(reason=problem.code).inc()
    return LineOutcome(line=number, status=problem.status, problem=problem.body())


def _done(number: int, problem: Problem) -> asyncio.Task[LineOutcome]:
    async def refused() -> LineOutcome:
        return _refused(number, problem)

    return asyncio.create_task(refused())
