"""Joins that die with evaluations open, and between a scorecard and its acknowledgement."""

from __future__ import annotations

import json

import pytest

from streams.topics import RESULTS
from tests.faults.gates import Gate, Gates
from tests.faults.test_messages import copied, events_of
from tests.pipeline import until

pytestmark = pytest.mark.timeout(600)

OPEN = 2000


def test_one_of_two_joins_killed_between_a_scorecard_and_its_acknowledgement(gates: Gates, gate: Gate) -> None:
    pipeline = gates.pipeline
    pipeline.start_role("join-2", {"FAULT_DIES": "after glassbox.scorecards 20"})
    pipeline.wait_ready("join-2")
    until(lambda: gates.assigned("join-2") == gates.assigned("join") == 2, 60, "the partitions are shared")
    gate.publish(80)
    until(lambda: not pipeline.roles["join-2"].running, 60, "the second join died at its twentieth scorecard")
    gate.publish(20)
    gate.settle()
    del pipeline.roles["join-2"]


def test_a_join_killed_with_thousands_of_open_evaluations(gates: Gates, gate: Gate) -> None:
    pipeline = gates.pipeline
    (model,) = gate.publish(1)
    gate.settle()
    events = events_of(pipeline.broker, model)
    (announced,) = (event for event in events if json.loads(event)["type"] == "announced")
    answers = [event for event in events if event != announced]
    names = gate.fresh(OPEN)
    gate.send(RESULTS, copied([announced, answers[0]], model, names))
    until(lambda: pipeline.metric("join", "glassbox_open_windows") == OPEN, 60, "all are open")
    gates.kill("join")
    pipeline.start_role("join")
    until(lambda: pipeline.metric("join", "glassbox_open_windows") == OPEN, 120, "all are open again")
    gate.send(RESULTS, copied(answers[1:], model, names))
    gate.settle()
