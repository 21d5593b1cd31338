from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.grounded import slow_model


@pytest.fixture
def model() -> Iterator[str]:
    with slow_model() as url:
        yield url
