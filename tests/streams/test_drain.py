"""A delivery that need not wait costs no task; one that must wait ends as Faust's own would, also when the queues are
full and partitions move."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mode import Service

from streams.drain import StepsFirst
from tests.kafka import Kafka
from tests.pipeline import Pipeline, request, until


class Plain(Service):
    """Faust's own way, to compare with."""


class Stepping(StepsFirst, Service):
    """Ours."""


@pytest.fixture(params=[Plain, Stepping])
async def service(request: pytest.FixtureRequest) -> AsyncIterator[Service]:
    made: Service = request.param()
    await made.start()
    yield made
    await made.stop()


class Delivery:
    """Puts what it was given into a list, after each of the futures has come."""

    def __init__(self, *futures: asyncio.Future[str]) -> None:
        self.futures, self.log = futures, list[str]()

    async def __call__(self) -> None:
        try:
            for future in self.futures:
                try:
                    self.log.append(await future)
                except ValueError as error:
                    self.log.append(str(error))
            self.log.append("delivered")
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise


def futures(count: int) -> list[asyncio.Future[str]]:
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


async def waiting(service: Service, delivery: Delivery, suspended: asyncio.Event) -> asyncio.Task[object]:
    """`wait_first` as the drain calls it, once it waits."""
    task = asyncio.create_task(service.wait_first(delivery(), suspended.wait()))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_delivers_at_once(service: Service) -> None:
    delivery = Delivery()
    await service.wait_first(delivery(), asyncio.Event().wait())
    assert delivery.log == ["delivered"]


async def test_makes_no_task_where_nothing_waits() -> None:
    service, delivery, made = Stepping(), Delivery(), []
    loop = asyncio.get_running_loop()
    loop.set_task_factory(lambda loop, work, **more: made.append(work) or asyncio.Task(work, loop=loop, **more))
    try:
        await service.wait_first(delivery(), asyncio.Event().wait())
    finally:
        loop.set_task_factory(None)
    assert (delivery.log, made) == (["delivered"], [])


async def test_waits_for_room(service: Service) -> None:
    delivery = Delivery(*(room := futures(3)))
    task = await waiting(service, delivery, asyncio.Event())
    room[0].set_result("first")
    room[1].set_exception(ValueError("second"))
    await asyncio.sleep(0)
    assert not task.done()
    room[2].set_result("third")
    await task
    assert delivery.log == ["first", "second", "third", "delivered"]


async def test_a_rebalance_ends_the_wait(service: Service) -> None:
    delivery, suspended = Delivery(*futures(1)), asyncio.Event()
    task = await waiting(service, delivery, suspended)
    suspended.set()
    await task
    await asyncio.sleep(0)
    assert delivery.log == ["cancelled"]


async def test_a_stop_ends_the_wait(service: Service) -> None:
    delivery = Delivery(*futures(1))
    task = await waiting(service, delivery, asyncio.Event())
    await service.stop()
    await task
    await asyncio.sleep(0)
    assert delivery.log == ["cancelled"]


async def test_a_cancelled_drain_cancels_the_delivery(service: Service) -> None:
    delivery = Delivery(*futures(1))
    task = await waiting(service, delivery, asyncio.Event())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert delivery.log == ["cancelled"]


@pytest.mark.parametrize("waits", [False, True])
async def test_an_error_comes_through(service: Service, waits: bool) -> None:
    (room,) = futures(1)

    async def broken() -> None:
        if waits:
            await room
        raise LookupError("no such channel")

    task = asyncio.create_task(service.wait_first(broken(), asyncio.Event().wait()))
    await asyncio.sleep(0)
    room.set_result("room")
    with pytest.raises(LookupError, match="no such channel"):
        await task


CALIBRATED = """
[policy.calibrated]
deadline_s = 600
[policy.calibrated.judges.contextual_precision.parts.llm_relevance]
enabled = false
[policy.calibrated.judges.semantic_faithfulness]
enabled = false
[policy.calibrated.judges.structural_fidelity]
enabled = false
"""
COUNT = 700
"""More than the queues of two partitions hold, so that the drain has to wait."""
CONSUMED = "glassbox_messages_consumed_total"


@pytest.mark.timeout(600)
def test_partitions_move_while_the_queues_are_full(kafka: Kafka, tmp_path: Path) -> None:
    (tmp_path / "glassbox.toml").write_text(CALIBRATED)
    environment = {
        "GLASSBOX_CONFIG": str(tmp_path / "glassbox.toml"),
        "GLASSBOX_POLICY": "calibrated",
        "GLASSBOX_PARTITIONS": "2",
    }
    broker = kafka.empty()
    one_at_a_time = {"GLASSBOX_WORKER_POOL": "1"}
    pipeline = Pipeline(
        tmp_path,
        environment=environment,
        broker=type(broker)(broker.address, partitions=2),
        of_role=lambda name: one_at_a_time if name.startswith("calibration") else {},
    )
    workers = ["calibration", "calibration-2"]
    try:
        pipeline.start(["intake", "join", "committer"])
        with pipeline.watching() as read:
            pipeline.publish(request(f"e{n}") for n in range(COUNT))
            until(lambda: pipeline.metric("intake", "glassbox_requests_total") == COUNT, 200, "all announced")
            pipeline.start(workers)
            until(lambda: all(pipeline.metric(name, CONSUMED) for name in workers), 60, "both take tasks")
            pipeline.kill("calibration-2", signal.SIGTERM)
            settled = read(lambda s: len(s.receipts) == COUNT, 200)
        assert len(settled.receipts) == COUNT
        assert not settled.dead
        assert all(len(digests) == 1 for digests in settled.digests.values())
        assert {part["cause"] for record in settled.records.values() for part in record["parts"]} == {None}
    finally:
        pipeline.close()
