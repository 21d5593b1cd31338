"""Changes into tables: each a statement that merges with what stands, whoever else writes.

Rows are written in the order of their keys, so that two writers wait for each other and never in a circle.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Table, case, delete, exists, select, text, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ColumnElement

from glassbox.catalogue import callbacks, schema
from glassbox.catalogue.database import Database
from glassbox.catalogue.states import (
    ANNOUNCED,
    RECEIPT,
    Changes,
    Evaluation,
    Key,
    ReviewState,
    millionths,
    milliseconds,
)
from glassbox.contract.canonical import canonical
from glassbox.contract.events import rfc3339

_CHUNK = 500
DAY_MS = 24 * 3600 * 1000
_WINDOW_MS = 8 * DAY_MS
"""Announcements and answers are of use while their evaluation is open, and the log keeps them for a week."""

T = TypeVar("T")
Row = dict[str, Any]
Excluded = Any
"""The columns of the row that was to be inserted."""


def write(database: Database, changes: Changes) -> None:
    """Merge changes into the tables, in one transaction. Raises `CatalogueUnavailable`."""
    if not any(vars(changes).values()):
        return
    with database.writing() as connection:
        _upsert(connection, schema.policies, _policies(changes))
        _upsert(connection, schema.heads, _heads(changes), lambda new, old: new.size > old.size)
        _upsert(connection, schema.announcements, _announcements(changes), _earlier("at", "position"))
        _upsert(
            connection,
            schema.answers,
            _answers(changes),
            lambda new, old: (new.at < old.at) | (old.failed & ~new.failed),
            {"at": _least("at"), "failed": lambda new, old: new.failed & old.failed},
        )
        _upsert(connection, schema.dead_letters, _letters(changes))
        _upsert(connection, schema.actions, _actions(changes), _earlier("at", "action"))
        _write_reviews(connection, changes.reviews)
        now = time.time_ns() // 1_000_000
        _upsert(connection, schema.callbacks, callbacks.rows_of(changes.callbacks, now - _WINDOW_MS))
        _write_evaluations(connection, changes.evaluations)
        for some in _chunks(sorted(_ending(changes))):
            callbacks.settle(connection, some, now)


def _ending(changes: Changes) -> set[Key]:
    """The evaluations of which these changes may show that a request has come to its end."""
    asked = {(each.tenant, each.evaluation_id) for each in changes.callbacks.values()}
    committed = {key for key, each in changes.evaluations.items() if each.order.rank == RECEIPT}
    letters = changes.letters.values()
    return asked | committed | {(each.tenant, each.evaluation_id) for each in letters if each.evaluation_id is not None}


def _write_reviews(connection: Connection, reviews: Mapping[Key, ReviewState]) -> None:
    rows = [
        {"tenant": tenant, "digest": digest, **state.order._asdict(), **_without_order(state)}
        for (tenant, digest), state in sorted(reviews.items())
    ]
    table, better = schema.reviews, _earlier("rank", "at", "position")
    set_ = {c.name: _kept_unless(better, c.name) for c in table.columns if not c.primary_key}
    set_["committed"] = lambda new, old: new.committed | old.committed
    changed: Callable[[Excluded, Excluded], Any] = lambda new, old: better(new, old) | (new.committed & ~old.committed)  # noqa: E731
    _upsert(connection, table, rows, changed, set_)


def _without_order(state: ReviewState) -> Row:
    return {name: value for name, value in vars(state).items() if name != "order"}


def _kept_unless(better: Callable[[Excluded, Excluded], Any], column: str) -> Callable[[Excluded, Excluded], Any]:
    return lambda new, old: _case(better(new, old), new[column], old[column])


def _write_evaluations(connection: Connection, evaluations: Mapping[Key, Evaluation]) -> None:
    rows = [_evaluation(key, evaluations[key]) for key in sorted(evaluations)]
    better = _earlier("rank", "at", "position")
    table = schema.evaluations

    others = [c.name for c in table.columns if not c.primary_key and c.name != "requested_at"]
    set_ = {"requested_at": _least("requested_at"), **{name: _kept_unless(better, name) for name in others}}
    changed: Callable[[Excluded, Excluded], Any] = lambda new, old: (  # noqa: E731 — it says what is passed on
        better(new, old) | (new.requested_at < old.requested_at)
    )
    _upsert(connection, table, rows, changed, set_)
    carded = [key for key in sorted(evaluations) if evaluations[key].card is not None]
    _upsert(connection, schema.cards, [_card(key, evaluations[key]) for key in carded], better)
    _upsert(connection, schema.scores, [row for key in carded for row in _scores(key, evaluations[key])])
    _drop_scores(connection, carded)
    committed = [key for key in carded if evaluations[key].order.rank == RECEIPT]
    if committed:
        if connection.dialect.name == "postgresql":
            # numbers are seen in the order in which they are given: a follower must not pass one that comes late
            connection.execute(text("LOCK TABLE feed IN SHARE ROW EXCLUSIVE MODE"))
        _upsert(connection, schema.feed, [{"tenant": tenant, "evaluation_id": name} for tenant, name in committed])


def _drop_scores(connection: Connection, keys: Sequence[Key]) -> None:
    """Those of cards that are not shown."""
    scores, cards = schema.scores, schema.cards
    shown = exists().where(
        cards.c.tenant == scores.c.tenant,
        cards.c.evaluation_id == scores.c.evaluation_id,
        cards.c.record_digest == scores.c.record_digest,
    )
    for some in _chunks(keys):
        chosen = tuple_(scores.c.tenant, scores.c.evaluation_id).in_(some)
        connection.execute(delete(scores).where(chosen, ~shown))


def _evaluation(key: Key, evaluation: Evaluation) -> Row:
    card = evaluation.card
    record: Mapping[str, Any] = card.record if card else {}
    trust = record.get("trust")
    return {
        "tenant": key[0],
        "evaluation_id": key[1],
        "requested_at": evaluation.requested_at,
        **evaluation.order._asdict(),
        "provider": evaluation.provider,
        "model": evaluation.model,
        "session": evaluation.session,
        "supersedes": evaluation.supersedes,
        "policy_digest": record.get("policy_digest"),
        "record_digest": card.record_digest if card else None,
        "closed_at": milliseconds(record["closed_at"]) if card else None,
        "outcome": record.get("outcome"),
        "trust": millionths(trust) if trust is not None else None,
        "coverage": millionths(record["coverage"]) if card else None,
        "parts": canonical(card.parts).decode() if card else None,
    }


def _card(key: Key, evaluation: Evaluation) -> Row:
    card = evaluation.card
    assert card is not None
    return {
        "tenant": key[0],
        "evaluation_id": key[1],
        **evaluation.order._asdict(),
        "record": canonical(dict(card.record)).decode(),
        "record_digest": card.record_digest,
        "ledger": card.ledger,
        "proof": None if card.proof is None else json.dumps(card.proof),
    }


def _scores(key: Key, evaluation: Evaluation) -> Iterator[Row]:
    card = evaluation.card
    assert card is not None
    for judge, score in sorted(card.scores.items()):
        yield {
            "tenant": key[0],
            "evaluation_id": key[1],
            "judge": judge,
            "record_digest": card.record_digest,
            "score": score,
        }


def _announcements(changes: Changes) -> list[Row]:
    return [
        {
            "evaluation_id": name,
            "at": each.order.at,
            "position": each.order.position,
            "tenant": each.tenant,
            "request_digest": each.request_digest,
            "policy_digest": each.policy_digest,
            "intake_run": each.intake_run,
            "deadline_ms": each.deadline_ms,
            "kinds": json.dumps(each.kinds),
        }
        for name, each in sorted(changes.announcements.items())
    ]


def _answers(changes: Changes) -> list[Row]:
    return [{**key._asdict(), **vars(each)} for key, each in sorted(changes.answers.items())]


def _letters(changes: Changes) -> list[Row]:
    return [{"partition": p, "position": n, **vars(each)} for (p, n), each in sorted(changes.letters.items())]


def _actions(changes: Changes) -> list[Row]:
    return [{"partition": p, "position": n, **vars(each)} for (p, n), each in sorted(changes.actions.items())]


def _heads(changes: Changes) -> list[Row]:
    return [{"origin": origin, **vars(each)} for origin, each in sorted(changes.heads.items())]


def _policies(changes: Changes) -> list[Row]:
    return [
        {"digest": digest, "policy": canonical(dict(each.policy)).decode()}
        for digest, each in sorted(changes.policies.items())
    ]


def _upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Row],
    where: Callable[[Excluded, Excluded], Any] | None = None,
    set_: Mapping[str, Callable[[Excluded, Excluded], Any]] | None = None,
) -> None:
    """Insert rows; where one stands, change it if `where(new, old)` holds, to `set_` or else to the new row. Without
    `where` the first that came stays."""
    insert = cast(Any, postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert)
    for some in _chunks(rows):
        statement = insert(table).values(some)
        if where is None:
            connection.execute(statement.on_conflict_do_nothing())
            continue
        new, old = statement.excluded, table.c
        keys = [column.name for column in table.primary_key]
        changed = (
            {name: make(new, old) for name, make in set_.items()}
            if set_ is not None
            else {column.name: new[column.name] for column in table.columns if column.name not in keys}
        )
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed, where=where(new, old)))


def _chunks(rows: Sequence[T]) -> Iterator[list[T]]:
    iterator = iter(rows)
    while some := list(islice(iterator, _CHUNK)):
        yield some


def _earlier(*columns: str) -> Callable[[Excluded, Excluded], ColumnElement[bool]]:
    return lambda new, old: tuple_(*(new[c] for c in columns)) < tuple_(*(old[c] for c in columns))


def _least(column: str) -> Callable[[Excluded, Excluded], Any]:
    return lambda new, old: _case(new[column] < old[column], new[column], old[column])


def _case(condition: Any, value: Any, otherwise: Any) -> Any:
    return case((condition, value), else_=otherwise)


def prune(database: Database, now: int, retention_ms: int | None, letters_ms: int) -> int:
    """Forget what is no longer of use: details of windows after a week, dead letters after `letters_ms`, and
    evaluations requested more than `retention_ms` ago (None keeps them for ever). Returns how many evaluations went.
    Raises `CatalogueUnavailable`."""
    with database.writing() as connection:
        for table in (schema.announcements, schema.answers):
            connection.execute(delete(table).where(table.c.at < now - _WINDOW_MS))
        callbacks.forget_old(connection, now - _WINDOW_MS)
        letters, actions = schema.dead_letters, schema.actions
        connection.execute(delete(letters).where(letters.c.at < now - letters_ms))
        standing = exists().where(letters.c.partition == actions.c.partition, letters.c.position == actions.c.position)
        connection.execute(delete(actions).where(~standing, actions.c.at < rfc3339(max(now - letters_ms, 0))))
    gone = 0
    if retention_ms is not None:
        table = schema.evaluations
        old = select(table.c.tenant, table.c.evaluation_id).where(table.c.requested_at < now - retention_ms)
        while some := _delete_some(database, old.limit(_CHUNK)):
            gone += some
    return gone


def _delete_some(database: Database, chosen: Any) -> int:
    """In small transactions, between which others write."""
    with database.writing() as connection:
        keys = [tuple(row) for row in connection.execute(chosen)]
        if keys:
            for table in (schema.scores, schema.cards, schema.feed, schema.reviews, schema.evaluations):
                connection.execute(delete(table).where(tuple_(table.c.tenant, table.c.evaluation_id).in_(keys)))
    return len(keys)


def forget(database: Database, *, open_only: bool) -> None:
    """Empty the tables before a rebuild, except for the callbacks: what was sent stays sent. Or, where a log has gone
    with all that was on it (the embedded broker's), forget what was on its way. Raises `CatalogueUnavailable`."""
    with database.writing() as connection:
        for table in (schema.announcements, schema.answers, schema.dead_letters, schema.actions):
            connection.execute(delete(table))
        if open_only:
            callbacks.forget_waiting(connection)
            connection.execute(delete(schema.reviews).where(~schema.reviews.c.committed))
            connection.execute(delete(schema.evaluations).where(schema.evaluations.c.rank >= ANNOUNCED))
            return
        for table in (
            *(schema.scores, schema.cards, schema.feed, schema.reviews),
            *(schema.heads, schema.policies, schema.evaluations),
        ):
            connection.execute(delete(table))
