"""Fixtures for a suite that runs on the test network and on a real one, which says that its rules are the rules.

A test module imports them by name. The real network runs where GLASSBOX_FABRIC_BIN names Fabric's tools.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger.fabric.identity import Signer
from tests.ledger.fabric.native import BIN, TO_SET, NativeNetwork
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.raw_client import EditHeaders, RawClient, register_policy

Network = TestNetwork | NativeNetwork
NETWORKS: dict[str, Callable[[Path, Path, int], AbstractContextManager[Network]]] = {
    "test": lambda binary, folder, orgs: TestNetwork(binary, folder, orgs=orgs),
    "native": lambda binary, folder, orgs: NativeNetwork(binary, folder, orgs=orgs),
}

START_TIMEOUT = 240
"""Seconds for a test that may be the one to start a real network."""


@pytest.fixture(scope="session", params=NETWORKS)
def started(
    request: pytest.FixtureRequest, chaincode_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[int], Network]]:
    """Starts a network of so many organisations, or gives the one that runs already."""
    if request.param == "native" and not os.environ.get(BIN):
        pytest.skip(TO_SET)
    running: dict[int, Network] = {}
    with ExitStack() as cleanup:

        def start(orgs: int) -> Network:
            if orgs not in running:
                while running:  # two real networks are more than a small machine bears
                    running.popitem()
                    cleanup.pop_all().close()
                made = NETWORKS[request.param](chaincode_binary, tmp_path_factory.mktemp("network"), orgs)
                running[orgs] = cleanup.enter_context(made)
                register_policy(made.profile("Admin"))
            return running[orgs]

        yield start


@pytest.fixture
def network(started: Callable[[int], Network]) -> Network:
    return started(1)


Connect = Callable[..., RawClient]


@pytest.fixture
def connect(network: Network) -> Iterator[Connect]:
    with ExitStack() as cleanup:

        def make(
            user: str = "User1",
            sign_as: Callable[[Signer], Signer] = lambda signer: signer,
            edit: EditHeaders | None = None,
            **changes: Any,
        ) -> RawClient:
            profile = network.profile(user)
            made = RawClient(replace(profile, signer=sign_as(profile.signer), **changes), edit)
            cleanup.callback(made.close)
            return made

        yield make


@pytest.fixture
def client(connect: Connect) -> RawClient:
    return connect()
