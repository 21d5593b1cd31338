"""Runs of the shipped suite by the deterministic system, without a runner."""

import asyncio
from pathlib import Path

from glassbox.replay.store import RunStore
from glassbox.replay.suite import Suite
from glassbox.replay.systems.extractive import ExtractiveSystem
from glassbox.replay.trace import Trace
from tests.replay.builders import NOW, manifest

DURATION_MS = 2.0


def run_version(folder: Path, suite: Suite, version: str) -> Path:
    """The folder, which holds the run then."""
    asyncio.run(_run(folder, suite, version))
    return folder


async def _run(folder: Path, suite: Suite, version: str) -> None:
    system = ExtractiveSystem(suite, version)
    with RunStore.create(folder, manifest(suite, run_id=f"run-{version}", system=system.reference)) as store:
        for case in suite.cases.values():
            made = await system.answer(case.question)
            store.append(Trace(case=case.id, suite=suite.digest, duration_ms=DURATION_MS, invocation=made))
        store.finish(NOW)
