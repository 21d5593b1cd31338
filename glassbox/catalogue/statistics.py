"""Figures over many evaluations, computed by the database: trust over time, the scores of each part, models.

Bounded: of a longer span the newest `MOST` evaluations count, so that a question costs about the same however many
there are. Sums and counts are whole numbers, so both databases give the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlalchemy import JSON, Connection, Integer, Select, Subquery, case, cast, func, select

from glassbox.catalogue import schema
from glassbox.catalogue.database import Database
from glassbox.contract.composite import OUTCOMES

MOST = 20_000
BINS = 20
_WIDTH = 1_000_000 // BINS
_MODELS = 50


@dataclass(frozen=True)
class Span:
    """Evaluations of a tenant that have a scorecard and were requested from `since` until before `until`, ms."""

    tenant: str
    since: int
    until: int
    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class Bucket:
    """`at`: its first ms. `mean_trust`: in millionths, of those that have a trust score; None of none."""

    at: int
    n: int
    mean_trust: Fraction | None
    outcomes: dict[str, int]


@dataclass(frozen=True)
class PartScores:
    """`histogram`: `BINS` bins of equal width, the last holds the perfect score. `mean`: in millionths."""

    judge: str
    part: str
    n: int
    mean: Fraction
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class ModelFigures:
    provider: str | None
    name: str
    n: int
    mean_trust: Fraction | None


@dataclass(frozen=True)
class Statistics:
    """`complete`: all of the span were counted; if not, those from `since` on. `trend`: buckets with an evaluation,
    the oldest first. `models`: of the span whichever model was asked for, the most used first."""

    since: int
    complete: bool
    n: int
    trend: Sequence[Bucket]
    parts: Sequence[PartScores]
    models: Sequence[ModelFigures]


def statistics(database: Database, span: Span, bucket_ms: int) -> Statistics:
    """Raises `CatalogueUnavailable`."""
    with database.reading() as connection:
        chosen = _chosen(span)
        n, first = connection.execute(select(func.count(), func.min(chosen.c.requested_at)).select_from(chosen)).one()
        complete = n < MOST
        return Statistics(
            since=span.since if complete else first,
            complete=complete,
            n=n,
            trend=_trend(connection, chosen, bucket_ms),
            parts=_parts(connection, chosen, sqlite=database.sqlite),
            models=_models(connection, _chosen(Span(span.tenant, span.since, span.until))),
        )


def chosen_statement(span: Span) -> Select[Any]:
    """The evaluations that count; its plan is an index in the order of time."""
    rows = schema.evaluations
    equal = {"provider": span.provider, "model": span.model}
    conditions = [rows.c[name] == value for name, value in equal.items() if value is not None]
    return (
        select(rows.c.requested_at, rows.c.outcome, rows.c.trust, rows.c.parts, rows.c.provider, rows.c.model)
        .where(
            rows.c.tenant == span.tenant,
            rows.c.requested_at >= span.since,
            rows.c.requested_at < span.until,
            rows.c.outcome.is_not(None),
            *conditions,
        )
        .order_by(rows.c.requested_at.desc(), rows.c.evaluation_id.desc())
        .limit(MOST)
    )


def _chosen(span: Span) -> Subquery:
    return chosen_statement(span).subquery("chosen")


def _trend(connection: Connection, chosen: Subquery, bucket_ms: int) -> list[Bucket]:
    at = (chosen.c.requested_at - chosen.c.requested_at % bucket_ms).label("at")
    counts = [func.sum(case((chosen.c.outcome == outcome, 1), else_=0)) for outcome in OUTCOMES]
    figures = func.sum(chosen.c.trust), func.count(chosen.c.trust)
    statement = select(at, func.count(), *figures, *counts).group_by(at).order_by(at)
    return [
        Bucket(start, n, _mean(total, scored), dict(zip(OUTCOMES, map(int, outcomes), strict=True)))
        for start, n, total, scored, *outcomes in connection.execute(statement)
    ]


def _parts(connection: Connection, chosen: Subquery, *, sqlite: bool) -> list[PartScores]:
    if sqlite:
        each = func.json_each(chosen.c.parts).table_valued("key", "value").alias("each")
    else:
        each = func.json_each_text(cast(chosen.c.parts, JSON)).table_valued("key", "value").alias("each")
    score = cast(each.c.value, Integer)
    place = case((score >= BINS * _WIDTH, BINS - 1), else_=score // _WIDTH).label("bin")
    statement = (
        select(each.c.key, place, func.count(), func.sum(score))
        .select_from(chosen.join(each, chosen.c.parts.is_not(None)))
        .group_by(each.c.key, place)
    )
    found: dict[str, list[tuple[int, int, int]]] = {}
    for key, number, n, total in connection.execute(statement):
        found.setdefault(key, []).append((number, n, int(total)))
    made = []
    for key in sorted(found):
        judge, _, part = key.partition("/")
        counts = {number: n for number, n, _ in found[key]}
        n = sum(counts.values())
        mean = Fraction(sum(total for _, _, total in found[key]), n)
        made.append(PartScores(judge, part, n, mean, tuple(counts.get(number, 0) for number in range(BINS))))
    return made


def _models(connection: Connection, chosen: Subquery) -> list[ModelFigures]:
    names = chosen.c.provider, chosen.c.model
    statement = (
        select(*names, func.count().label("n"), func.sum(chosen.c.trust), func.count(chosen.c.trust))
        .where(chosen.c.model.is_not(None))
        .group_by(*names)
        .order_by(func.count().desc(), *names)
        .limit(_MODELS)
    )
    return [
        ModelFigures(provider, name, n, _mean(total, scored))
        for provider, name, n, total, scored in connection.execute(statement)
    ]


def _mean(total: Any, n: int) -> Fraction | None:
    return Fraction(int(total), n) if n else None
