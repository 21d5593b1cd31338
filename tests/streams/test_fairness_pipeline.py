"""A flood of one tenant on the real roles and brokers, and what another tenant's single request sees of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.roles import ROLES
from tests.kafka import EITHER
from tests.pipeline import Pipeline, Settled, get, request, until

FLOOD = 300
BURST = 20
"""More than a tenant's share of all partitions together."""
_MOVED = 'glassbox_requests_total{result="bulk"}'


@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", EITHER)
def test_a_flood_that_no_judge_comes_to_the_end_of_holds_up_nobody_else(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    broker = request.getfixturevalue("kafka").empty() if where == "kafka" else None
    hold = tmp_path / "hold"
    hold.touch()
    environment = {
        "GLASSBOX_TENANT_RATE": "0.0001",
        "GLASSBOX_TENANT_BURST": "4",
        "GLASSBOX_WORKER_POOL": "16",
        "FAULT_HOLD": str(hold),
    }
    pipeline = Pipeline(tmp_path, "faulty", environment, broker)
    try:
        pipeline.start(ROLES)
        with pipeline.watching() as read:
            pipeline.publish(asked(f"a{number}", "a", "Quickly.") for number in range(BURST))
            assert len(read(lambda s: len(s.receipts) == BURST, 120).receipts) == BURST
            pipeline.publish(asked(f"a{BURST + number}", "a", "hold:terminology") for number in range(FLOOD))
            until(lambda: _moved(pipeline) >= FLOOD, 120, "the flood is in the bulk lane")
            until(lambda: pipeline.metric("terminology", "glassbox_unacknowledged_messages") >= 15, 60, "a full pool")
            pipeline.publish([asked("b", "b", "At once.")])
            settled = read(lambda s: "b" in s.receipts, 120)
            assert len(settled.receipts) == BURST + 1, "the other tenant's receipt comes before any of the flood's"
            hold.unlink()
            settled = read(lambda s: len(s.receipts) == BURST + FLOOD + 1, 180)
        _each_is_judged(settled)
    finally:
        pipeline.close()


def _each_is_judged(settled: Settled) -> None:
    """What waited came to the same end as everything else: no verdict is missing, nothing was judged twice."""
    assert set(settled.receipts) == {"b", *(f"a{number}" for number in range(BURST + FLOOD))}
    assert not settled.dead
    assert "incomplete" not in {record["outcome"] for record in settled.records.values()}
    assert all(len(digests) == 1 for digests in settled.digests.values())


def _moved(pipeline: Pipeline) -> float:
    body = get(pipeline.ports["intake"], "/metrics")[1]
    return sum(float(line.split()[1]) for line in body.splitlines() if line.startswith(_MOVED))


def asked(name: str, tenant: str, answer: str) -> dict[str, object]:
    return request(name, tenant=tenant, answer=answer)
