"""Who is to be called back, and when: a row for each request that names an address.

A row waits until its request has come to its end, then it is due. It is taken for a while, not for good: who takes it
and is never heard of again has not lost it. So every callback is sent at least once, by whichever process is there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, select, text, tuple_, update

from glassbox.catalogue import schema
from glassbox.catalogue.database import Database
from glassbox.catalogue.states import MAX_PARTITIONS, RECEIPT, Callback, CallbackKey, Key
from streams.topics import REQUESTS, SCORECARDS

COMMITTED, DEAD_LETTER = "evaluation.committed", "evaluation.dead_letter"
"""What a callback tells: the evaluation has a record, or the request ended as a dead letter."""

_LOCK = 7_351_904_113
"""PostgreSQL's advisory lock under which ends of requests are found."""

_callbacks, _letters = schema.callbacks, schema.dead_letters


@dataclass(frozen=True)
class Due:
    """A callback that was taken, to be attempted now. `attempts` counts this one. `due_at`: when it is anybody's
    again, which is also the proof that it is still ours."""

    key: CallbackKey
    tenant: str
    evaluation_id: str
    url: str
    host: str
    event: str
    event_at: int
    attempts: int
    due_at: int


def settle(connection: Connection, keys: Collection[Key], now: int) -> None:
    """Find which requests of these evaluations have come to their end, in the transaction that wrote what they are
    found by. A request's own dead letter counts more than the record that stands under its id: that is of another
    content then."""
    if not keys:
        return
    if connection.dialect.name == "postgresql":
        # of two transactions that bring a request and its end, the second to come here sees what the first wrote
        connection.execute(text("SELECT pg_advisory_xact_lock(:name)"), {"name": _LOCK})
    chosen = tuple_(_callbacks.c.tenant, _callbacks.c.evaluation_id).in_(sorted(keys))
    rows = schema.evaluations
    committed = exists().where(*_same(rows), rows.c.rank == RECEIPT)
    position = _letters.c.source_offset * MAX_PARTITIONS + _letters.c.source_partition
    refused = exists().where(
        *_same(_letters), _letters.c.source_topic == REQUESTS.name, position == _callbacks.c.position
    )
    card_refused = exists().where(*_same(_letters), _letters.c.source_topic == SCORECARDS.name)
    waits = _callbacks.c.event.is_(None)
    ends: tuple[tuple[str, ColumnElement[bool]], ...] = (
        (DEAD_LETTER, and_(refused, _callbacks.c.event.is_distinct_from(DEAD_LETTER))),
        (COMMITTED, and_(committed, waits)),
        (DEAD_LETTER, and_(card_refused, waits)),
    )
    for event, condition in ends:
        begun = {"event": event, "event_at": now, "due_at": now, "attempts": 0, "result": None, "delivered": False}
        connection.execute(update(_callbacks).where(chosen, condition).values(begun))


def _same(table: Any) -> tuple[ColumnElement[bool], ...]:
    return table.c.tenant == _callbacks.c.tenant, table.c.evaluation_id == _callbacks.c.evaluation_id


class CallbackQueue:
    """The callbacks that are due. Times are ms since 1970. `lease_ms`: how long one that was taken is left to who took
    it; longer than an attempt may last. Every method may raise `CatalogueUnavailable`."""

    def __init__(self, database: Database, lease_ms: int = 60_000) -> None:
        self._database, self._lease_ms = database, lease_ms

    def pending(self) -> tuple[int, int | None]:
        """How many have still to be delivered, and when the first of them is due."""
        with self._database.reading() as connection:
            due = select(func.count(), func.min(_callbacks.c.due_at)).where(_callbacks.c.due_at.is_not(None))
            count, first = connection.execute(due).one()
        return count, first

    def take(self, now: int, limit: int, busy: Sequence[str], per_host: int) -> list[Due]:
        """Up to `limit` that are due, the longest first, to be attempted by the caller alone for a while. `busy`: a
        host for each attempt under way, of which no host may have more than `per_host`: one that answers slowly holds
        up its own callbacks only."""
        room = {host: per_host - busy.count(host) for host in busy}
        full = [host for host, left in room.items() if left <= 0]
        with self._database.writing() as connection:
            candidates = connection.execute(
                select(_callbacks.c.position, _callbacks.c.at, _callbacks.c.host)
                .where(_callbacks.c.due_at <= now, _callbacks.c.host.not_in(full))
                .order_by(_callbacks.c.due_at)
                .limit(4 * limit)
            ).all()
            chosen: list[tuple[int, int]] = []
            for position, at, host in candidates:
                room.setdefault(host, per_host)
                if room[host] > 0 and len(chosen) < limit:
                    room[host] -= 1
                    chosen.append((position, at))
            if not chosen:
                return []
            taken = connection.execute(
                update(_callbacks)
                .where(_key().in_(chosen), _callbacks.c.due_at <= now)  # once more: another process may be quicker
                .values(due_at=now + self._lease_ms, attempts=_callbacks.c.attempts + 1)
                .returning(*_callbacks.columns)
            ).mappings()
            return [_due(row) for row in taken]

    def end(self, due: Due, result: str, *, delivered: bool) -> None:
        """No attempt follows."""
        self._change(due, {"due_at": None, "result": result, "delivered": delivered})

    def put_off(self, due: Due, result: str, until: int) -> None:
        """The next attempt is at `until`."""
        self._change(due, {"due_at": until, "result": result})

    def _change(self, due: Due, values: dict[str, Any]) -> None:
        with self._database.writing() as connection:
            ours = and_(_key() == due.key, _callbacks.c.due_at == due.due_at)
            connection.execute(update(_callbacks).where(ours).values(values))


def _key() -> Any:
    return tuple_(_callbacks.c.position, _callbacks.c.at)


def _due(row: Any) -> Due:
    named = {name: row[name] for name in Due.__dataclass_fields__ if name != "key"}
    return Due(CallbackKey(row["position"], row["at"]), **named)


def rows_of(callbacks: Mapping[CallbackKey, Callback], since: int) -> list[dict[str, Any]]:
    """New rows. What is older than `since` was told or given up: a catalogue that is made anew tells nobody twice."""
    return [
        {**key._asdict(), **vars(each), "attempts": 0, "delivered": False}
        for key, each in sorted(callbacks.items())
        if key.at >= since
    ]


def forget_waiting(connection: Connection) -> None:
    """Those whose requests have gone with their log."""
    connection.execute(delete(_callbacks).where(_callbacks.c.event.is_(None)))


def forget_old(connection: Connection, before: int) -> None:
    """Those of requests before `before` that nothing is to be sent for any more."""
    connection.execute(delete(_callbacks).where(_callbacks.c.at < before, _callbacks.c.due_at.is_(None)))
