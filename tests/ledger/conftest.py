import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from ledger.objects import BucketStore, Objects
from tests.ledger.fabric.fixtures import (
    chaincode_binary,
    fabric,
    fabric_network,
    fabric_network_of_two,
    fabric_of_two,
    pytest_collection_modifyitems,
)
from tests.ledger.s3 import S3, lacking

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
def s3(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], NoReturn]) -> Iterator[S3]:
    """An S3-compatible server without a bucket."""
    if sentence := lacking():
        missing(sentence)
    with S3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> BucketStore:
    """An empty store in a bucket."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return BucketStore(Objects(f"{s3.bucket('evidence')}/{secrets.token_hex(8)}", "GLASSBOX_EVIDENCE_URL"))


@pytest.fixture(scope="session")
def hfc_python(missing: Callable[[str], NoReturn]) -> Path:
    """The interpreter of the environment that hfc is in."""
    if not HFC_PYTHON.exists():
        missing("hfc is not installed: make hfc")
    return HFC_PYTHON
