"""Evaluations per second and their time against the number of grounding workers, with a model that takes 200 ms a call.

A worker takes one task at a time, so that the model's time and not this machine's cores limits each of them: what is
measured is how the tasks spread over workers, not how fast one of them is.
"""

from __future__ import annotations

import os
import signal
import statistics
from pathlib import Path

import pytest

from tests.bench.grounded import LATENCY_S, grounded
from tests.bench.processes import peak_mb
from tests.kafka import Kafka
from tests.pipeline import Pipeline, get, request, until

COUNT = int(os.environ.get("BENCH_EVALUATIONS", "120"))
WORKERS = (1, 2, 4)

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


def measure(pipeline: Pipeline, prefix: str) -> tuple[float, float, float]:
    """Evaluations per second from the first request to the last receipt, and the median and 99th percentile of the
    seconds from a request to its receipt."""
    names = [f"{prefix}{n}" for n in range(COUNT)]
    with pipeline.watching() as read:
        sent = pipeline.publish(request(name, query=f"Who wrote the first program, {name}?") for name in names)
        settled = read(lambda s: len(s.receipts) == COUNT, 900)
    assert (len(settled.receipts), settled.dead) == (COUNT, {})
    assert {part["cause"] for record in settled.records.values() for part in record["parts"]} == {None}
    took = [settled.arrived[name] - at for name, at in zip(names, sent, strict=True)]
    return (
        COUNT / (max(settled.arrived.values()) - sent[0]),
        statistics.median(took),
        statistics.quantiles(took, n=100)[98],
    )


def test_workers_share_the_tasks(kafka: Kafka, model: str, tmp_path: Path) -> None:
    environment = grounded(tmp_path, model)
    one_at_a_time = {"GLASSBOX_WORKER_POOL": "1"}
    pipeline = Pipeline(
        tmp_path, "real", environment, kafka.empty(), lambda name: one_at_a_time if name.startswith("grounding") else {}
    )
    measured: dict[int, tuple[float, float, float]] = {}
    try:
        pipeline.start(["intake", "join", "committer"])
        workers = [f"grounding-{n}" for n in range(max(WORKERS))]
        for name in workers:
            pipeline.start_role(name)
        for name in workers:  # each loads large libraries, all at once
            until(lambda port=pipeline.ports[name]: get(port, "/ready")[0] == 200, 600, f"{name} ready")
        for count in sorted(WORKERS, reverse=True):
            while len(workers) > count:
                ended = pipeline.roles[workers.pop()]
                ended.send(signal.SIGTERM)
                until(lambda ended=ended: not ended.running, 120, f"{ended.name} gives its partitions up")
            measured[count] = measure(pipeline, f"w{count}-")
            print(f"\n{count} workers: {measured[count][0]:.2f} evaluations/s", end="")
            if count == max(WORKERS):
                used = [f"{name:12} peak {peak_mb(child):.0f} MB" for name, child in pipeline.roles.items()]
    finally:
        pipeline.close()
    print(f"\n{COUNT} evaluations, {LATENCY_S * 1000:g} ms a call of the model")
    print(f"{'workers':>7}{'evaluations/s':>15}{'efficiency':>12}{'median s':>10}{'p99 s':>8}")
    for count, (rate, median, late) in sorted(measured.items()):
        print(f"{count:7}{rate:15.2f}{rate / (count * measured[1][0]):12.2f}{median:10.1f}{late:8.1f}")
    print("\n".join([*used, f"load of the machine {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"]))
    assert measured[4][0] > measured[1][0]
