"""What readers ask of the catalogue: one evaluation, pages of lists, what was committed since."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, Select, and_, func, select, tuple_

from glassbox.catalogue import schema
from glassbox.catalogue.database import Database
from glassbox.catalogue.reviews import ReviewSpan, Tally, of_evaluation, reviewed, tallies
from glassbox.catalogue.states import CARD, RECEIPT
from glassbox.catalogue.statistics import Span, Statistics, statistics
from glassbox.dossier.arithmetic import weakest
from streams.topics import REQUESTS, SCORECARDS

Row = RowMapping
"""Column name -> value."""
State = Literal["accepted", "judging", "scored", "committed", "dead_letter"]
Order = Literal["newest", "oldest", "lowest_trust", "highest_trust"]

_ORDERS: Mapping[Order, tuple[str, bool]] = {
    "newest": ("requested_at", True),
    "oldest": ("requested_at", False),
    "lowest_trust": ("trust", False),
    "highest_trust": ("trust", True),
}
"""Column, and whether its largest value comes first."""

_ENDS = (REQUESTS.name, SCORECARDS.name)
"""A dead letter of these topics ends its evaluation; one of another is a diagnosis (DESIGN §4.1 rule 12)."""
_LETTERS = _CALLBACKS = 20
"""Told of one evaluation, the newest."""


class CursorError(ValueError):
    """A cursor that no list of this catalogue gave."""


@dataclass(frozen=True)
class Filter:
    """Which evaluations of a tenant; None leaves all. Times in ms, `since` inclusive, `until` exclusive. With `judge`
    those whose judge scored under `below` millionths, the lowest score first; else in `order`, by trust those that have
    a trust score."""

    outcome: str | None = None
    provider: str | None = None
    model: str | None = None
    session: str | None = None
    since: int | None = None
    until: int | None = None
    judge: str | None = None
    below: int = 1_000_001
    order: Order = "newest"


@dataclass(frozen=True)
class Summary:
    """One line of a list: a row of the table of evaluations, and what state it is in. `weakest`: of the record's parts
    the one that needs a look first. `policy`: canonical. Each None where it is not known, or nothing is wrong."""

    row: Row
    state: State
    score: int | None = None
    weakest: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Page:
    """`cursor`: where the next page begins; None where this is the last."""

    items: Sequence[Summary]
    cursor: str | None


@dataclass(frozen=True)
class Detail:
    """All that is known of one evaluation. `waiting`: kinds that have not answered, with ms since the announcement.
    `card`: a row of the table of cards. `letters`, `callbacks`: rows of these tables, the newest first."""

    row: Row | None
    state: State
    announced_at: int | None
    deadline_ms: int | None
    missing: tuple[str, ...]
    card: Row | None
    letters: Sequence[Row]
    callbacks: Sequence[Row]


class Catalogue:
    """Reading side. Every method may raise `CatalogueUnavailable`; none waits for a writer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def detail(self, tenant: str, evaluation_id: str) -> Detail | None:
        """One evaluation of a tenant; None where nothing is known of it."""
        with self._database.reading() as connection:
            row = _one(connection, schema.evaluations, tenant, evaluation_id)
            letters = connection.execute(_letters(tenant, [evaluation_id]).limit(_LETTERS)).mappings().all()
            if row is None and not letters:
                return None
            announced = (
                connection.execute(
                    select(schema.announcements).where(
                        schema.announcements.c.evaluation_id == evaluation_id, schema.announcements.c.tenant == tenant
                    )
                )
                .mappings()
                .one_or_none()
            )
            card = _one(connection, schema.cards, tenant, evaluation_id)
            missing = _missing(connection, announced) if announced is not None else ()
            callbacks = connection.execute(_callbacks(tenant, evaluation_id)).mappings().all()
        state = _state(row, ended=any(map(_ends, letters)), announced=announced is not None)
        at, deadline = (announced["at"], announced["deadline_ms"]) if announced else (None, None)
        return Detail(row, state, at, deadline, missing, card, letters, callbacks)

    def page(self, tenant: str, wanted: Filter, cursor: str | None, limit: int) -> Page:
        """Up to `limit` evaluations of a tenant. Raises `CursorError` for a cursor of another list."""
        with self._database.reading() as connection:
            statement = page_statement(tenant, wanted, _position(cursor, wanted), limit + 1)
            rows = connection.execute(statement).mappings().all()
            shown = rows[:limit]
            open_ids = [row["evaluation_id"] for row in shown if row["rank"] > CARD]
            ended, announced = _of_open(connection, tenant, open_ids)
            states = [_state(row, row["evaluation_id"] in ended, row["evaluation_id"] in announced) for row in shown]
            items = _summaries(connection, tenant, shown, states)
        return Page(items, _cursor(shown[-1], wanted) if len(rows) > limit else None)

    def committed_since(self, tenant: str, seq: int, limit: int) -> list[tuple[int, Summary]]:
        """The next evaluations of a tenant that were found committed after number `seq`: (number, summary)."""
        feed, rows = schema.feed, schema.evaluations
        statement = (
            select(feed.c.seq, rows)
            .join(rows, and_(rows.c.tenant == feed.c.tenant, rows.c.evaluation_id == feed.c.evaluation_id))
            .where(feed.c.tenant == tenant, feed.c.seq > seq)
            .order_by(feed.c.seq)
            .limit(limit)
        )
        with self._database.reading() as connection:
            found = connection.execute(statement).mappings().all()
            numbers = [row["seq"] for row in found]
            return list(zip(numbers, _summaries(connection, tenant, found, ["committed"] * len(found)), strict=True))

    def newest_seq(self) -> int:
        """The number of the evaluation that was found committed last; 0 before the first."""
        with self._database.reading() as connection:
            return connection.execute(select(func.max(schema.feed.c.seq))).scalar() or 0

    def statistics(self, span: Span, bucket_ms: int) -> Statistics:
        """Over a span, the trend in buckets of so many ms."""
        return statistics(self._database, span, bucket_ms)

    def reviews(self, tenant: str, evaluation_id: str) -> Sequence[Row]:
        """Rows of the reviews of an evaluation, the oldest first."""
        return of_evaluation(self._database, tenant, evaluation_id)

    def reviewed(self, span: ReviewSpan, after: str, limit: int) -> list[str]:
        """The next evaluations after an id that have a review."""
        return reviewed(self._database, span, after, limit)

    def tallies(self, span: ReviewSpan) -> list[Tally]:
        """How many people agree with each part."""
        return tallies(self._database, span)

    def policy(self, digest: str) -> dict[str, Any] | None:
        """The registered policy with this digest."""
        with self._database.reading() as connection:
            text = connection.execute(
                select(schema.policies.c.policy).where(schema.policies.c.digest == digest)
            ).scalar()
        return None if text is None else json.loads(text)

    def checkpoint(self) -> str | None:
        """The signed note of the largest checkpoint that a receipt carried."""
        heads = schema.heads
        with self._database.reading() as connection:
            return connection.execute(select(heads.c.note).order_by(heads.c.size.desc()).limit(1)).scalar()


def page_statement(tenant: str, wanted: Filter, after: tuple[int, str] | None, limit: int) -> Select[Any]:
    """The statement of a page; its plan is an index in the order of the list."""
    rows, scores = schema.evaluations, schema.scores
    equal = {"outcome": wanted.outcome, "provider": wanted.provider, "model": wanted.model, "session": wanted.session}
    conditions = [rows.c[name] == value for name, value in equal.items() if value is not None]
    if wanted.since is not None:
        conditions.append(rows.c.requested_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(rows.c.requested_at < wanted.until)
    if wanted.judge is None:
        name, descending = _ORDERS[wanted.order]
        keys = rows.c[name], rows.c.evaluation_id
        if name == "trust":
            conditions.append(rows.c.trust.is_not(None))
        if after is not None:
            place, here = tuple_(*keys), tuple_(*after)
            conditions.append(place < here if descending else place > here)
        order = [key.desc() for key in keys] if descending else keys
        return select(rows).where(rows.c.tenant == tenant, *conditions).order_by(*order).limit(limit)
    if after is not None:
        conditions.append(tuple_(scores.c.score, scores.c.evaluation_id) > tuple_(*after))
    shown = and_(
        rows.c.tenant == scores.c.tenant,
        rows.c.evaluation_id == scores.c.evaluation_id,
        rows.c.record_digest == scores.c.record_digest,
    )
    return (
        select(rows, scores.c.score)
        .select_from(scores)
        .join(rows, shown)
        .where(scores.c.tenant == tenant, scores.c.judge == wanted.judge, scores.c.score < wanted.below, *conditions)
        .order_by(scores.c.score, scores.c.evaluation_id)
        .limit(limit)
    )


def _one(connection: Connection, table: Any, tenant: str, evaluation_id: str) -> Row | None:
    statement = select(table).where(table.c.tenant == tenant, table.c.evaluation_id == evaluation_id)
    return connection.execute(statement).mappings().one_or_none()


def _summaries(connection: Connection, tenant: str, rows: Sequence[Row], states: Sequence[State]) -> list[Summary]:
    """With what people look for first, from the records and their policies."""
    cards, policies = schema.cards, schema.policies
    ids = [row["evaluation_id"] for row in rows if row["record_digest"] is not None]
    chosen = select(cards.c.evaluation_id, cards.c.record).where(
        cards.c.tenant == tenant, cards.c.evaluation_id.in_(ids)
    )
    records = {name: json.loads(record) for name, record in connection.execute(chosen)} if ids else {}
    digests = {row["policy_digest"] for row in rows} - {None}
    cited = select(policies.c.digest, policies.c.policy).where(policies.c.digest.in_(digests))
    known = {digest: json.loads(policy) for digest, policy in connection.execute(cited)} if digests else {}
    made = []
    for row, state in zip(rows, states, strict=True):
        record, policy = records.get(row["evaluation_id"]), known.get(row["policy_digest"])
        made.append(Summary(row, state, row.get("score"), weakest(record, policy) if record else None, policy))
    return made


def _callbacks(tenant: str, evaluation_id: str) -> Select[Any]:
    table = schema.callbacks
    mine = table.c.tenant == tenant, table.c.evaluation_id == evaluation_id
    return select(table).where(*mine).order_by(table.c.at.desc(), table.c.position.desc()).limit(_CALLBACKS)


def _letters(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Dead letters of these evaluations that nobody has redriven or discarded, the newest first."""
    letters, actions = schema.dead_letters, schema.actions
    same = and_(letters.c.partition == actions.c.partition, letters.c.position == actions.c.position)
    return (
        select(letters)
        .outerjoin(actions, same)
        .where(
            letters.c.tenant == tenant, letters.c.evaluation_id.in_(ids), actions.c.action.is_distinct_from("redriven")
        )
        .order_by(letters.c.at.desc(), letters.c.partition, letters.c.position)
    )


def _of_open(connection: Connection, tenant: str, ids: Sequence[str]) -> tuple[set[str], set[str]]:
    """Those of these evaluations that ended in a dead letter, and those that were announced."""
    if not ids:
        return set(), set()
    table = schema.announcements
    announced = select(table.c.evaluation_id).where(table.c.evaluation_id.in_(ids), table.c.tenant == tenant)
    letters = connection.execute(_letters(tenant, ids)).mappings()
    return (
        {letter["evaluation_id"] for letter in letters if _ends(letter)},
        set(connection.execute(announced).scalars()),
    )


def _missing(connection: Connection, announced: Row) -> tuple[str, ...]:
    """The kinds whose answer would count and has not come (rule 6)."""
    answers = schema.answers
    counted = select(answers.c.kind).where(
        answers.c.evaluation_id == announced["evaluation_id"],
        answers.c.request_digest == announced["request_digest"],
        answers.c.policy_digest == announced["policy_digest"],
        (~answers.c.failed) | (answers.c.intake_run == announced["intake_run"]),
    )
    there = set(connection.execute(counted).scalars())
    return tuple(kind for kind in json.loads(announced["kinds"]) if kind not in there)


def _ends(letter: Row) -> bool:
    return letter["source_topic"] in _ENDS


def _state(row: Row | None, ended: bool, announced: bool) -> State:
    rank = row["rank"] if row is not None else None
    if rank == RECEIPT:
        return "committed"
    if ended:
        return "dead_letter"
    if rank == CARD:
        return "scored"
    return "judging" if announced else "accepted"


def _list(wanted: Filter) -> str:
    """What its order is called in cursors."""
    return wanted.order if wanted.judge is None else "score"


def _cursor(row: Row, wanted: Filter) -> str:
    value = row[_ORDERS[wanted.order][0]] if wanted.judge is None else row["score"]
    text = json.dumps([_list(wanted), value, row["evaluation_id"]], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _position(cursor: str | None, wanted: Filter) -> tuple[int, str] | None:
    if cursor is None:
        return None
    try:
        match json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))):
            case [str(name), int(number), str(evaluation_id)] if (
                name == _list(wanted) and abs(number) < 2**62 and evaluation_id.isascii() and "\0" not in evaluation_id
            ):
                return number, evaluation_id
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise CursorError("this cursor is of no such list; begin without one")
