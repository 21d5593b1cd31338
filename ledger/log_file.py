"""The SQLite file under the Merkle log: tables, one writer at a time, and errors that name the next step.

Knows nothing of records, proofs or keys. Everything here blocks; one thread at a time.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ledger.merkle import Node
from ledger.port import LedgerUnavailable

FILE_NAME = "ledger.sqlite3"
LOCK_NAME = "ledger.lock"

_FORMAT = 1
_SCHEMA = """
CREATE TABLE origin (name TEXT NOT NULL) STRICT;
CREATE TABLE leaves (number INTEGER PRIMARY KEY, evaluation_id TEXT NOT NULL UNIQUE, record BLOB NOT NULL) STRICT;
CREATE TABLE nodes (level INTEGER, number INTEGER, hash BLOB NOT NULL, PRIMARY KEY (level, number))
    STRICT, WITHOUT ROWID;
CREATE TABLE policies (digest TEXT PRIMARY KEY, policy BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoints (serial INTEGER PRIMARY KEY, tree_size INTEGER NOT NULL, note TEXT NOT NULL) STRICT;
"""
_BUSY_MS = 5_000

_NEXT_STEP = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space, then append again",
    sqlite3.SQLITE_READONLY: "it is read-only: give this user the right to write there",
    sqlite3.SQLITE_BUSY: "another program holds it locked: close that program",
    sqlite3.SQLITE_LOCKED: "another program holds it locked: close that program",
    sqlite3.SQLITE_IOERR: "the disk does not answer properly: check its space and health",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that the folder exists and that this user may use it",
    sqlite3.SQLITE_CORRUPT: "it is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "it is damaged, or is no ledger: restore it from a backup",
}


class LogFile:
    """An open ledger file in `folder`. With `origin` it may be written, and is made where there is none."""

    def __init__(self, folder: Path, origin: str | None) -> None:
        self.path = folder / FILE_NAME
        self._lock = -1 if origin is None else _take_lock(folder)
        try:
            with self.trouble():
                self._db = _connect(self.path, write=origin is not None)
                self.origin = self._open(origin)
        except BaseException:
            self.close()
            raise

    def _open(self, origin: str | None) -> str:
        self._db.execute("PRAGMA synchronous = FULL")
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found == 0 and origin is not None:
            self._db.execute("PRAGMA journal_mode = WAL")
            with self.transaction():
                for statement in _SCHEMA.split(";\n"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO origin VALUES (?)", (origin,))
                self._db.execute(f"PRAGMA user_version = {_FORMAT}")
        elif found != _FORMAT:
            raise LedgerUnavailable(
                f"{self.path} has format {found}, this version reads {_FORMAT}: use the matching glassbox"
            )
        (name,) = self._db.execute("SELECT name FROM origin").fetchone()
        if origin not in (None, name):
            raise LedgerUnavailable(
                f"{self.path} is the log {name}, not {origin}: use its own key (GLASSBOX_SIGNING_KEY_FILE and "
                "GLASSBOX_LEDGER_ORIGIN) or another data folder"
            )
        return str(name)

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """Turn SQLite's errors into LedgerUnavailable."""
        with sqlite_trouble(f"the ledger {self.path}"):
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, on disk when it ends."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Every read inside sees the same state, whatever a committer does meanwhile."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def size(self) -> int:
        (last,) = self._db.execute("SELECT max(number) FROM leaves").fetchone()
        return 0 if last is None else int(last) + 1

    def leaf(self, evaluation_id: str) -> tuple[int, bytes] | None:
        """(number, record bytes)"""
        found = self._db.execute(
            "SELECT number, record FROM leaves WHERE evaluation_id = ?", (evaluation_id,)
        ).fetchone()
        return None if found is None else (found[0], found[1])

    def ids(self, prefix: str, limit: int) -> list[str]:
        """The first `limit` evaluation ids that begin with `prefix`, in order."""
        beyond = prefix + chr(0x10FFFF)
        rows = self._db.execute(
            "SELECT evaluation_id FROM leaves WHERE evaluation_id >= ? AND evaluation_id < ? ORDER BY 1 LIMIT ?",
            (prefix, beyond, limit),
        )
        return [evaluation_id for (evaluation_id,) in rows]

    def leaves(self) -> Iterator[tuple[int, str, bytes]]:
        """(number, evaluation id, record bytes) in order."""
        yield from self._db.execute("SELECT number, evaluation_id, record FROM leaves ORDER BY number")

    def add_leaves(self, leaves: Sequence[tuple[int, str, bytes]]) -> None:
        self._db.executemany("INSERT INTO leaves VALUES (?, ?, ?)", leaves)

    def node(self, level: int, number: int) -> bytes | None:
        found = self._db.execute("SELECT hash FROM nodes WHERE level = ? AND number = ?", (level, number)).fetchone()
        return None if found is None else bytes(found[0])

    def add_nodes(self, nodes: Sequence[tuple[Node, bytes]]) -> None:
        self._db.executemany(
            "INSERT INTO nodes VALUES (?, ?, ?)", [(level, number, value) for (level, number), value in nodes]
        )

    def policy(self, digest: str) -> bytes | None:
        found = self._db.execute("SELECT policy FROM policies WHERE digest = ?", (digest,)).fetchone()
        return None if found is None else bytes(found[0])

    def add_policy(self, digest: str, policy: bytes) -> None:
        self._db.execute("INSERT INTO policies VALUES (?, ?)", (digest, policy))

    def policies(self) -> Iterator[tuple[str, bytes]]:
        yield from self._db.execute("SELECT digest, policy FROM policies ORDER BY digest")

    def newest_checkpoint(self) -> str | None:
        found = self._db.execute("SELECT note FROM checkpoints ORDER BY serial DESC LIMIT 1").fetchone()
        return None if found is None else str(found[0])

    def checkpoints(self) -> Iterator[tuple[int, int, str]]:
        """(serial, tree size, signed note), smallest tree first."""
        yield from self._db.execute("SELECT serial, tree_size, note FROM checkpoints ORDER BY tree_size, serial")

    def add_checkpoint(self, tree_size: int, note: str) -> None:
        self._db.execute("INSERT INTO checkpoints (tree_size, note) VALUES (?, ?)", (tree_size, note))

    def copy_to(self, folder: Path) -> None:
        """Copy the log as it stands at one moment, also while a committer writes, into a folder that has none.

        A copy of the files would lack what is still in SQLite's write-ahead log, or tear. The other folder is locked
        meanwhile, as by a committer. Raises LedgerUnavailable.
        """
        lock = _take_lock(folder)
        try:
            target, part = folder / FILE_NAME, folder / f"{FILE_NAME}.part"
            if target.exists():
                raise LedgerUnavailable(f"there is a ledger at {target}: move it away first, it is never written over")
            part.unlink(missing_ok=True)
            with sqlite_trouble(str(part)):
                with closing(sqlite3.connect(part)) as copy:
                    self._db.backup(copy)
                part.rename(target)
                _sync(folder)
        finally:
            os.close(lock)

    def close(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@contextmanager
def sqlite_trouble(what: str) -> Iterator[None]:
    """Turn SQLite's errors into LedgerUnavailable, with the next step for `what`, a file."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the primary code (sqlite.org/rescode.html).
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise LedgerUnavailable(f"{what}: {_NEXT_STEP.get(code, str(error))}") from error


def _connect(path: Path, *, write: bool) -> sqlite3.Connection:
    if not write and not path.exists():
        raise LedgerUnavailable(
            f"there is no ledger at {path}: start the pipeline (glassbox up) or set GLASSBOX_DATA_DIR to its folder"
        )
    # The caller keeps to one thread at a time; which one may change between opening and use.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'rwc' if write else 'ro'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_MS / 1000,
    )


def _sync(folder: Path) -> None:
    """Make a new name in it outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_lock(folder: Path) -> int:
    """An open file that locks others out until it is closed, also by the death of this process."""
    path = folder / LOCK_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LedgerUnavailable(
            f"the ledger's folder {folder} cannot be written ({error.strerror}): make it writable for this user "
            "or set GLASSBOX_DATA_DIR"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise LedgerUnavailable(
            f"another committer (process {holder}) writes the ledger in {folder}: a ledger has one at a time; "
            "stop that one first"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock
