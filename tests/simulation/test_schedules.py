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
SHARES = 4
"""Tests that share them, so that processes which run tests side by side share them too."""
CAUGHT_WITHIN = 400
"""Schedules of its profile within which every mutant is caught."""

DRAWN = """
    crash crash_closing zombie freeze outage clock poison erase lose store_down store_slow store_lost_answers
    ledger_down ledger_lost_answers lost_acks late_doubles lost_sends slow_judge failing_judge documents_down
    slow_markers skips redriven
""".split()
REACHED = (
    "records",
    "incomplete",
    "claims",
    "admission waits",
    "closed ids forgotten",
    "documents read",
    "redrive refused",
    *(f"dead letters: {reason}" for reason in ("contract", "too_large", "id_reused", "erased", "request_lost")),
    *(
        f"verdicts: {cause}"
        for cause in "scored timeout malformed_output expired crashed erased request_lost store_unavailable "
        "document_missing document_changed".split()
    ),
)
"""Faults and branches that the schedules of CI reach, each of them many times over."""


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_schedule_keeps_the_promise(share: int) -> None:
    """In this process alone: other tests run beside it."""
    total, schedules = Summary(), SCHEDULES // SHARES
    for part in many(shares(schedules), first=share * schedules, processes=1):
        total.add(part)
    assert total.schedules == schedules
    assert not total.broken, str(total)
    seen = total.counts + total.faults
    assert schedules < 1000 or not [what for what in (*DRAWN, *REACHED) if not seen[what]], str(total)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str) -> None:
    profile, _ = MUTANTS[mutant]
    with mutated(mutant):
        assert any(run(draw(PROFILES[profile], seed)).broken for seed in range(CAUGHT_WITHIN))


def test_a_seed_is_one_schedule_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "10"]
    first, second = (
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=100)
        for seed in ("1", "2")
    )
    assert len(first.stdout.splitlines()) > 50
    assert first.stdout == second.stdout, first.stderr


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
