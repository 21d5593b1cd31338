"""Calls back whoever is due, again and again until it is taken in or given up."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from glassbox.catalogue.callbacks import CallbackQueue, Due
from glassbox.catalogue.errors import CatalogueUnavailable
from glassbox.catalogue.reading import Catalogue
from glassbox.gateway.callbacks import metrics, signing
from glassbox.gateway.callbacks.addresses import CallbackRules, NotAllowed
from glassbox.gateway.callbacks.keys import CallbackKeys
from glassbox.gateway.callbacks.messages import message, message_id
from glassbox.gateway.callbacks.posting import Attempt, Lookup, lookup_in, post
from glassbox.gateway.private_file import KeysError

log = logging.getLogger("glassbox.callbacks")
T = TypeVar("T")

_LOOK_S = 0.5
_GRACE_S = 5.0
_FINAL = ("not_allowed", "410")
"""After these nothing is tried again: our own rules, and a receiver that says Gone."""


@dataclass(frozen=True)
class Patience:
    """`attempts`: at most, the first included. Between them `first_s` seconds and `factor` times as long each time, at
    most `most_s`, of which a random half is taken off, so that what failed together does not come back together. As
    it stands: 5 s, 20 s, 80 s, 5 min, 21 min, 85 min, 6 h, 6 h, 6 h, the tenth attempt within a day."""

    attempts: int = 10
    first_s: float = 5.0
    factor: float = 4.0
    most_s: float = 6 * 3600.0
    limit_s: float = 15.0

    def wait_s(self, made: int, asked_s: float | None, chance: float) -> float:
        """Seconds until the next attempt after `made`. `asked_s`: what the receiver asked for (Retry-After). `chance`:
        in [0, 1)."""
        step = min(self.most_s, self.first_s * self.factor ** min(made - 1, 60))
        return max(step * (1 - chance / 2), min(asked_s or 0.0, self.most_s))


class Sender:
    """The one of this process; of several processes each takes what no other has taken."""

    at_once = 32
    per_host = 8

    def __init__(
        self,
        queue: CallbackQueue,
        catalogue: Catalogue,
        keys: CallbackKeys,
        rules: CallbackRules,
        patience: Patience,
        look: Lookup | None = None,
    ) -> None:
        self._queue, self._catalogue, self._keys, self._rules = queue, catalogue, keys, rules
        self._patience = patience
        self._running: dict[asyncio.Task[None], str] = {}
        self._freed = asyncio.Event()
        self._threads = ThreadPoolExecutor(4, "callbacks")
        self._lookers = ThreadPoolExecutor(self.at_once, "callbacks-names")
        self._look = look or lookup_in(self._lookers)
        self._trouble: str | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; attempts under way may then end. What is not heard of again is taken again later."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                try:
                    await self._begin()
                    self._trouble = None
                except CatalogueUnavailable as error:
                    if str(error) != self._trouble:
                        log.warning("%s", error)
                    self._trouble = str(error)
                await self._pause(stopping)
            if self._running:
                await asyncio.wait(self._running, timeout=_GRACE_S)
        finally:
            stopping.cancel()
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            for threads in (self._threads, self._lookers):
                threads.shutdown(wait=False)

    async def _pause(self, stopping: asyncio.Task[bool]) -> None:
        freed = asyncio.create_task(self._freed.wait())
        try:
            await asyncio.wait((stopping, freed), timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            freed.cancel()
            self._freed.clear()

    async def _begin(self) -> None:
        pending, first = await self._in_thread(self._queue.pending)
        metrics.PENDING.set(pending)
        now, room = _now(), self.at_once - len(self._running)
        if first is None or first > now or not room:
            return
        busy = tuple(self._running.values())
        for due in await self._in_thread(lambda: self._queue.take(now, room, busy, self.per_host)):
            task = asyncio.create_task(self._attempt(due))
            self._running[task] = due.host
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._freed.set()

    async def _attempt(self, due: Due) -> None:
        try:
            with metrics.SECONDS.time():
                attempt = await self._call(due)
            await self._note(due, attempt)
        except CatalogueUnavailable:
            log.warning("%s: the catalogue is away; it comes again", _named(due))

    async def _call(self, due: Due) -> Attempt:
        try:
            return await self._post(due)
        except CatalogueUnavailable:
            raise
        except Exception as error:  # only its kind: a message may quote an address
            log.error("%s: it cannot be made: %s", _named(due), type(error).__name__)
            return Attempt("error")

    async def _post(self, due: Due) -> Attempt:
        try:
            target = self._rules.target(due.url)
            secrets = self._keys.secrets(due.tenant or None)
        except NotAllowed:
            return Attempt("not_allowed")
        except KeysError:  # logged where they are read
            secrets = ()
        if not secrets:
            return Attempt("no_key")
        found = await self._in_thread(lambda: self._catalogue.detail(due.tenant, due.evaluation_id))
        body = message(due, found)
        signed = signing.headers(secrets, message_id(due), int(time.time()), body)
        headers = {"Content-Type": "application/json", **signed}
        return await post(target, headers, body, self._rules, self._patience.limit_s, self._look)

    async def _note(self, due: Due, attempt: Attempt) -> None:
        result, made = attempt.result, due.attempts
        kind = f"{result[0]}xx" if result.isdecimal() else result
        metrics.ATTEMPTS.labels(result=kind).inc()
        if attempt.delivered:
            await self._in_thread(lambda: self._queue.end(due, result, delivered=True))
            metrics.DELIVERED.inc()
        elif result in _FINAL or made >= self._patience.attempts:
            await self._in_thread(lambda: self._queue.end(due, result, delivered=False))
            metrics.FAILED.labels(result=kind).inc()
            log.error("%s: %s, given up after attempt %d", _named(due), result, made)
        else:
            wait_s = self._patience.wait_s(made, attempt.wait_s, random.random())  # noqa: S311 — no secret
            await self._in_thread(lambda: self._queue.put_off(due, result, _now() + round(wait_s * 1000)))
            log.info("%s: %s at attempt %d, again in %.0f s", _named(due), result, made, wait_s)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _named(due: Due) -> str:
    """What may stand in a line of the log: never the address, whose path and query may be secret."""
    whose = f" of {due.tenant}" if due.tenant else ""
    return f"callback for {due.evaluation_id}{whose} to {due.host or 'no address'}"


def _now() -> int:
    return time.time_ns() // 1_000_000
