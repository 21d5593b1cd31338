"""Workers that die, sleep, come and go while they judge."""

from __future__ import annotations

import signal

import pytest

from tests.faults.gates import Gate, Gates
from tests.pipeline import until

pytestmark = pytest.mark.timeout(600)


def test_a_worker_killed_in_the_middle_of_a_batch(gates: Gates, gate: Gate) -> None:
    gates.hold_up("terminology")
    for _ in range(3):  # done and undone ones side by side in each partition
        gate.publish(8, "hold:terminology")
        gate.publish(8)
    until(lambda: gates.in_flight("terminology") >= 24, 60, "a batch is in the middle")
    gates.kill("terminology")
    gates.hold.unlink()
    gates.pipeline.start_role("terminology")
    gate.settle()


def test_a_worker_that_slept_past_its_session_is_a_zombie(gates: Gates, gate: Gate) -> None:
    gates.hold_up("structure")
    gate.publish(16, "hold:structure")
    until(lambda: gates.in_flight("structure") == 16, 60, "a batch is in the middle")
    sleeper = gates.pipeline.roles["structure"]
    sleeper.send(signal.SIGSTOP)
    gates.hold.unlink()
    gates.pipeline.start_role("structure-2")
    gate.publish(16)
    gate.answered(32)
    sleeper.send(signal.SIGCONT)  # it goes on with what it had, whose answers are there already
    gate.publish(16)
    gate.settle()
    gates.retire("structure-2")


def test_a_judge_scaled_from_one_to_four_and_back_under_load(gates: Gates, gate: Gate) -> None:
    more = [f"terminology-{n}" for n in (2, 3, 4)]
    gate.publish(60)
    for name in more:
        gates.pipeline.start_role(name)
        gate.publish(40)
    for name in ("terminology", *more):
        until(lambda name=name: gates.assigned(name) == 1, 60, f"{name} has its partition")  # type: ignore[misc]
    gate.publish(40)
    for name in more:
        gate.publish(40)
        gates.retire(name)
    gate.publish(40)
    gate.settle()
    assert gates.assigned("terminology") == gates.pipeline.broker.partitions
