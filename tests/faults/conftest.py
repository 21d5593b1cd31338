from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from tests.faults.gates import Gate, Gates, seed_of_run, small_disk
from tests.kafka import Kafka, lacking
from tests.ledger.fabric.fixtures import (
    chaincode_binary,
    fabric_network,
    fabric_network_of_two,
    pytest_collection_modifyitems,
)

__all__ = ["chaincode_binary", "fabric_network", "fabric_network_of_two", "pytest_collection_modifyitems"]


@pytest.fixture(scope="package")
def one_broker(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], NoReturn]) -> Iterator[Kafka]:
    """Kept by the gates for themselves: the topics of one broker for all are emptied between tests."""
    if sentence := lacking():
        missing(sentence)
    with Kafka(tmp_path_factory.mktemp("gates-kafka")) as kafka:
        yield kafka


@pytest.fixture(scope="package")
def gates(one_broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gates]:
    """One pipeline for all gates. Its data folder is a small disk of its own where this user may mount one."""
    made = Gates(one_broker.broker, tmp_path_factory.mktemp("gates"))
    with small_disk(made.data):
        try:
            made.start()
            yield made
        finally:
            made.close()


@pytest.fixture
def gate(gates: Gates, request: pytest.FixtureRequest) -> Iterator[Gate]:
    """The test's own requests to the shared pipeline."""
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))
    with gates.asking(name[:80], seed_of_run()) as gate:
        yield gate
    if not gate.settled:
        gates.mend()
