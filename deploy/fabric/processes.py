"""Processes that outlive the command that starts them, and that a later command can find and end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PATIENCE = 60.0
"""Seconds that any one step may take; each takes about one on an idle machine."""


class Trouble(Exception):
    """What went wrong, as a sentence with the next step."""


def wait(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether `condition` came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Process:
    """A process by its name in a state folder, which gets `pids/NAME` and `logs/NAME.log`.

    It holds its pid file locked as long as it lives, so a number left behind is never taken for it.
    """

    def __init__(self, state: Path, name: str) -> None:
        self.name, self.pid_file, self.log = name, state / "pids" / name, state / "logs" / f"{name}.log"

    @property
    def pid(self) -> int | None:
        """None where it does not run."""
        try:
            with self.pid_file.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            return int(self.pid_file.read_text())
        return None

    def start(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        for file in (self.pid_file, self.log):
            file.parent.mkdir(exist_ok=True)
        with self.pid_file.open("w") as lock, self.log.open("ab") as log:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

            def introduce_itself() -> None:
                os.write(lock.fileno(), str(os.getpid()).encode())

            subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[lock.fileno()],  # the lock goes with it
                preexec_fn=introduce_itself,
            )

    def listening(self, address: str) -> None:
        """Returns when it accepts connections at `address`, HOST:PORT."""
        host, _, port = address.partition(":")

        def accepts() -> bool:
            if self.pid is None:
                last = self.log.read_text(errors="replace").splitlines()[-3:]
                raise Trouble("\n".join([f"{self.name} ended at its start; {self.log} ends:", *last]))
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return True
            return False

        if not wait(accepts):
            raise Trouble(f"{self.name} does not listen at {address}: see {self.log}")

    def stop(self) -> None:
        """Ends it, by force after 15 seconds."""
        for number, seconds in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
            if pid := self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                wait(lambda: self.pid is None, seconds)
        if pid := self.pid:
            raise Trouble(f"{self.name} (process {pid}) does not end")
