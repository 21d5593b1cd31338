"""What every test runs under: no telemetry, no model hub, and a missing component that CI does not forgive."""

import os
from collections.abc import Callable
from typing import NoReturn

import hypothesis
import pytest

# Before any test imports them: each of these libraries reads its switch once, at import.
os.environ.update(
    DEEPEVAL_TELEMETRY_OPT_OUT="1",
    DEEPEVAL_DISABLE_DOTENV="1",
    RAGAS_DO_NOT_TRACK="true",
    HF_HUB_OFFLINE="1",
)


@pytest.fixture(scope="session")
def missing() -> Callable[[str], NoReturn]:
    """Call with a sentence when a component is not on this machine: skips, but fails where CI=true."""
    return pytest.fail if os.environ.get("CI") == "true" else pytest.skip


# A busy machine is not a slow function: speed is measured in tests/bench.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.load_profile("default")
