"""A million scorecards in the catalogue: a page of any list costs about what it costs among a thousand."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import pytest
from sqlalchemy import text

from glassbox.catalogue.database import Database
from glassbox.catalogue.reading import Catalogue, Filter
from glassbox.catalogue.statistics import MOST, Span
from tests.postgres import Postgres, lacking

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

SIZES = (1_000, 1_000_000)
START = 1_767_225_600_000
JUDGES = ("contextual_precision", "semantic_faithfulness", "structural_fidelity")

LISTS = {
    "all": Filter(),
    "outcome": Filter(outcome="fail"),
    "model": Filter(model="model-3"),
    "session": Filter(session="session-7"),
    "time": Filter(since=START + 200_000, until=START + 600_000),
    "judge below": Filter(judge="semantic_faithfulness", below=300_000),
    "outcome and model": Filter(outcome="fail", model="model-3"),
    "lowest trust": Filter(order="lowest_trust"),
    "trust of outcome": Filter(order="highest_trust", outcome="review"),
}


EVALUATIONS = """
INSERT INTO evaluations (tenant, evaluation_id, requested_at, rank, at, position, provider, model, session,
                         policy_digest, record_digest, closed_at, outcome, trust, coverage, parts)
WITH RECURSIVE counted(n) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < {size})
SELECT CASE WHEN n % 10 = 0 THEN 'other' ELSE 'acme' END, 'evaluation-' || (n * 7919 % {size}),
       {start} + n * (1000000 / {size}), 0, {start} + n, n, 'openai', 'model-' || (n % 7),
       'session-' || (n % ({size} / 50)), 'ab', 'cd', {start} + n,
       CASE n % 7 WHEN 3 THEN 'fail' WHEN 4 THEN 'review' WHEN 5 THEN 'incomplete' ELSE 'pass' END,
       n * 7919 % 1000001, 1000000, '{{{parts}}}'
FROM counted
"""
SCORES = """
INSERT INTO scores (tenant, evaluation_id, judge, record_digest, score)
SELECT tenant, evaluation_id, '{judge}', record_digest, trust * {factor} % 1000001 FROM evaluations
"""


def fill(database: Database, size: int) -> None:
    database.migrate()
    parts = ",".join(f'"{judge}/part_{n}": {n}00000' for judge in JUDGES for n in (3, 7))
    statements = [EVALUATIONS.format(size=size, start=START, parts=parts)]
    statements += [SCORES.format(judge=judge, factor=3 + n) for n, judge in enumerate(JUDGES)]
    for statement in (*statements, "ANALYZE"):
        with database.writing() as connection:
            if not database.sqlite:
                connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text(statement))


def spent(catalogue: Catalogue, wanted: Filter, pages: int = 10) -> float:
    """Median milliseconds of a page of 50, over the first and the next ones."""
    times, cursor = [], None
    for _ in range(pages):
        began = time.perf_counter()
        page = catalogue.page("acme", wanted, cursor, 50)
        times.append((time.perf_counter() - began) * 1000)
        cursor = page.cursor
        if cursor is None:
            break
    return median(times)


def ratios(databases: dict[int, Database]) -> None:
    few, many = (Catalogue(databases[size]) for size in SIZES)
    for name, wanted in LISTS.items():
        spent(many, wanted)
        before, after = spent(few, wanted), spent(many, wanted)
        print(
            f"{name:<18} {before:6.2f} ms of {SIZES[0]:,}, {after:6.2f} ms of {SIZES[1]:,}: {after / before:.1f} times"
        )
        assert after < 10 * before, name
    began = time.perf_counter()
    found = many.statistics(Span("acme", START, START + 1_000_000), 3_600_000)
    print(f"statistics         {(time.perf_counter() - began) * 1000:6.0f} ms over {found.n:,} of {SIZES[1]:,}")
    assert (found.n, len(found.parts)) == (MOST, 6)


def test_pages_in_sqlite(tmp_path: Path) -> None:
    databases = {size: Database(f"sqlite:///{tmp_path / f'{size}.sqlite'}") for size in SIZES}
    for size, database in databases.items():
        fill(database, size)
    print("\nSQLite")
    ratios(databases)
    for database in databases.values():
        database.close()


def test_pages_in_postgresql() -> None:
    if sentence := lacking():
        pytest.skip(sentence)
    with Postgres() as one, Postgres() as other:
        databases = dict(zip(SIZES, (Database(one.url), Database(other.url)), strict=True))
        for size, database in databases.items():
            fill(database, size)
        print("\nPostgreSQL")
        ratios(databases)
        for database in databases.values():
            database.close()
