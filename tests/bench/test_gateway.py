"""Accepted requests a second on one core over a real Kafka, and none lost when the broker is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.gateway.load import Load, gateway_on, in_the_log
from tests.kafka import Kafka, lacking

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_accepted_requests(tmp_path: Path) -> None:
    if sentence := lacking():
        pytest.skip(sentence)
    with Kafka(tmp_path / "kafka") as kafka, gateway_on(kafka, tmp_path) as (pipeline, port):
        process = pipeline.roles["gateway"].process
        assert process is not None
        await Load(port).run(producers=16, for_s=2)
        steady = Load(port)
        spent, began = processor_s(process.pid), time.monotonic()
        await steady.run(producers=16, for_s=10)
        spent, took = processor_s(process.pid) - spent, time.monotonic() - began
        times = sorted(steady.seconds)
        rate, p50, p99 = len(times) / spent, times[len(times) // 2], times[len(times) * 99 // 100]
        print(f"\n{len(times):,} accepted in {took:.0f} s from 16 producers: {rate:,.0f} a second of one core's time")
        print(f"p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
        shaken = Load(port)
        posting = asyncio.create_task(shaken.run(producers=16, for_s=20))
        await asyncio.sleep(3)
        await asyncio.to_thread(kafka.kill, 1)
        await asyncio.sleep(1)
        await asyncio.to_thread(kafka.start, 1)
        await posting
        await asyncio.to_thread(kafka.wait)
        lost = shaken.accepted - await asyncio.to_thread(in_the_log, kafka)
        print(f"broker killed: answers {dict(shaken.answers)}; of {len(shaken.accepted):,} accepted {len(lost)} lost")
        assert not lost
