"""Faust's consumer with a cheaper way from what was fetched into the agent's queue.

For each message Faust makes a task of its delivery and three more of what may end the wait for it (a rebalance, a
stop, a crash). Nearly always there is room in the queue and the delivery never waits at all. So its first step is
taken here and now; only one that has to wait goes the old way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
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


class DrainingConsumer(StepsFirst, Consumer):
    """What `streams.faust_app` has Faust read with."""
