"""What one tenant's single request waits while another's flood is judged: with lanes and without, against no flood."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.bench.grounded import LATENCY_S, grounded
from tests.kafka import Kafka
from tests.pipeline import Pipeline, request

FLOOD = int(os.environ.get("BENCH_EVALUATIONS", "300"))
POOL = 8
ROLES = ("intake", "grounding", "join", "committer")

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


def asked(names: Iterable[str], tenant: str) -> list[dict[str, object]]:
    return [request(name, tenant=tenant, query=f"Who wrote the first program, {name}?") for name in names]


def measure(folder: Path, kafka: Kafka, model: str, burst: int) -> tuple[float, float, float]:
    """Seconds of a single request without and with a flood in front of it, and of the flood. `burst`: requests of a
    tenant in the main lane, over all partitions."""
    folder.mkdir()
    environment = grounded(folder, model) | {
        "GLASSBOX_WORKER_POOL": str(POOL),
        "GLASSBOX_TENANT_RATE": "0.0001",
        "GLASSBOX_TENANT_BURST": str(burst),
    }
    pipeline = Pipeline(folder, "real", environment, kafka.empty())
    try:
        pipeline.start(ROLES)
        with pipeline.watching() as read:
            pipeline.publish(asked(["warm"], "b"))
            read(lambda s: "warm" in s.receipts, 300)
            (alone,) = pipeline.publish(asked(["alone"], "b"))
            idle = read(lambda s: "alone" in s.receipts, 300).arrived["alone"] - alone
            began = pipeline.publish(asked((f"a{n}" for n in range(FLOOD)), "a"))[0]
            (single,) = pipeline.publish(asked(["single"], "b"))
            settled = read(lambda s: len(s.receipts) == FLOOD + 3, 900)
        assert not settled.dead
        flood = max(at for name, at in settled.arrived.items() if name.startswith("a")) - began
        return idle, settled.arrived["single"] - single, flood
    finally:
        pipeline.close()


def test_a_flood_costs_another_tenant_little(kafka: Kafka, model: str, tmp_path: Path) -> None:
    measured = {
        "one lane": measure(tmp_path / "one", kafka, model, 1_000_000),
        "two lanes": measure(tmp_path / "two", kafka, model, 16),
    }
    print(f"\na flood of {FLOOD} before one request; {LATENCY_S * 1000:g} ms a call, {POOL} tasks at once")
    for lanes, (idle, single, flood) in measured.items():
        print(
            f"{lanes}: alone {idle:.2f} s, behind the flood {single:.2f} s ({single / idle:.1f}x); flood {flood:.1f} s"
        )
    assert measured["two lanes"][1] < measured["one lane"][1] / 2
