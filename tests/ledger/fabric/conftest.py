from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.opened import register


@pytest.fixture
async def network(fabric: TestNetwork, tmp_path: Path) -> TestNetwork:
    """With the records' policy on its ledger."""
    await register(fabric, tmp_path)
    return fabric
