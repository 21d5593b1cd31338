"""Schedules by seed: nothing is lost, doubled, mixed up or left open, whatever fails."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.many import Summary, many, shrink
from tests.simulation.mutants import MUTANTS, mutated
from tests.simulation.plan import PROFILES, draw, shares
from tests.simulation.schedule import run

SCHEDULES = int(os.environ.get("SCHEDULES", "5000"))
CAUGHT_WITHIN = 400
"""Schedules of its profile within which every mutant is caught."""

FOUND = {
    ("epochs", 1376): "work that a rebalance cancelled before its first step kept its slot for ever",
    ("mixed", 56): "the second of two tasks that kill wiped the count of the first, which was then run for ever",
}
"""Schedules that broke something once."""


@pytest.mark.timeout(1500)
def test_every_schedule_keeps_the_promise() -> None:
    total = Summary()
    for part in many(shares(SCHEDULES), first=0, processes=os.cpu_count() or 1):
        total.add(part)
    assert total.schedules == SCHEDULES
    assert not total.broken, str(total)


@pytest.mark.parametrize(("profile", "seed"), FOUND)
def test_what_was_found_once_stays_mended(profile: str, seed: int) -> None:
    assert not run(draw(PROFILES[profile], seed)).broken


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str) -> None:
    profile, _ = MUTANTS[mutant]
    with mutated(mutant):
        assert any(run(draw(PROFILES[profile], seed)).broken for seed in range(CAUGHT_WITHIN))


def test_a_seed_is_one_schedule_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "11", "--trace"]
    traces = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=50)
        for seed in ("1", "2")
    ]
    # digests and intake runs are secrets, made anew each time
    first, second = ([line.split()[:5] for line in trace.stdout.splitlines()] for trace in traces)
    assert len(first) > 50
    assert first == second


def test_a_failing_schedule_is_made_small() -> None:
    with mutated("two scorecards of one id in a batch"):
        plan = next(
            plan
            for plan in (draw(PROFILES["batches"], seed) for seed in range(CAUGHT_WITHIN))
            if "a second record of one id" in run(plan).broken
        )
        small = shrink(plan, "a second record of one id")
        assert "a second record of one id" in run(small).broken
    assert len(small.events) <= len(plan.events)
    assert not run(small).broken
