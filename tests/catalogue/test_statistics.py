"""Figures over many evaluations: the same from both databases, and those that plain counting gives."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from importlib import import_module

import pytest
from sqlalchemy import select, text

from glassbox.catalogue import schema, statistics
from glassbox.catalogue.database import Database
from glassbox.catalogue.reading import Catalogue
from glassbox.catalogue.statistics import ModelFigures, Span
from streams.ports import Record
from tests.catalogue.stories import NOW, receipt, record, request
from tests.catalogue.test_catalogue import explained, told

HOUR = 3_600_000
SCORES = [0, 49_999, 50_000, 500_000, 949_999, 950_000, 999_999, 1_000_000]


def figure(millionths: int) -> str:
    return f"{millionths // 1_000_000}.{millionths % 1_000_000:06d}"


def story() -> list[Record]:
    made = [
        receipt(
            f"e{n}", model=f"m{n % 2}", at=NOW + n, terminology=figure(score), changes={"requested_at": NOW + n * HOUR}
        )
        for n, score in enumerate(SCORES)
    ]
    incomplete = receipt("failed", model=None, relations="timeout", changes={"requested_at": NOW + 2 * HOUR})
    return [*made, incomplete, receipt("theirs", tenant="other"), request("open", at=NOW)]


def test_trend_distributions_and_models(database: Database) -> None:
    catalogue = told(database, story())
    found = catalogue.statistics(Span("acme", NOW, NOW + 100 * HOUR), 2 * HOUR)
    assert (found.since, found.complete, found.n) == (NOW, True, len(SCORES) + 1)
    assert [bucket.at % (2 * HOUR) for bucket in found.trend] == [0] * len(found.trend)
    assert sum(bucket.n for bucket in found.trend) == found.n
    counted = sum((Counter(bucket.outcomes) for bucket in found.trend), Counter())
    assert +counted == {"pass": len(SCORES), "incomplete": 1}
    parts = {each.part: each for each in found.parts}
    (terminology, relations) = parts["terminology"], parts["relations"]
    wanted = Counter(min(score // 50_000, 19) for score in [*SCORES, 1_000_000])
    assert terminology.histogram == tuple(wanted[number] for number in range(20))
    assert (terminology.judge, terminology.n) == ("structural_fidelity", len(SCORES) + 1)
    assert terminology.mean == Fraction(sum(SCORES) + 1_000_000, len(SCORES) + 1)
    assert relations.n == len(SCORES), "a part without a score is in no bin"
    trusts = [int(record("x", terminology=figure(score))["trust"].replace(".", "")) for score in SCORES[1::2]]
    assert found.models[1] == ModelFigures("openai", "m1", 4, Fraction(sum(trusts), 4))


def test_a_span_of_one_model(database: Database) -> None:
    catalogue = told(database, story())
    found = catalogue.statistics(Span("acme", NOW, NOW + 4 * HOUR, "openai", "m1"), HOUR)
    assert (found.n, [each.n for each in found.trend]) == (2, [1, 1])
    assert {each.name for each in found.models} == {"m0", "m1"}, "whichever model was asked for"
    empty = catalogue.statistics(Span("nobody", 0, NOW), HOUR)
    assert (empty.n, empty.trend, empty.parts, empty.models) == (0, [], [], [])


def test_of_too_many_the_newest_count(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST", 3)
    found = told(database, story()).statistics(Span("acme", NOW, NOW + 100 * HOUR), HOUR)
    assert (found.complete, found.n, found.since) == (False, 3, NOW + 5 * HOUR)


def test_evaluations_are_chosen_along_an_index(database: Database) -> None:
    told(database, story())
    for span, index in (
        (Span("acme", NOW, NOW + HOUR), "evaluations_by_time"),
        (Span("acme", NOW, NOW + HOUR, None, "m1"), "evaluations_by_model"),
    ):
        steps = explained(database, statistics.chosen_statement(span))
        assert index in steps
        assert "TEMP B-TREE" not in steps


def test_an_earlier_releases_evaluations_get_their_parts(database: Database) -> None:
    told(database, story())
    column = select(schema.evaluations.c.evaluation_id, schema.evaluations.c.parts).order_by("evaluation_id")
    migration = import_module("glassbox.catalogue.migrations.versions.0003_statistics")
    with database.writing() as connection:
        wanted = connection.execute(column).all()
        connection.execute(text("UPDATE evaluations SET parts = NULL"))
        connection.exec_driver_sql(migration._SQLITE if database.sqlite else migration._POSTGRESQL)
        assert connection.execute(column).all() == wanted
    assert Catalogue(database).statistics(Span("acme", NOW, NOW + 100 * HOUR), HOUR).parts
