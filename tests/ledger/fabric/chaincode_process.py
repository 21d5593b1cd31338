"""The real chaincode: built with Go once a session, and run as a service on a port of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from glassbox.cli.children import Child, free_ports, stop_all

SOURCE = Path(__file__).parents[3] / "chaincode"
STARTED_WITHIN = 10.0


class GoMissing(Exception):
    """Go is not on this machine; the message says what to install."""


def build_chaincode(folder: Path) -> Path:
    """The command that serves the chaincode, as CHAINCODE_BIN names it or built into `folder`. Raises GoMissing."""
    if given := os.environ.get("CHAINCODE_BIN"):
        return Path(given)
    go = shutil.which("go")
    if go is None:
        raise GoMissing("go is not installed: the chaincode is written in Go (https://go.dev/dl, 1.26 or later)")
    binary = folder / "scorecards"
    subprocess.run([go, "build", "-o", binary, "./cmd/scorecards"], cwd=SOURCE, check=True)
    return binary


class ChaincodeProcess:
    """The chaincode as a service. It can be killed and started again on the same port."""

    def __init__(self, binary: Path, package_id: str, folder: Path) -> None:
        (self._port,) = free_ports(1)
        environment = {
            "PATH": os.defpath,
            "CHAINCODE_SERVER_ADDRESS": self.address,
            "CORE_CHAINCODE_ID_NAME": package_id,
        }
        self._child = Child("chaincode", [str(binary)], environment, folder)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def running(self) -> bool:
        return self._child.running

    def start(self) -> None:
        """Returns when it takes connections."""
        self._child.start()
        end = time.monotonic() + STARTED_WITHIN
        while not self._listens():
            if not self._child.running or time.monotonic() > end:
                raise RuntimeError(f"the chaincode did not start: {self._child.last_line()}")
            time.sleep(0.02)

    def kill(self) -> None:
        self._child.send(signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        stop_all([self._child], 2)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
