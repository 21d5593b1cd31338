"""The test network as a process of its own, for clients in other processes.

Prints one line of JSON once it serves: {"environment": {variable: value}, "organizations": {msp id: folder},
"endpoints": [...]}. SIGTERM ends it, and the chaincode with it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from glassbox.cli.children import Stop
from tests.ledger.fabric.chaincode_process import build_chaincode
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.peer.orderer import BatchSize


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.ledger.fabric.peer", description=__doc__)
    parser.add_argument("--chaincode", type=Path, help="the built chaincode (default: build it with Go)")
    parser.add_argument("--folder", type=Path, help="where certificates and logs go (default: a temporary folder)")
    parser.add_argument("--orgs", type=int, choices=(1, 2), default=1, help="organisations, a peer each")
    parser.add_argument("--policy", choices=("any", "all"), default="all", help="whose endorsement is needed")
    parser.add_argument("--user", default="User1", help="who the printed environment is for: User1 or Admin")
    parser.add_argument("--mutual-tls", action="store_true", help="ask clients for a TLS certificate too")
    parser.add_argument("--batch-timeout", type=float, default=BatchSize().timeout, help="seconds until a block is cut")
    options = parser.parse_args()
    stop = Stop()
    with ExitStack() as cleanup:
        folder = options.folder or Path(cleanup.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        network = cleanup.enter_context(
            TestNetwork(
                options.chaincode or build_chaincode(folder),
                folder,
                orgs=options.orgs,
                policy=options.policy,
                mutual_tls=options.mutual_tls,
                batches=BatchSize(timeout=options.batch_timeout),
            )
        )
        described = {
            "environment": network.environment(options.user),
            "organizations": {one.msp_id: str(one.folder) for one in network.organizations},
            "endpoints": [peer.endpoint for peer in network.peers],
        }
        print(json.dumps(described), flush=True)  # noqa: T201  # whoever started this process reads it
        while not stop:
            time.sleep(0.05)


if __name__ == "__main__":
    main()
