from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.parts import Door, door


@pytest.fixture
def open_door(tmp_path: Path) -> Iterator[Door]:
    """For anybody on this machine."""
    with door(tmp_path) as made:
        yield made


@pytest.fixture
def keyed_door(tmp_path: Path) -> Iterator[Door]:
    """For who has an API key."""
    with door(tmp_path, keyed=True) as made:
        yield made
