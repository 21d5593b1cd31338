"""A committer that dies between append and receipt, and a ledger that cannot be written for a while."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import NoReturn

import pytest

from tests.faults.gates import Gate, Gates, full
from tests.pipeline import get, until

pytestmark = pytest.mark.timeout(600)


def test_a_committer_killed_between_append_and_receipt(gates: Gates, gate: Gate) -> None:
    pipeline = gates.pipeline
    gates.replace("committer", environment={"FAULT_DIES": "before glassbox.receipts 20"})
    gate.publish(60)
    until(lambda: not pipeline.roles["committer"].running, 60, "the committer died at its twentieth receipt")
    pipeline.start_role("committer", {})
    assert gate.settle().results["exists"] > 0


def says(gates: Gates, sentence: str) -> None:
    """Wait until the committer says what hinders it; it lives meanwhile."""
    port = gates.pipeline.ports["committer"]
    until(lambda: sentence in get(port, "/ready")[1], 60, f"{sentence!r}: {get(port, '/ready')}")
    assert get(port, "/live") == (200, "ok\n")


def test_a_locked_database_is_waited_for(gates: Gates, gate: Gate) -> None:
    gate.publish(5)
    with closing(sqlite3.connect(gates.data / "ledger" / "ledger.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = gate.publish(20)
        says(gates, "another program holds it locked")
        assert not gate.seen.receipts.keys() & set(waiting)
        other.execute("ROLLBACK")
    gate.settle()


def test_a_full_disk_is_waited_for(gates: Gates, gate: Gate, missing: Callable[[str], NoReturn]) -> None:
    if not os.path.ismount(gates.data):
        missing("a small disk of its own takes root and the right to mount")
    gate.publish(5)
    gate.answered(5)
    gates.hold_up("terminology")
    gate.publish(20, "hold:terminology")  # with their content in the store, to meet the full disk in the worker
    until(lambda: gates.in_flight("terminology") >= 20, 60, "tasks are in flight")
    with full(gates.data) as fill:

        def in_trouble(role: str) -> bool:
            fill()
            return gates.pipeline.metric(role, "glassbox_evidence_store_trouble_total") > 0

        gate.publish(20)  # to meet it in intake
        until(lambda: in_trouble("intake"), 60, "intake is in trouble")
        gates.hold.unlink()
        until(lambda: in_trouble("terminology"), 60, "so is the worker")
    gate.settle()


def test_a_full_disk_under_the_ledger_alone_is_waited_for(
    gates: Gates, gate: Gate, missing: Callable[[str], NoReturn]
) -> None:
    if not os.path.ismount(gates.data):
        missing("a small disk of its own takes root and the right to mount")
    pipeline = gates.pipeline
    gates.kill("committer")
    gate.publish(60)
    until(lambda: gates.backlog().keys() == {"committer"}, 60, "all scorecards wait for the committer")
    with full(gates.data):
        pipeline.start_role("committer")
        says(gates, "the disk is full")
    gate.settle()
