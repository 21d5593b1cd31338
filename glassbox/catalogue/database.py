"""The database of a URL: connections, and the schema brought up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NoSuchModuleError

from glassbox.catalogue.errors import CatalogueError, CatalogueRefused, CatalogueUnavailable

_LOCK = 7_351_904_112
"""PostgreSQL's advisory lock of this product: two processes that start at once must not both migrate."""
_WAIT_MS = 15_000
"""How long a SQLite connection waits for another's write to end."""
_READERS = 16


class Database:
    """SQLite (`sqlite:///FILE`) or PostgreSQL (`postgresql://USER:PASSWORD@HOST/NAME`).

    Raises `CatalogueError` for another address, or where a driver is missing.
    """

    def __init__(self, url: str) -> None:
        try:
            address = make_url(url)
            if address.drivername == "postgresql":
                address = address.set(drivername="postgresql+psycopg")
            if address.get_backend_name() not in ("sqlite", "postgresql"):
                raise ArgumentError
            self.sqlite = address.get_backend_name() == "sqlite"
            if self.sqlite and address.database:
                Path(address.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.engine = create_engine(address, **self._options())
        except (ArgumentError, NoSuchModuleError):
            raise CatalogueError(
                "GLASSBOX_CATALOGUE_URL must be sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
            ) from None
        except ModuleNotFoundError as error:
            raise CatalogueError(
                f"the catalogue in PostgreSQL needs {error.name}: pip install 'glassbox[postgres]'"
            ) from None
        self.place = address.render_as_string(hide_password=True)
        if self.sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)

    def _options(self) -> dict[str, Any]:
        if self.sqlite:
            return {}
        # a server that hangs holds up nobody for ever; a connection that it has closed is found out before it is used
        patience = {"connect_timeout": 5, "options": f"-c statement_timeout={4 * _WAIT_MS} -c lock_timeout={_WAIT_MS}"}
        return {"pool_size": _READERS, "max_overflow": 1, "pool_pre_ping": True, "connect_args": patience}

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that writes nothing. Raises `CatalogueUnavailable`."""
        with self._transaction(self.engine) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, whole or not at all. Raises `CatalogueUnavailable` and `CatalogueRefused`."""
        with self._transaction(self.engine.execution_options(writes=True)) as connection:
            yield connection

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            # the parameters of a statement stay out of the sentence
            reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error).__name__
            kind = CatalogueRefused if isinstance(error, DataError | IntegrityError) else CatalogueUnavailable
            raise kind(f"the catalogue at {self.place}: {reason}") from None

    def migrate(self) -> None:
        """Make the tables, or bring those of an earlier release up to date. Raises `CatalogueUnavailable`."""
        from alembic import command

        with self.writing() as connection:
            if not self.sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:name)"), {"name": _LOCK})
                connection.execute(text("SET LOCAL statement_timeout = 0"))  # a new index may take its time
            command.upgrade(_alembic(connection), "head")

    def revision(self) -> str | None:
        """Which tables are there; None for none. Raises `CatalogueUnavailable`."""
        from alembic.migration import MigrationContext

        with self.reading() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    def is_current(self) -> bool:
        """Whether the tables are those of this release. Raises `CatalogueUnavailable`."""
        from alembic.script import ScriptDirectory

        return self.revision() == ScriptDirectory.from_config(_alembic(None)).get_current_head()

    def close(self) -> None:
        self.engine.dispose()


def _alembic(connection: Connection | None) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin when we say so, data definition included
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", f"busy_timeout = {_WAIT_MS}", "cache_size = -65536"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # who will write takes its turn at once: a reader that turned writer could only fail
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")
