"""Faust's consumer with a cheaper way from what was fetched into the agent's queue.

For each message Faust makes a task of its delivery and three more of what may end the wait for it (a rebalance, a
stop, a crash). Nearly always there is room in the queue and the delivery never waits at all. So its first step is
taken here and now; only one that has to wait goes the old way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import partial
from types import coroutine
from typing import Any, cast

from faust.transport.drivers.aiokafka import Consumer
from mode.services import WaitResults


class StepsFirst:
    """For a `mode.Service`: `wait_first` of two coroutines takes the first step of the first before it makes tasks."""

    async def wait_first(self, *awaited: Any, **options: Any) -> Any:
        """See `mode.Service.wait_first`."""
        among: Any = super()
        if len(awaited) != 2 or not all(map(asyncio.iscoroutine, awaited)) or options:
            return await among.wait_first(*awaited, **options)
        work, other = awaited
        try:
            waits_for = work.send(None)
        except BaseException as end:
            other.close()  # or Python would say that it was never awaited
            if not isinstance(end, StopIteration):
                raise
            stopped = bool(cast(Any, self).should_stop)
            return WaitResults([], [], True) if stopped else WaitResults([work], [end.value], False)
        return await among.wait_first(_rest(work, waits_for), other)


async def _rest(work: Coroutine[Any, Any, Any], waits_for: Any) -> Any:
    return await _resumed(work, waits_for)


@coroutine
def _resumed(work: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """Drive a coroutine on from its first step, at which it said what it waits for."""
    while True:
        try:
            sent = yield waits_for
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            step: Callable[[], Any] = partial(work.throw, error)
        else:
            step = partial(work.send, sent)
        try:
            waits_for = step()
        except StopIteration as end:
            return end.value


_AHEAD = 64
"""Of a lane with so many messages in its agent's queue no more are fetched."""
_AGAIN_S = 0.05
"""How soon it is looked again, while the other lane has nothing."""


class DrainingConsumer(StepsFirst, Consumer):
    """What `streams.faust_app` has Faust read with.

    `queues`: topic -> its agent's queue, where a process works on several. Faust fetches until a queue is full, and
    then nothing is delivered to any: a lane that waits would have the other wait too. So what a full batch could fill
    is not fetched for.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queues: Mapping[str, asyncio.Queue[Any]] = {}

    async def _getmany(self, active_partitions: set[Any] | None, timeout: float) -> Any:  # noqa: ASYNC109 — Faust's
        waits = {topic for topic, queue in self.queues.items() if queue.qsize() >= _AHEAD}
        if not waits or active_partitions is None:
            return await super()._getmany(active_partitions, timeout)
        others = {where for where in active_partitions if where.topic not in waits}
        if not others:
            await asyncio.sleep(_AGAIN_S)
            return {}
        return await super()._getmany(others, _AGAIN_S)
