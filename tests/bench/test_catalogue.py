"""A million scorecards in the catalogue: a page of any list costs about what it costs among a thousand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from sqlalchemy import insert, text

from glassbox.catalogue import schema
from glassbox.catalogue.database import Database
from glassbox.catalogue.reading import Catalogue, Filter
from tests.postgres import Postgres, lacking

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

SIZES = (1_000, 1_000_000)
START = 1_767_225_600_000
OUTCOMES = ("pass", "pass", "pass", "fail", "review", "incomplete", "pass")
JUDGES = ("contextual_precision", "semantic_faithfulness", "structural_fidelity")

LISTS = {
    "all": Filter(),
    "outcome": Filter(outcome="fail"),
    "model": Filter(model="model-3"),
    "session": Filter(session=f"{7:064x}"),
    "time": Filter(since=START + 200_000, until=START + 600_000),
    "judge below": Filter(judge="semantic_faithfulness", below=300_000),
    "outcome and model": Filter(outcome="fail", model="model-3"),
}


def rows(size: int) -> Iterator[dict[str, Any]]:
    for n in range(size):
        yield {
            "tenant": "acme" if n % 10 else "other",
            "evaluation_id": f"evaluation-{n * 7919 % size:07}",
            "requested_at": START + n * (1_000_000 // size),
            "rank": 0,
            "at": START + n,
            "position": n,
            "provider": "openai",
            "model": f"model-{n % 7}",
            "session": f"{n % (size // 50):064x}",
            "policy_digest": "ab" * 32,
            "record_digest": "cd" * 32,
            "closed_at": START + n,
            "outcome": OUTCOMES[n % 7],
            "trust": n * 7919 % 1_000_001,
            "coverage": 1_000_000,
        }


def fill(database: Database, size: int) -> None:
    database.migrate()
    with database.writing() as connection:
        batch: list[dict[str, Any]] = []
        for row in rows(size):
            batch.append(row)
            if len(batch) == min(size, 10_000):
                connection.execute(insert(schema.evaluations), batch)
                scored = [
                    {
                        **{name: each[name] for name in ("tenant", "evaluation_id", "record_digest")},
                        "judge": judge,
                        "score": (each["trust"] * (3 + k)) % 1_000_001,
                    }
                    for each in batch
                    for k, judge in enumerate(JUDGES)
                ]
                connection.execute(insert(schema.scores), scored)
                batch.clear()
        connection.execute(text("ANALYZE"))


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
