"""What models answered to `glassbox judge` and `agreement`, kept in the data folder: the same question is paid once."""

from __future__ import annotations

import hmac
import logging
import os
import sqlite3
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MOST = 100_000
"""Answers that are kept; the oldest go first."""

_NONCE_BYTES = 12
_log = logging.getLogger(__name__)


class SealedResponses:
    """A `ResponseCache` in one SQLite file. What it says of an evaluation can be read only with the id key: names are
    keyed digests and values are sealed (AES-256-GCM), both under keys derived from it.

    Trouble with the file costs a call and never a verdict. Nothing is synced: after a power cut it may lack answers.
    Deleting the file forgets them all. Raises OSError where the file cannot be made.
    """

    def __init__(self, path: Path, id_key: bytes) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._names, self._sealing = (
            hmac.digest(id_key, f"glassbox judge cache 1 {use}".encode(), "sha256") for use in ("names", "sealing")
        )
        self._file = sqlite3.connect(path, timeout=1, isolation_level=None)
        try:
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = OFF")
            self._file.execute("CREATE TABLE IF NOT EXISTS answers (name BLOB UNIQUE, sealed BLOB)")
        except sqlite3.Error as error:
            _trouble(error)

    async def get(self, key: str) -> bytes | None:
        name = self._name(key)
        try:
            row = self._file.execute("SELECT sealed FROM answers WHERE name = ?", (name,)).fetchone()
            return None if row is None else self._aead().decrypt(row[0][:_NONCE_BYTES], row[0][_NONCE_BYTES:], name)
        except (sqlite3.Error, InvalidTag, ValueError, TypeError) as error:
            _trouble(error)
            return None

    async def put(self, key: str, value: bytes) -> None:
        name, nonce = self._name(key), os.urandom(_NONCE_BYTES)
        sealed = nonce + self._aead().encrypt(nonce, value, name)
        try:
            self._file.execute("REPLACE INTO answers VALUES (?, ?)", (name, sealed))
        except sqlite3.Error as error:
            _trouble(error)

    def close(self) -> None:
        try:
            self._file.execute("DELETE FROM answers WHERE rowid <= (SELECT max(rowid) FROM answers) - ?", (MOST,))
        except sqlite3.Error as error:
            _trouble(error)
        self._file.close()

    def _name(self, key: str) -> bytes:
        return hmac.digest(self._names, key.encode(), "sha256")

    def _aead(self) -> AESGCM:
        return AESGCM(self._sealing)


def _trouble(error: Exception) -> None:
    _log.warning("the cache of models' answers is of no use: %s", type(error).__name__)
