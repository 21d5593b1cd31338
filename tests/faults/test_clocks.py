"""Wall clocks that jump, and a deadline that passes while nobody is there to see it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.faults.gates import ROLES, Gate, Gates
from tests.pipeline import until

pytestmark = pytest.mark.timeout(600)

DAY_S = 86400
JUMPS = [DAY_S, -2 * DAY_S, 0, 400 * DAY_S, -30 * 365 * DAY_S]
"""Seconds."""
DEADLINE_S = 4  # of the policy `quick`
GIVEN_UP_S = 0.9 * DEADLINE_S
"""When a worker says `timeout`: a tenth of the time is kept for sending it."""


def test_wall_clocks_that_jump_decide_nothing(gates: Gates, gate: Gate) -> None:
    clock = gates.folder / "clock"
    clock.write_text(str(5 * 3600))
    began = datetime.now(UTC)
    gates.replace(*ROLES, environment={"FAULT_CLOCK": str(clock)})
    for jump in gate.random.sample(JUMPS, len(JUMPS)):
        gates.hold_up("terminology", "structure")
        gate.publish(5, "hold:terminology", policy="quick")
        gate.publish(10, "hold:structure")
        until(lambda: gates.in_flight("structure") >= 10, 60, "tasks are in flight")
        clock.write_text(str(jump))
        gate.publish(10)
        gates.hold.unlink()
    seen = gate.settle()
    for record in seen.records.values():
        assert began < moment(record["requested_at"]) <= moment(record["closed_at"]) < datetime.now(UTC)
        took_s = (moment(record["closed_at"]) - moment(record["requested_at"])).total_seconds()
        assert took_s >= GIVEN_UP_S or record["outcome"] != "incomplete"
    gates.replace(*ROLES, environment={})


def moment(text: Any) -> datetime:
    return datetime.fromisoformat(text)


def test_a_deadline_that_passes_while_everything_is_down(gates: Gates, gate: Gate) -> None:
    pipeline = gates.pipeline
    gates.hold_up("terminology", "structure")
    gate.publish(20, "hold:terminology", policy="quick")
    until(lambda: pipeline.metric("join", "glassbox_open_windows") == 20, 60, "all are open")
    gates.kill(*ROLES)
    down = time.monotonic()
    gates.hold.unlink()
    waiting = gate.publish(20)  # no clock runs before intake has seen them
    # what was open ends by its answers or by the timer, whichever reaches the log first
    until(lambda: time.monotonic() > down + DEADLINE_S, 2 * DEADLINE_S, "the deadline has passed")
    pipeline.start(ROLES)
    seen = gate.settle()
    assert "incomplete" not in {seen.records[name]["outcome"] for name in waiting}
