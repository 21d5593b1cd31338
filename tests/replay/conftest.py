"""The shipped suite, run once by each version of the deterministic system."""

import asyncio
from pathlib import Path

import pytest

from glassbox.replay.evaluate import Evaluation, evaluate
from glassbox.replay.store import Run, RunStore
from glassbox.replay.suite import Suite, load_suite
from glassbox.replay.systems.extractive import VARIANTS, ExtractiveSystem
from glassbox.replay.trace import Trace
from tests.replay.builders import NOW, manifest

DURATION_MS = 2.0


@pytest.fixture(scope="session")
def tidewell() -> Suite:
    return load_suite("tidewell")


@pytest.fixture(scope="session")
def runs(tidewell: Suite, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Version -> folder of its run."""
    folder = tmp_path_factory.mktemp("runs")
    return {version: asyncio.run(_run(folder / version, tidewell, version)) for version in VARIANTS}


@pytest.fixture(scope="session")
def evaluations(tidewell: Suite, runs: dict[str, Path]) -> dict[str, Evaluation]:
    return {version: evaluate(Run.open(folder, tidewell), tidewell) for version, folder in runs.items()}


async def _run(folder: Path, suite: Suite, version: str) -> Path:
    system = ExtractiveSystem(suite, version)
    with RunStore.create(folder, manifest(suite, run_id=f"run-{version}", system=system.reference)) as store:
        for case in suite.cases.values():
            made = await system.answer(case.question)
            store.append(Trace(case=case.id, suite=suite.digest, duration_ms=DURATION_MS, invocation=made))
        store.finish(NOW)
    return folder
