"""Exports in, evaluation requests out: at once where a trace is whole, in a while where more of it may come."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from glassbox.gateway import bodies, metrics
from glassbox.gateway.accepting import Acceptor
from glassbox.gateway.callers import Caller
from glassbox.gateway.limits import CLOSE, InFlightBytes, Limits, Rates
from glassbox.gateway.otlp import decoding
from glassbox.gateway.otlp.holding import Full, HeldTrace, Holding, Key, Patience
from glassbox.gateway.otlp.traces import LACKS, Node, Spans, Whole, judged, node, whole
from glassbox.gateway.problems import Problem

T = TypeVar("T")
log = logging.getLogger("glassbox.gateway")

MAX_EXPORT = 8 * 1024 * 1024
"""Largest export, in bytes, before and after it is inflated."""
MAX_TRACE = 10_000
"""Spans of one trace."""

_AT_ONCE = 64
"""Requests that wait for the broker together."""
_END_S = 20.0
"""How long the end of the process may wait for the broker."""
_AGAIN_S = 5.0
"""After the broker was away."""
_FINAL = ("accepted", "too_many_spans", "failed")
"""Outcomes that more spans change nothing of; after another the trace may come again, whole."""
_TRY_AGAIN = (429, 503)
"""Statuses after which exporters send the same again."""


class Verdicts:
    """What an export, or what was held, came to: spans that were refused, and traces by reason."""

    def __init__(self) -> None:
        self.spans = 0
        self._traces: Counter[str] = Counter()
        self._details: dict[str, str] = {}

    def refuse(self, reason: str, detail: str, spans: int) -> None:
        self.spans += spans
        self.remark(reason, detail)

    def remark(self, reason: str, detail: str, times: int = 1) -> None:
        self._traces[reason] += times
        self._details.setdefault(reason, detail)

    def add(self, other: Verdicts) -> None:
        """What was decided before; its spans were answered for then."""
        for reason, times in other._traces.items():
            self.remark(reason, other._details[reason], times)

    def __str__(self) -> str:
        """Sentences that name what is missing; nothing of a span is quoted."""
        return "; ".join(f"{times} x {reason}: {self._details[reason]}" for reason, times in self._traces.items())


class TracesDoor:
    """The spans of one gateway. Spans that are held are in memory only: see docs/gateway.md for what that means."""

    def __init__(self, acceptor: Acceptor, rates: Rates, limits: Limits, held_bytes: InFlightBytes) -> None:
        self._acceptor, self._rates, self._limits, self._bytes = acceptor, rates, limits, held_bytes
        self._holding = Holding(limits.in_flight_bytes, Patience(limits.trace_settle_s, limits.trace_quiet_s))
        # one at a time: what a body becomes when it is read is many times as large
        self._reader = ThreadPoolExecutor(1, "otlp")
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._busy: set[Key] = set()
        self._before: defaultdict[str, Verdicts] = defaultdict(Verdicts)
        self._looking: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    async def answer(self, request: Request, caller: Caller) -> Response:
        """Take an export. Raises `Problem`; then nothing that the exporter has to send again was lost."""
        kind, is_gzip = _form(request)
        with self._bytes.held() as held:
            raw = await bodies.whole(request, held, self._limits.body_s, MAX_EXPORT, "send fewer at a time")
            found, damaged = await self._read(_nodes, raw, is_gzip, kind)
            held.grow(sum(each.size for each in found))
            verdicts = await self._take(found, caller)
        if damaged:
            verdicts.refuse("malformed_span", "ids that are not 16 bytes (trace) and 8 bytes (span, parent)", damaged)
        return Response(decoding.response(verdicts.spans, str(verdicts), kind), media_type=kind)

    async def conclude(self) -> None:
        """What is held is judged from what is there, as nothing more will come. For the end of the process."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await self._conclude_all(self._holding.all())
        if len(self._holding):
            log.error("%d traces that waited for more spans could not be handed to the broker", len(self._holding))
        self._reader.shutdown()

    async def _read(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work, *arguments)

    async def _take(self, nodes: list[Node], caller: Caller) -> Verdicts:
        metrics.SPANS.inc(len(nodes))
        verdicts, tenant = Verdicts(), caller.tenant or ""
        new: defaultdict[Key, dict[str, Node]] = defaultdict(dict)
        for each in nodes:
            new[tenant, each.trace_id].setdefault(each.span_id, each)
        ready: dict[Key, Spans] = {}
        waiting: dict[Key, Spans] = {}
        for key, spans in new.items():
            if self._holding.is_concluded(key):
                verdicts.remark("late", "spans of traces that were judged before are left out")
                metrics.TRACES.labels(outcome="late").inc()
                continue
            together = self._holding.with_held(key, spans)
            if len(together) > MAX_TRACE or whole(together) is Whole.WHOLE:
                ready[key] = together
            else:
                waiting[key] = spans
        try:
            self._holding.hold(waiting, caller, time.monotonic())
        except Full:
            raise Problem("too_busy", "as many spans wait for the rest of their traces as may; try again") from None
        self._look()
        await self._each(ready, lambda key: self._ready(key, ready[key], len(new[key]), caller, verdicts))
        if (before := self._before.pop(tenant, None)) is not None:
            verdicts.add(before)
        return verdicts

    async def _each(self, keys: Iterable[Key], work: Callable[[Key], Awaitable[None]]) -> None:
        """All of them; only then is the first problem raised."""

        async def one(key: Key) -> None:
            async with self._slots:
                self._busy.add(key)
                try:
                    await work(key)
                finally:
                    self._busy.discard(key)

        for outcome in await asyncio.gather(*map(one, keys), return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _conclude_all(self, traces: Iterable[tuple[Key, HeldTrace]]) -> None:
        """Those that nobody is about to conclude. What the broker does not take now is due again. Raises nothing."""
        held = dict(traces)

        async def one(key: Key) -> None:
            try:
                lack = await self._submit(key, dict(held[key].spans), held[key].caller)
            except Problem:
                self._holding.again(key, time.monotonic() + _AGAIN_S)
            except Exception as error:  # its message may quote a span
                log.error("a trace that waited for more spans was dropped: %s", type(error).__name__)
                self._drop(key, "failed")
            else:
                if lack is not None:
                    self._before[key[0]].remark(*lack)

        for key in held.keys() & self._busy:
            self._holding.again(key, time.monotonic() + _AGAIN_S)
        await self._each(held.keys() - self._busy, one)

    async def _ready(self, key: Key, spans: Spans, new: int, caller: Caller, verdicts: Verdicts) -> None:
        lack = await self._submit(key, spans, caller)
        if lack is not None:
            verdicts.refuse(*lack, new)

    async def _submit(self, key: Key, spans: Spans, caller: Caller) -> tuple[str, str] | None:
        """Conclude a trace. None: the broker has its request (or there is nothing in it to judge); else the reason and
        the sentence why there is none. Raises `Problem` where it is to be tried again; the trace is as it was then."""
        found = await self._read(judged, spans) if len(spans) <= MAX_TRACE else "too_many_spans"
        lack: tuple[str, str] | None = None
        if isinstance(found, str):
            lack = found, LACKS[found]
        elif found is not None:
            self._rates.take(caller.name, caller.rate)
            carrier = {"traceparent": f"00-{key[1]}-{found.root}-01"}
            name = f"otlp:{key[1]}:{found.answered}"
            try:
                await self._acceptor.accept(json.dumps(found.request).encode(), caller, name, carrier)
            except Problem as problem:
                if problem.status in _TRY_AGAIN:
                    raise
                lack = problem.code, f"{problem.field}: {problem.detail}" if problem.field else problem.detail
        self._drop(key, lack[0] if lack else "not_genai" if found is None else "accepted")
        return lack

    def _drop(self, key: Key, outcome: str) -> None:
        metrics.TRACES.labels(outcome=outcome).inc()
        self._holding.drop(key, concluded=outcome in _FINAL)
        self._tell()

    def _look(self) -> None:
        """Somebody looks after what is held, as long as anything is."""
        self._tell()
        self._wake.set()
        if len(self._holding) and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_after())

    async def _look_after(self) -> None:
        while (at := self._holding.next_due()) is not None:
            self._wake.clear()
            try:
                async with asyncio.timeout(max(0.0, at - time.monotonic())):
                    await self._wake.wait()
            except TimeoutError:
                await self._conclude_all(list(self._holding.due(time.monotonic())))

    def _tell(self) -> None:
        metrics.HELD_TRACES.set(len(self._holding))
        metrics.HELD_BYTES.set(self._holding.size)


def _form(request: Request) -> tuple[str, bool]:
    """The encoding of an export, and whether it is compressed. Raises `Problem`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (decoding.PROTOBUF, decoding.JSON):
        wanted = (
            f"send Content-Type: {decoding.PROTOBUF} or {decoding.JSON} (OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf)"
        )
        raise Problem("unsupported_media_type", wanted, headers=CLOSE)
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise Problem("unsupported_media_type", "send the body as it is or with Content-Encoding: gzip", headers=CLOSE)
    return kind, coding == "gzip"


def _nodes(raw: bytes, is_gzip: bool, kind: str) -> tuple[list[Node], int]:
    """The spans of a body, and how many more had no proper ids. Raises `Problem`."""
    try:
        body = decoding.inflate(raw, MAX_EXPORT) if is_gzip else raw
        found = [None if span is None else node(span) for span in decoding.spans(body, kind)]
    except decoding.Malformed as error:
        raise Problem("malformed", str(error), field="body") from None
    except decoding.TooMany as error:
        raise Problem("too_large", f"{error}; send fewer at a time", field="body") from None
    good = [each for each in found if each is not None]
    return good, len(found) - len(good)
