from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.ledger.fabric.fixtures import (
    chaincode_binary,
    fabric,
    fabric_network,
    fabric_network_of_two,
    fabric_of_two,
    pytest_collection_modifyitems,
)

HFC_PYTHON = Path(__file__).parents[2] / ".venv-hfc" / "bin" / "python"

__all__ = [
    "chaincode_binary",
    "fabric",
    "fabric_network",
    "fabric_network_of_two",
    "fabric_of_two",
    "hfc_python",
    "pytest_collection_modifyitems",
]


@pytest.fixture(scope="session")
def hfc_python(missing: Callable[[str], NoReturn]) -> Path:
    """The interpreter of the environment that hfc is in."""
    if not HFC_PYTHON.exists():
        missing("hfc is not installed: make hfc")
    return HFC_PYTHON
