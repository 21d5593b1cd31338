"""A list in a file that only its owner reads, changed whole by one process at a time."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

log = logging.getLogger("glassbox.keys")

Row = Mapping[str, Any]
T = TypeVar("T")


class KeysError(Exception):
    """The file of keys cannot be used, or there is no such key; the message says what to do."""


class PrivateFile:
    """A JSON list of objects in a file of mode 600. `what`: what it holds, for people. Every method may raise
    `KeysError`."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self._what = path, what

    def read(self) -> list[Row]:
        """Empty where there is no file."""
        try:
            found = json.loads(self.path.read_text())
            return [dict(each) for each in found]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise KeysError(f"{self.path}: {error.strerror}") from None
        except (ValueError, TypeError):
            raise self.damaged() from None

    def damaged(self) -> KeysError:
        return KeysError(f"{self.path} holds no list of {self._what}: restore it from a backup, or remove it")

    def change(self, change: Callable[[], list[Row]]) -> None:
        """Write what `change` returns, which reads the file itself: nobody writes between."""
        try:
            with self._alone():
                text = json.dumps(change(), indent=2) + "\n"
                temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self.path)
        except OSError as error:
            raise KeysError(f"{self.path}: {error.strerror}") from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.path.with_name(f".{self.path.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def exists(self) -> bool:
        """Also where nobody may look."""
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            pass
        return True

    def stamp(self) -> tuple[int, ...]:
        """Another one after every change of the file; empty where there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size


class Latest(Generic[T]):
    """What a file holds as it stands, read again after a change. That it cannot be read is logged once per change of
    the file, because whoever asked is not told why."""

    def __init__(self, stamp: Callable[[], tuple[int, ...]], read: Callable[[], T]) -> None:
        self._stamp, self._read = stamp, read
        self._found: tuple[tuple[int, ...], T] | None = None
        self._told: tuple[int, ...] | None = None

    def get(self) -> T:
        """Raises `KeysError`, each time, where it cannot be read."""
        stamp = self._stamp()
        if self._found is None or self._found[0] != stamp:
            try:
                self._found = stamp, self._read()
            except KeysError as error:
                if stamp != self._told:
                    log.error("%s", error)
                    self._told = stamp
                raise
            self._told = None
        return self._found[1]
