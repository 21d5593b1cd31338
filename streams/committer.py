"""The committer: entries of the scorecard topic onto the ledger, one record of an id at a time, receipts out
(DESIGN §4.1 rules 5 and 19 to 23)."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from glassbox.contract import events
from glassbox.contract.events import ENTRY, Claim, PolicyRegistration, Receipt, Reference, Review, Scorecard
from ledger.port import (
    AppendResult,
    Ledger,
    LedgerRefused,
    LedgerUnavailable,
    Refused,
    UnknownPolicy,
    UnknownReference,
    Vault,
)
from ledger.port import Receipt as Standing
from streams import metrics
from streams.acks import Token
from streams.clock import monotonic
from streams.dead_letters import Reason, bury
from streams.ports import Outbox, Record
from streams.store import patiently
from streams.topics import RECEIPTS
from streams.tracing import announce_results, work

T = TypeVar("T")

BATCH = 256
QUEUE = 4 * BATCH


@dataclass(frozen=True)
class Entry:
    """One parsed message of the scorecard topic with its duty."""

    record: Record
    token: Token
    value: events.Entry

    @property
    def evaluation_id(self) -> str:
        return self.value.evaluation_id if isinstance(self.value, Claim) else str(self.value.record["evaluation_id"])


@dataclass(frozen=True)
class Committer:
    """`release` acknowledges a token; `trouble` hears a sentence while the ledger is away, and None when it is back.
    `registration`: that of the policy with a digest, wherever it stands on the log."""

    ledger: Ledger
    vault: Vault
    outbox: Outbox
    release: Callable[[Token], None]
    trouble: Callable[[str | None], None]
    registration: Callable[[str], Awaitable[PolicyRegistration | None]]

    async def parse(self, record: Record, token: Token) -> Entry | None:
        """The entry, or None where the message became a dead letter."""
        try:
            value = ENTRY.validate_json(record.value or b"", extra="ignore")
            entry = Entry(record, token, value)
            assert entry.evaluation_id
        except (ValidationError, KeyError) as error:
            first = error.errors(include_input=False)[0] if isinstance(error, ValidationError) else None
            where = ".".join(map(str, first["loc"])) if first else "record.evaluation_id"
            await bury(self.outbox, record, Reason("bad_entry", where, first["type"] if first else "is missing"))
            self.release(token)
            return None
        return entry

    async def settle(self, entries: Sequence[Entry]) -> list[Entry]:
        """Put a batch on the ledger and release its tokens. No id may be in a batch twice.

        Returned are the entries that point to a record which does not stand yet: it may come by another partition, so
        they are to be tried again and hold up nobody else (but their own id's).
        """
        started = monotonic()
        registrations = [e for e in entries if isinstance(e.value, PolicyRegistration)]
        records = [e for e in entries if isinstance(e.value, Scorecard | Reference | Review)]
        for entry in registrations:  # first: a scorecard of the same batch may cite them
            await self._register(entry)
        results, early = await self._append(records)
        if not all(e.token.live() for e in entries):
            return []  # the successor reads them again and finds them standing
        await asyncio.gather(
            *(self._answer(entry, result) for entry, result in results),
            *(self._judge_claim(entry, entry.value) for entry in entries if isinstance(entry.value, Claim)),
        )
        waiting = {entry.evaluation_id for entry in early}
        for entry in entries:
            if entry.evaluation_id not in waiting:
                self.release(entry.token)
        metrics.LEDGER_APPEND_SECONDS.observe(monotonic() - started)
        return early

    async def _append(self, entries: list[Entry]) -> tuple[list[tuple[Entry, AppendResult]], list[Entry]]:
        """Each entry with the ledger's answer, and those that must wait for another record."""
        batch, early = list(entries), list[Entry]()
        while True:
            records = [_record(entry) for entry in batch]
            try:
                results = await self._patiently(partial(self.ledger.append, records))
                return list(zip(batch, results, strict=True)), early
            except UnknownReference as error:
                early += [e for e in batch if e.evaluation_id == error.evaluation_id]
                batch = [e for e in batch if e.evaluation_id != error.evaluation_id]
                metrics.LEDGER_TROUBLE.labels(cause="unknown_reference").inc()
                self.trouble(str(error))

    async def _register(self, entry: Entry) -> None:
        value = entry.value
        assert isinstance(value, PolicyRegistration)
        try:
            standing = await self._patiently(
                lambda: self.ledger.register_policy(value.policy, str(value.record["created_at"]))
            )
        except (LedgerRefused, KeyError) as error:
            where = error.field if isinstance(error, LedgerRefused) else "record.created_at"
            await self._bury(entry, Reason("refused", where, str(error)))
            return
        await self._publish(entry, standing, "created" if standing.result == "created" else "exists")

    async def _answer(self, entry: Entry, result: Standing | Refused) -> None:
        if isinstance(result, Refused):
            await self._bury(entry, Reason("refused", result.field, result.rule))
        elif result.result != "conflict":
            await self._publish(entry, result, result.result)
        elif _request_digest(result) == _own_digest(entry):
            await self._publish(entry, result, "duplicate")
        else:
            lost = "another request stands on the ledger under this id; the evidence store lost the first"
            await self._bury(entry, Reason("request_lost", "request_digest", lost))

    async def _judge_claim(self, entry: Entry, claim: Claim) -> None:
        record = await self._patiently(lambda: self.ledger.read(claim.evaluation_id))
        if record is not None and record.get("request_digest") == claim.request_digest:
            # the receipt of what stands, in the form that every published one has: a proof may be large
            (standing,) = await self._patiently(lambda: self.ledger.append([record]))
            assert isinstance(standing, Standing)
            await self._publish(entry, standing, "duplicate")
            return
        lost = "another request was judged under this id" if record else "its scorecard was refused"
        reason = Reason("request_lost", "request_digest", lost)
        await bury(
            self.outbox,
            entry.record,
            reason,
            evaluation_id=claim.evaluation_id,
            tenant=claim.tenant,
            source=claim.source,
        )
        metrics.LEDGER_RECORDS.labels(result="request_lost").inc()

    async def _publish(
        self, entry: Entry, standing: Standing, result: Literal["created", "exists", "duplicate"]
    ) -> None:
        """The receipt goes into the store before it is published, so that intake can answer a repeated request."""
        receipt = Receipt(
            evaluation_id=standing.evaluation_id,
            result=result,
            record=dict(standing.record),
            record_digest=standing.record_digest,
            ledger=standing.ledger,
            proof=dict(standing.proof),
            tenant=None if isinstance(entry.value, PolicyRegistration) else entry.value.tenant,
        )
        name = receipt.evaluation_id
        with work("commit", entry.record, since=entry.record.timestamp, evaluation_id=name):
            if isinstance(entry.value, Scorecard | Claim):
                await patiently(lambda: self.vault.put_receipt(name, receipt.model_dump(mode="json")))
            sent_at = await self.outbox.send(RECEIPTS, name, receipt.model_dump_json().encode())
            if result == "created" and isinstance(entry.value, Scorecard):
                announce_results(receipt.record)
        metrics.LEDGER_RECORDS.labels(result=result).inc()
        if result == "created" and isinstance(entry.value, Scorecard):
            requested_at = datetime.fromisoformat(receipt.record["requested_at"]).timestamp()
            metrics.END_TO_END_SECONDS.observe(max(0.0, sent_at / 1000 - requested_at))
            metrics.LEDGER_COMMIT_SECONDS.observe(max(0, sent_at - entry.record.timestamp) / 1000)
            metrics.NEWEST_RECORD_AT.set(sent_at / 1000)

    async def _bury(self, entry: Entry, reason: Reason) -> None:
        tenant = None if isinstance(entry.value, PolicyRegistration) else entry.value.tenant
        await bury(self.outbox, entry.record, reason, evaluation_id=entry.evaluation_id, tenant=tenant)
        metrics.LEDGER_RECORDS.labels(result=reason.code).inc()

    async def _patiently(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Ledger trouble: wait in place, and say so (rule 20)."""
        delay = 0.2
        while True:
            try:
                result = await operation()
                self.trouble(None)
                return result
            except UnknownReference:
                raise
            except LedgerUnavailable as error:
                if isinstance(error, UnknownPolicy) and await self._register_ahead(error.digest):
                    continue
                cause = "unknown_policy" if isinstance(error, UnknownPolicy) else "unavailable"
                metrics.LEDGER_TROUBLE.labels(cause=cause).inc()
                self.trouble(str(error))
                await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 — jitter, not a secret
                delay = min(delay * 2, 10.0)

    async def _register_ahead(self, digest: str) -> bool:
        """Register a policy that the log has but that was not read yet; its receipt comes when it is."""
        entry = await self.registration(digest)
        if entry is None:
            return False
        try:
            await self.ledger.register_policy(entry.policy, str(entry.record["created_at"]))
        except (LedgerRefused, LedgerUnavailable, KeyError):
            return False
        return True


class CommitQueue:
    """Feeds the committer batch by batch in the order of reading; one batch is in flight at a time.

    `spawn` runs a coroutine whose failure ends the process, and calls back when it is over, cancelled or not.
    """

    def __init__(
        self, committer: Committer, spawn: Callable[[Coroutine[Any, Any, None], Callable[[], object]], object]
    ) -> None:
        self._committer, self._spawn = committer, spawn
        self._queue: deque[Entry] = deque()
        self._early: list[Entry] = []
        self._working = False
        self._room = asyncio.Event()

    async def on_record(self, record: Record, token: Token) -> None:
        """Queue one record; waits while the queue is full. A policy goes ahead of the queue: a scorecard that came
        first by another partition may be waiting for it."""
        entry = await self._committer.parse(record, token)
        if entry is not None and isinstance(entry.value, PolicyRegistration):
            await self._committer.settle([entry])
            return
        while token.live() and len(self._queue) + len(self._early) >= QUEUE:
            self._room.clear()
            await self._room.wait()
        if entry is not None:
            self._queue.append(entry)
            self._start()

    def _start(self) -> None:
        if not self._working:
            self._working = True
            self._spawn(self._work(), self._ended)

    async def _work(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(next_batch(self._queue))]
            self._room.set()
            waiting = {entry.evaluation_id for entry in self._early}
            self._early += [entry for entry in batch if entry.evaluation_id in waiting]
            ready = [e for e in batch if e.evaluation_id not in waiting and e.token.live()]
            self._early += await self._committer.settle(ready)

    def _ended(self) -> None:
        self._working = False
        if self._queue:  # of the next assignment, queued while the work of the last one was being cancelled
            self._start()

    async def tick(self) -> None:
        """Try those again that waited for another record."""
        if self._early:
            self._queue.extendleft(reversed([entry for entry in self._early if entry.token.live()]))
            self._early.clear()
            self._start()

    async def hand_over(self) -> None:
        pass

    def clear(self) -> None:
        """Partitions were revoked."""
        self._queue.clear()
        self._early.clear()
        self._room.set()


def next_batch(queue: Sequence[Entry]) -> int:
    """How many entries from the head make a batch: at most `BATCH`, no id twice (rule 19: a ledger transaction does
    not read its own writes)."""
    seen: set[str] = set()
    for n, entry in enumerate(queue):
        if n == BATCH or entry.evaluation_id in seen:
            return n
        seen.add(entry.evaluation_id)
    return len(queue)


def _record(entry: Entry) -> dict[str, Any]:
    assert not isinstance(entry.value, Claim)
    return entry.value.record


def _request_digest(standing: Standing) -> object:
    return standing.record.get("request_digest")


def _own_digest(entry: Entry) -> object:
    return None if isinstance(entry.value, Claim) else entry.value.record.get("request_digest")
