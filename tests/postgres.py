"""A PostgreSQL server for the tests, from the binaries of this machine, on a socket that only they know.

It will not run as root, so root starts it as another user.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from glassbox.lifeline import die_with
from tests.pipeline import until

_USERS = ("postgres", "nobody")


def binaries() -> Path | None:
    """The folder of initdb and postgres; None where there is none."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return Path(found).resolve().parent if found else debian[-1].parent if debian else None


def lacking() -> str | None:
    """What is missing to run a server, as a sentence; None where nothing is."""
    return None if binaries() else "no PostgreSQL on this machine: install its server (Debian: postgresql)"


class Postgres:
    """`url`: of an empty database."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="glassbox-postgres-"))
        self._options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": self._home}
        if os.getuid() == 0:
            self._options |= {"user": _unprivileged(), "extra_groups": []}
            shutil.chown(self._home, self._options["user"])
        self.url = f"postgresql://glassbox@/postgres?host={self._home}"

    def __enter__(self) -> Postgres:
        bin_, data, parent = binaries(), self._home / "data", os.getpid()
        assert bin_ is not None
        made = [bin_ / "initdb", "-D", data, "-A", "trust", "-U", "glassbox", "-E", "UTF8", "--no-sync"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, **self._options)
        settings = {"listen_addresses": "", "unix_socket_directories": self._home, "fsync": "off"}
        said = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [bin_ / "postgres", "-D", data, *said],
                stdout=log,
                stderr=log,
                preexec_fn=lambda: die_with(parent),
                **self._options,
            )
        try:
            until(self._answers, 60, "PostgreSQL answers")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._home / "log").read_text()
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGINT)  # clients are cut off
        self._process.wait(30)
        shutil.rmtree(self._home)


def _unprivileged() -> str:
    import pwd

    there = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _USERS if name in there)
