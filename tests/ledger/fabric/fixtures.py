"""Fixtures: the built chaincode, and one test network a session with an empty ledger for each test.

A conftest.py imports them by name for the tests below it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.ledger.fabric.chaincode_process import GoMissing, build_chaincode
from tests.ledger.fabric.network import TestNetwork

BUILD_TIMEOUT = 180
"""Seconds for a test that may be the one to build the chaincode: Go compiles every dependency the first time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chaincode_binary" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(BUILD_TIMEOUT))


@pytest.fixture(scope="session")
def chaincode_binary(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], NoReturn]) -> Path:
    """The built chaincode."""
    try:
        return build_chaincode(tmp_path_factory.mktemp("chaincode"))
    except GoMissing as error:
        missing(str(error))


@pytest.fixture(scope="session")
def fabric_network(chaincode_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestNetwork]:
    with TestNetwork(chaincode_binary, tmp_path_factory.mktemp("fabric")) as network:
        yield network


@pytest.fixture(scope="session")
def fabric_network_of_two(chaincode_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestNetwork]:
    with TestNetwork(chaincode_binary, tmp_path_factory.mktemp("fabric"), orgs=2) as network:
        yield network


@pytest.fixture
def fabric(fabric_network: TestNetwork) -> TestNetwork:
    """A network of one organisation with an empty ledger."""
    return fabric_network.fresh()


@pytest.fixture
def fabric_of_two(fabric_network_of_two: TestNetwork) -> TestNetwork:
    """A network of two organisations, both of which must endorse, with an empty ledger."""
    return fabric_network_of_two.fresh()
