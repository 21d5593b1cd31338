"""The join: open windows in memory, closed ids in a table, scorecards out (DESIGN §4.1 rules 14 to 18).

The offset is the window: the events of an open evaluation are acknowledged only when its scorecard is in the broker
and its closed marker too, so a restart rebuilds every open window by reading the log again.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ValidationError

from glassbox.contract.events import RESULT, Announced, Claim, DeadlinePassed, Scorecard
from streams import metrics
from streams.acks import OrderedAcks, Token
from streams.clock import BrokerClock, monotonic
from streams.dead_letters import Reason, bury
from streams.join import Card, Stale, Window, step
from streams.ports import Outbox, Record
from streams.topics import RESULTS, SCORECARDS
from streams.tracing import Carrier, carried, work

MARKER_TTL_MS = 2 * 3600 * 1000
"""A closed id is remembered at least this long by log time."""
_SWEEP = 3
"""Markers looked at per event: enough to forget faster than ids close."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A closed id. `appended_at`: the scorecard's append time, ms; `offset`: the closing event's."""

    request_digest: str
    appended_at: int
    offset: int

    def encode(self, evaluation_id: str) -> tuple[bytes, bytes]:
        """Key and value of its message in the changelog."""
        return json.dumps(evaluation_id).encode(), json.dumps(
            [self.request_digest, self.appended_at, self.offset]
        ).encode()

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> tuple[str, Marker] | None:
        """The closed id and its marker; None where a message is none of ours."""
        try:
            evaluation_id, (digest, appended_at, offset) = json.loads(key or b""), json.loads(value or b"")
        except (ValueError, TypeError, RecursionError):
            return None
        kinds = isinstance(evaluation_id, str), isinstance(digest, str), type(appended_at) is int, type(offset) is int
        return (evaluation_id, cls(digest, appended_at, offset)) if all(kinds) else None


class ClosedIds(Protocol):
    """The durable memory of closed ids, one per partition of `results`, rebuilt from its changelog."""

    def get(self, evaluation_id: str) -> Marker | None: ...

    async def mark(self, evaluation_id: str, partition: int, marker: Marker) -> None:
        """Remember, and wait until the changelog has it."""
        ...

    def forget(self, evaluation_id: str, partition: int) -> None: ...

    def oldest(self, partition: int, count: int) -> list[tuple[str, Marker]]:
        """Up to `count` of the partition's markers, the first marked first."""
        ...


@dataclass(slots=True)
class _Open:
    window: Window
    tokens: list[Token]
    traces: list[Carrier]
    send_at: float = 0.0
    gap_ms: float = 3000.0


@dataclass
class Join:
    """`spawn` runs a coroutine whose failure ends the process."""

    outbox: Outbox
    closed: ClosedIds
    acks: OrderedAcks
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    clock: BrokerClock = field(default_factory=BrokerClock)

    def __post_init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._closing: dict[str, list[tuple[Announced, Token]]] = {}

    def clear(self) -> None:
        """Partitions were revoked: their successor rebuilds the windows from the log."""
        self._open.clear()
        self._closing.clear()

    def on_record(self, record: Record, token: Token) -> None:
        """Fold one event. Never waits: reading must not stop because windows are open."""
        self.clock.observe(record.timestamp)
        self._sweep(record)
        try:
            event = RESULT.validate_json(record.value or b"", extra="ignore")
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            self.spawn(self._bury(record, token, ".".join(map(str, first["loc"])), first["type"]))
            return
        evaluation_id = event.evaluation_id
        if evaluation_id in self._closing:
            if isinstance(event, Announced):
                self._closing[evaluation_id].append((event, token))  # its scorecard comes first
            else:
                self.acks.release(token)
            return
        if self.closed.get(evaluation_id) is not None:
            if isinstance(event, Announced):
                self.spawn(self._claim(event, token))
            else:
                self.acks.release(token)
            return
        held = self._open.get(evaluation_id)
        window, emission = step(held.window if held else None, event, record.timestamp)
        if isinstance(emission, Stale):
            self.acks.release(token)
            return
        traces = held.traces if held is not None else []
        if (trace := carried(record)) is not None:
            traces.insert(0 if isinstance(event, Announced) else len(traces), trace)
        if window is not None:
            self._hold(evaluation_id, held, window, token, traces, retry=isinstance(event, DeadlinePassed))
        else:
            tokens = [*(held.tokens if held else ()), token]
            self._open.pop(evaluation_id, None)
            if isinstance(emission, Card):
                self._closing[evaluation_id] = []
                announced_at = held.window.announced_at if held is not None else 0
                metrics.EVALUATION_SECONDS.observe(max(0, record.timestamp - (announced_at or record.timestamp)) / 1000)
                since = held.window.first_at if held is not None else record.timestamp
                self.spawn(self._close(emission, record, tokens, traces, since))
            else:  # dropped: no announcement ever came
                for each in tokens:
                    self.acks.release(each)

    def _hold(
        self,
        evaluation_id: str,
        held: _Open | None,
        window: Window,
        token: Token,
        traces: list[Carrier],
        *,
        retry: bool,
    ) -> None:
        if held is None:
            held = self._open[evaluation_id] = _Open(window, [], traces)
        held.window = window
        held.tokens.append(token)
        if not retry:
            held.send_at = window.due_at()

    async def _close(
        self, card: Card, record: Record, tokens: list[Token], traces: Sequence[Carrier], since: int
    ) -> None:
        """`_emit` as the end of work that began with the window; `traces`: the announcement's first."""
        name, parent = card.announced.evaluation_id, next(iter(traces), None)
        with work("join", record, parent=parent, links=traces[1:], since=since, evaluation_id=name):
            await self._emit(card, record, tokens)

    async def _emit(self, card: Card, record: Record, tokens: list[Token]) -> None:
        """Scorecard acknowledged, claims, closed marker acknowledged, tokens released: in this order (rule 17)."""
        announced, last = card.announced, tokens[-1]
        evaluation_id = announced.evaluation_id
        scorecard = Scorecard(tenant=announced.tenant, record=card.record)
        sent = monotonic()
        appended_at = await self.outbox.send(SCORECARDS, evaluation_id, scorecard.model_dump_json().encode())
        self.clock.acknowledged(appended_at, sent)
        for claim in card.claims:
            await self._send_claim(claim)
        if not last.live():
            return
        marker = Marker(announced.request_digest, appended_at, record.offset)
        await self.closed.mark(evaluation_id, record.partition, marker)
        if not last.live():
            return
        for token in tokens:
            self.acks.release(token)
        for late, token in self._closing.pop(evaluation_id, ()):
            self.spawn(self._claim(late, token))
        metrics.SCORECARDS.labels(outcome="skipped" if announced.skipped else card.record["outcome"]).inc()

    async def _claim(self, announced: Announced, token: Token) -> None:
        """Another announcement under a closed id: the ledger says whether it is the same request (rule 15)."""
        await self._send_claim(announced)
        self.acks.release(token)

    async def _send_claim(self, announced: Announced) -> None:
        claim = Claim(
            evaluation_id=announced.evaluation_id,
            request_digest=announced.request_digest,
            source=announced.source,
            tenant=announced.tenant,
        )
        await self.outbox.send(SCORECARDS, claim.evaluation_id, claim.model_dump_json().encode())

    async def _bury(self, record: Record, token: Token, where: str, what: str) -> None:
        await bury(self.outbox, record, Reason("bad_result", where, what))
        self.acks.release(token)

    def _sweep(self, record: Record) -> None:
        """Forget the oldest closed ids whose events the commit has passed (rule 17)."""
        committed = self.acks.positions().get((record.topic, record.partition), 0)
        for evaluation_id, marker in self.closed.oldest(record.partition, _SWEEP):
            if record.timestamp - marker.appended_at > MARKER_TTL_MS and marker.offset < committed:
                self.closed.forget(evaluation_id, record.partition)

    async def tick(self) -> None:
        """The deadline timer: send `DeadlinePassed` to the partition of each window that is due; send again with
        growing gaps until the log agrees. Closing itself is an event in the log."""
        now = self.clock.now()
        due = [(name, held) for name, held in self._open.items() if now >= held.send_at]
        for evaluation_id, held in due:
            if self._open.get(evaluation_id) is not held or not held.tokens[-1].live():
                continue
            held.send_at, held.gap_ms = now + held.gap_ms, min(held.gap_ms * 2, 1_200_000)
            event = DeadlinePassed(evaluation_id=evaluation_id)
            partition = held.tokens[0].partition
            sent, value = monotonic(), event.model_dump_json().encode()
            self.clock.acknowledged(await self.outbox.send(RESULTS, evaluation_id, value, partition=partition), sent)
        self.measure()

    def measure(self) -> None:
        """Set the gauges of open windows."""
        metrics.OPEN_WINDOWS.set(len(self._open))
        now = self.clock.now()
        oldest = min((held.window.first_at for held in itertools.islice(self._open.values(), 1)), default=now)
        metrics.OLDEST_WINDOW_SECONDS.set(max(0.0, now - oldest) / 1000)
        due = min((held.window.due_at() for held in self._open.values()), default=now)
        metrics.OVERDUE_SECONDS.set(max(0.0, now - due) / 1000)
