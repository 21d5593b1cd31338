from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from tests.operations.prometheus import lacking


@pytest.fixture(scope="session")
def prometheus_installed(missing: Callable[[str], NoReturn]) -> None:
    if sentence := lacking():
        missing(sentence)
