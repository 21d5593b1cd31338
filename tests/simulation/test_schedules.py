"""Schedules by seed: nothing is lost, doubled, mixed up or left open, whatever fails."""

from __future__ import annotations

import pytest

from tests.simulation.plan import PROFILES, draw
from tests.simulation.schedule import run


@pytest.mark.parametrize("profile", ["calm", "crashes"])
def test_every_schedule_keeps_the_promise(profile: str) -> None:
    for seed in range(200):
        outcome = run(draw(PROFILES[profile], seed))
        assert not outcome.broken, f"python -m tests.simulation {seed} --profile {profile} --trace"
