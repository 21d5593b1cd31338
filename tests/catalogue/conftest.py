from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from glassbox.catalogue.database import Database
from glassbox.catalogue.writing import forget
from tests.postgres import Postgres, lacking


@pytest.fixture(scope="session")
def postgres(missing: Callable[[str], NoReturn]) -> Iterator[Database]:
    if sentence := lacking():
        missing(sentence)
    with Postgres() as server:
        database = Database(server.url)
        database.migrate()
        yield database
        database.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty catalogue: in SQLite, then in PostgreSQL."""
    if request.param == "postgresql":
        there: Database = request.getfixturevalue("postgres")
        forget(there, open_only=False)
        yield there
        return
    made = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    made.migrate()
    yield made
    made.close()
