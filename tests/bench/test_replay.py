"""Stored runs of 1,000 and 10,000 traces: time and peak memory of evaluating and comparing two of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glassbox.contract.canonical import canonical
from glassbox.replay.store import RunStore
from glassbox.replay.suite import CASES, CORPUS, Case, load_suite
from glassbox.replay.systems.extractive import ExtractiveSystem
from glassbox.replay.trace import Invocation, Trace
from tests.replay.builders import NOW, manifest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SIZES = (1_000, 10_000)


def answers(version: str, questions: list[str]) -> list[Invocation]:
    system = ExtractiveSystem(load_suite("tidewell"), version)

    async def ask() -> list[Invocation]:
        return [await system.answer(question) for question in questions]

    return asyncio.run(ask())


def runs(folder: Path, size: int) -> None:
    """A suite of `size` cases, and runs v2 and v3 over it; the shipped suite over and over."""
    shipped = load_suite("tidewell")
    cases = list(shipped.cases.values())
    many = [cases[n % len(cases)].model_copy(update={"id": f"case-{n}"}) for n in range(size)]
    folder.mkdir()
    for name, lines in ((CASES, many), (CORPUS, list(shipped.corpus.values()))):
        (folder / name).write_bytes(b"".join(canonical(line.model_dump(mode="json")) + b"\n" for line in lines))
    suite = load_suite(folder)
    for version in ("v2", "v3"):
        made = answers(version, [case.question for case in cases])
        system = ExtractiveSystem(shipped, version).reference
        with RunStore.create(folder / version, manifest(suite, system=system)) as store:
            for n, case in enumerate(suite.cases.values()):
                store.append(trace(case, suite.digest, n, made[n % len(made)]))
            store.finish(NOW)


def trace(case: Case, suite: str, n: int, made: Invocation) -> Trace:
    """Each answer differs from all others, so that nothing is measured from a cache."""
    return Trace(
        case=case.id,
        suite=suite,
        duration_ms=10 + n % 97,
        invocation=made.model_copy(update={"answer": f"{made.answer} Case {n}."}),
    )


def measured(*arguments: str) -> tuple[float, float, int]:
    """Seconds of processor time, peak memory in MiB and exit code of the command, in a process of its own."""
    child = subprocess.Popen([sys.executable, "-m", "glassbox.cli", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, child.returncode


def test_evaluating_and_comparing_stored_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # making the runs is not what is measured
    spent = {}
    for size in SIZES:
        folder = tmp_path / str(size)
        runs(folder, size)
        paths = (str(folder / "v2"), str(folder / "v3"), "--suite", str(folder))
        started = time.perf_counter()
        seconds, peak, code = measured("replay", "gate", *paths)
        wall = time.perf_counter() - started
        assert code == 1
        spent[size] = seconds, peak
        print(f"\nreplay gate, two runs of {size:,} traces: {seconds:.1f} s of CPU, {wall:.1f} s, peak {peak:.0f} MiB")
    few, many = (spent[size] for size in SIZES)
    print(f"10 times the traces: {many[0] / few[0]:.1f} times the time, {many[1] - few[1]:.0f} MiB more")
    assert many[0] < 15 * few[0]
    assert many[1] < 1024
