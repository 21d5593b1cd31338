"""What every test runs under: no telemetry, no model hub, and a missing component that CI does not forgive."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import hypothesis
import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

    from tests.kafka import Kafka

# Before any test imports them: each of these libraries reads its switch once, at import.
os.environ.update(
    DEEPEVAL_TELEMETRY_OPT_OUT="1",
    DEEPEVAL_DISABLE_DOTENV="1",
    RAGAS_DO_NOT_TRACK="true",
    HF_HUB_OFFLINE="1",
)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # likewise, and each process has a core, not all of them


@pytest.hookimpl(optionalhook=True)  # only pytest-xdist asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    from tests.schedule import FromBothEnds

    return FromBothEnds(config, log)


@pytest.fixture(scope="session")
def missing() -> Callable[[str], NoReturn]:
    """Call with a sentence when a component is not on this machine: skips, but fails where CI=true."""
    return pytest.fail if os.environ.get("CI") == "true" else pytest.skip


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], NoReturn]) -> Path:
    """A folder with `gliner` and `glirel`, models of random weights; made once, from nothing that is fetched."""
    for library in ("gliner", "glirel"):
        if importlib.util.find_spec(library) is None:
            missing(f"{library} is not installed: pip install 'glassbox[models]'")
    from tests.judges.tiny_models import backbone, gliner, glirel

    folder = tmp_path_factory.mktemp("models")
    base = backbone(folder / "backbone")
    gliner(folder / "gliner", base)
    glirel(folder / "glirel", base)
    return folder


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str], NoReturn]) -> Iterator[Kafka]:
    """One Kafka broker with open and secured listeners; `empty()` it before use."""
    from tests.kafka import Kafka, lacking

    if sentence := lacking():
        missing(sentence)
    with Kafka(tmp_path_factory.mktemp("kafka"), secured=True) as broker:
        yield broker


hypothesis.settings.register_profile(
    "default",
    deadline=None,  # a busy machine is not a slow function: speed is measured in tests/bench
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",  # what new examples find is found where somebody looks, not by chance
)
hypothesis.settings.load_profile("default")
