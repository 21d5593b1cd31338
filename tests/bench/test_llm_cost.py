"""What judging with a model costs beside the libraries' own runners: 50 evaluations of 3 passages and 4 claims, both
sides on the same model behind the same endpoint, each in a process of its own."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.llm_runs import COUNT

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
CONCURRENCY = 64
CRITICAL_PATH = 2
"""Calls that wait for each other: claims, then verdicts (beside them a question, then its embedding)."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.bench.library_endpoint"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as endpoint:
        assert endpoint.stdout is not None
        yield endpoint.stdout.readline().strip()
        endpoint.terminate()


def run(folder: Path, side: str, url: str, latency_s: float, concurrency: int = CONCURRENCY) -> Any:
    """In `folder`, because libraries write where they run."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.llm_runs", side, url, str(latency_s), str(concurrency)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def calls(measured: Any) -> int:
    counts = measured["counts"]
    return int(counts.get("calls", 0) + counts.get("embedding_calls", 0))


def test_against_the_libraries_own_runners(url: str, tmp_path: Path) -> None:
    ours, theirs = run(tmp_path, "ours", url, 0.05), run(tmp_path, "libraries", url, 0.05)["first"]
    first, second = ours["first"], ours["second"]
    seconds, cpu = theirs["seconds"] / first["seconds"], theirs["cpu"] / first["cpu"]
    tokens = first["counts"]["prompt_tokens"] / theirs["counts"]["prompt_tokens"]
    print(
        f"\ngrounding + relevance at 50 ms a call, {COUNT} evaluations of 3 passages and {first['claims']:.1f} claims:"
        f" {seconds:.1f} times faster than ragas.evaluate + deepeval.evaluate, {cpu:.1f} times less CPU,"
        f" {first['counts']['calls'] / COUNT:g} against {theirs['counts']['calls'] / COUNT:g} LLM calls an evaluation,"
        f" {tokens:.0%} of their prompt tokens; a second run: {calls(second)} calls"
    )
    assert 3.5 <= first["claims"] <= 4.5
    assert seconds >= 4
    assert cpu >= 3
    assert first["counts"]["calls"] <= 4 * COUNT
    assert tokens < 1
    assert first["counts"]["peak"] <= first["peak"] <= CONCURRENCY
    assert calls(second) == 0
    assert second["bytes"] == first["bytes"]
    for mine, library in zip(first["scores"], theirs["scores"], strict=True):
        for part in ("faithfulness", "answer_relevancy"):
            assert float(mine[part]) == pytest.approx(library[part], abs=1e-5), "no metric's definition has changed"


@pytest.mark.parametrize("concurrency", [16, CONCURRENCY])
def test_against_the_ideal(url: str, tmp_path: Path, concurrency: int) -> None:
    """The ideal: the critical path as often as the slots have to be filled. `slots`: how long the calls take if no
    slot is ever free."""
    first = run(tmp_path, "ours", url, 1.0, concurrency)["first"]
    rounds = math.ceil(calls(first) / concurrency)
    ideal, slots = CRITICAL_PATH * rounds, max(CRITICAL_PATH, rounds)
    print(
        f"\nat 1 s a call, {calls(first)} calls, {concurrency} at once: {first['seconds'] / ideal:.2f} times the ideal"
        f" (critical path x rounds), {first['seconds'] / slots:.2f} times what full slots take"
    )
    assert first["seconds"] <= 1.15 * ideal
    assert first["peak"] <= concurrency
