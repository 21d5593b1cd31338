"""Child processes that never outlive their parent, and the signals that ask the parent to stop."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType

from glassbox.lifeline import die_with


class Stop:
    """Whether SIGINT, SIGTERM or SIGHUP has asked this process to stop; a second one makes it `urgent`.

    A flag and no exception, so that no step is ever left half done: every wait of the caller is short and looks here.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.number = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        self.asked, self.number = self.asked + 1, number

    def __bool__(self) -> bool:
        return self.asked > 0

    @property
    def exit_code(self) -> int:
        """As a shell has it for a process that a signal ended; 0 where none came."""
        return 128 + self.number if self.number else 0

    @property
    def urgent(self) -> bool:
        return self.asked > 1


class Child:
    """One process in a session of its own, so that Ctrl-C reaches only the parent; its output goes to `log`."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name, self.log = name, folder / "logs" / f"{name}.log"
        self._command, self._environment, self._folder = list(command), dict(environment), folder
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.failures = 0

    def start(self) -> None:
        self.log.parent.mkdir(exist_ok=True)
        parent = os.getpid()
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=lambda: die_with(parent),
            )
        self.started_at = time.monotonic()

    @property
    def exit_code(self) -> int | None:
        """None while it runs or has not been started."""
        return self.process.poll() if self.process else None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Signal the process and whatever it has started."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def wait(self) -> None:
        if self.process is not None:
            self.process.wait()

    def last_line(self) -> str:
        """The last line that it wrote, or where to look."""
        lines = self.log.read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"see {self.log}"


def stop_all(children: Iterable[Child], grace_s: float, stop: Stop | None = None) -> None:
    """SIGTERM, then SIGKILL for what still runs after `grace_s` seconds or at the second signal to ourselves."""
    mine = [child for child in children if child.running]
    for child in mine:
        child.send(signal.SIGTERM)
    end = time.monotonic() + grace_s
    while any(child.running for child in mine) and time.monotonic() < end and not (stop is not None and stop.urgent):
        time.sleep(0.02)
    for child in mine:
        child.send(signal.SIGKILL)  # also what an ended child has left in its group
        child.wait()


_PORTS = range(15_000, 32_000)
"""Below the ports that Linux gives to outgoing connections: one of our own children must not take another's."""


def free_ports(count: int) -> list[int]:
    """Different TCP ports on 127.0.0.1 that were free a moment ago, and that no outgoing connection is given."""
    found: list[int] = []
    with ExitStack() as held:
        for port in random.sample(_PORTS, len(_PORTS)):
            if len(found) == count:
                break
            listener = held.enter_context(socket.socket())
            with suppress(OSError):
                listener.bind(("127.0.0.1", port))
                found.append(port)
    return found
