"""What people say of scorecards: whether they agree with a part. Of one reviewer of one part the newest counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, Subquery, func, select

from glassbox.catalogue import schema
from glassbox.catalogue.database import Database

MOST = 1_000
"""Reviews told of one evaluation, the newest."""


@dataclass(frozen=True)
class Tally:
    """How many people agree, or do not, with parts that met their target, missed it, or have none (None); of one
    method."""

    judge: str
    part: str
    met: bool | None
    agrees: bool
    method_digest: str | None
    n: int


@dataclass(frozen=True)
class ReviewSpan:
    """Reviews of a tenant that were made from `since` until before `until`, ms; None leaves it open."""

    tenant: str
    since: int | None = None
    until: int | None = None


def of_evaluation(database: Database, tenant: str, evaluation_id: str) -> Sequence[Any]:
    """Rows of its reviews, the oldest first. Raises `CatalogueUnavailable`."""
    table = schema.reviews
    statement = (
        select(table)
        .where(table.c.tenant == tenant, table.c.evaluation_id == evaluation_id, table.c.judge.is_not(None))
        .order_by(table.c.created_at.desc(), table.c.digest.desc())
        .limit(MOST)
    )
    with database.reading() as connection:
        return connection.execute(statement).mappings().all()[::-1]


def reviewed(database: Database, span: ReviewSpan, after: str, limit: int) -> list[str]:
    """The next evaluations after an id that have a review. Raises `CatalogueUnavailable`."""
    table = schema.reviews
    statement = (
        _within(select(table.c.evaluation_id), span)
        .where(table.c.evaluation_id > after)
        .distinct()
        .order_by(table.c.evaluation_id)
        .limit(limit)
    )
    with database.reading() as connection:
        return list(connection.execute(statement).scalars())


def tallies(database: Database, span: ReviewSpan) -> list[Tally]:
    """Of the reviews that count, sorted by judge and part. Raises `CatalogueUnavailable`."""
    newest = _newest(span)
    names = ("judge", "part", "met", "agrees", "method_digest")
    keys = [newest.c[name] for name in names]
    statement = select(*keys, func.count()).where(newest.c.place == 1).group_by(*keys).order_by(*keys[:2])
    with database.reading() as connection:
        return [Tally(**dict(zip((*names, "n"), row, strict=True))) for row in connection.execute(statement)]


def _newest(span: ReviewSpan) -> Subquery:
    table = schema.reviews
    one = table.c.evaluation_id, table.c.judge, table.c.part, table.c.reviewer
    order = table.c.created_at.desc(), table.c.digest
    place = func.row_number().over(partition_by=one, order_by=order).label("place")
    return _within(select(table, place), span).subquery("newest")


def _within(statement: Select[Any], span: ReviewSpan) -> Select[Any]:
    table = schema.reviews
    chosen = statement.where(table.c.tenant == span.tenant, table.c.judge.is_not(None))
    if span.since is not None:
        chosen = chosen.where(table.c.created_at >= span.since)
    return chosen if span.until is None else chosen.where(table.c.created_at < span.until)
