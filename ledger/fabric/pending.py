"""What is on its way to the orderer, on disk before it is sent: after a crash nobody else knows the transaction's id.

A small SQLite file. An entry goes when the outcome is known; whatever is left is asked for at the next start.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ledger.log_file import sqlite_trouble
from ledger.port import LedgerUnavailable

T = TypeVar("T")

_FORMAT = 1
_SCHEMA = """CREATE TABLE IF NOT EXISTS pending (
    tx_id TEXT PRIMARY KEY, channel TEXT NOT NULL, evaluation_ids TEXT NOT NULL, envelope BLOB NOT NULL
) STRICT, WITHOUT ROWID"""
_BUSY_S = 5.0


@dataclass(frozen=True)
class PendingTransaction:
    """A signed envelope that has been, or may have been, submitted, and the records in it."""

    tx_id: str
    evaluation_ids: tuple[str, ...]
    envelope: bytes


class Pending:
    """The transactions of one channel in the file `path`, which is made where there is none.

    Opened at the first use, so that who only reads leaves no file. Every method may raise LedgerUnavailable.
    """

    def __init__(self, path: Path, channel: str) -> None:
        self._path, self._channel = path, channel
        self._db: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fabric-pending")

    async def add(self, transactions: Sequence[PendingTransaction]) -> None:
        """All of them, on disk when it returns."""
        rows = [(t.tx_id, self._channel, json.dumps(t.evaluation_ids), t.envelope) for t in transactions]
        await self._change("INSERT INTO pending VALUES (?, ?, ?, ?)", rows)

    async def remove(self, tx_ids: Iterable[str]) -> None:
        """Their outcome is known."""
        rows = [(tx_id,) for tx_id in tx_ids]
        await self._change("DELETE FROM pending WHERE tx_id = ?", rows)

    async def all(self) -> list[PendingTransaction]:
        query = "SELECT tx_id, evaluation_ids, envelope FROM pending WHERE channel = ? ORDER BY tx_id"
        rows = await self._run(lambda db: db.execute(query, (self._channel,)).fetchall())
        return [PendingTransaction(tx_id, tuple(json.loads(ids)), envelope) for tx_id, ids, envelope in rows]

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        if self._db is not None:
            self._db.close()

    async def _change(self, statement: str, rows: Sequence[tuple[str | bytes, ...]]) -> None:
        def change(db: sqlite3.Connection) -> None:
            db.executemany(statement, rows)  # the cursor stays here: dropped in another thread it disturbs the next

        await self._run(change)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def guarded() -> T:
            with sqlite_trouble(f"the list of transactions on their way, {self._path}"):
                self._db = self._db or self._open()
                with self._db:  # one SQLite transaction
                    return work(self._db)

        return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)

    def _open(self) -> sqlite3.Connection:
        # The file is only used in one thread at a time; closing happens in another.
        db = sqlite3.connect(self._path, check_same_thread=False, timeout=_BUSY_S)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found not in (0, _FORMAT):
            db.close()
            raise LedgerUnavailable(
                f"{self._path} has format {found}, this version reads {_FORMAT}: use the matching glassbox"
            )
        db.execute(_SCHEMA)
        db.execute(f"PRAGMA user_version = {_FORMAT}")
        return db
