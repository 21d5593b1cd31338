"""On a real Kafka that is killed and comes back: what was accepted is in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.gateway.load import Load, gateway_on, in_the_log
from tests.kafka import Kafka, lacking


@pytest.mark.timeout(300)
async def test_nothing_accepted_is_lost_when_the_broker_is_killed(
    tmp_path: Path, missing: Callable[[str], NoReturn]
) -> None:
    if sentence := lacking():
        missing(sentence)
    with Kafka(tmp_path / "kafka") as kafka, gateway_on(kafka, tmp_path) as (_, port):
        load = Load(port)
        posting = asyncio.create_task(load.run(producers=4, for_s=8))
        while not load.accepted:
            await asyncio.sleep(0.05)
        before = len(load.accepted)
        await asyncio.to_thread(kafka.kill, 1)
        await asyncio.to_thread(kafka.start, 1)
        await asyncio.to_thread(kafka.wait)
        await posting
        if len(load.accepted) == before:
            await load.run(producers=4, for_s=8)
        assert len(load.accepted) > before, load.answers
        assert load.answers.keys() <= {0, 202, 429, 503}
        assert load.accepted - await asyncio.to_thread(in_the_log, kafka) == set()
