"""The shipped suite, run once by each version of the deterministic system."""

from pathlib import Path

import pytest

from glassbox.replay.evaluate import Evaluation, EvaluationEngine
from glassbox.replay.store import Run
from glassbox.replay.suite import Suite, load_suite
from glassbox.replay.systems.extractive import VARIANTS
from tests.replay.shipped import run_version


@pytest.fixture(scope="session")
def tidewell() -> Suite:
    return load_suite("tidewell")


@pytest.fixture(scope="session")
def runs(tidewell: Suite, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Version -> folder of its run."""
    folder = tmp_path_factory.mktemp("runs")
    return {version: run_version(folder / version, tidewell, version) for version in VARIANTS}


@pytest.fixture(scope="session")
def evaluations(tidewell: Suite, runs: dict[str, Path]) -> dict[str, Evaluation]:
    engine = EvaluationEngine(tidewell)
    return {version: engine.evaluate(Run.open(folder, tidewell)) for version, folder in runs.items()}
