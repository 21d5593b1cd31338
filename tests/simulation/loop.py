"""A deterministic event loop in virtual time that runs many simulated processes, each of which may die or stand still
between any two steps."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

_PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Process:
    """One life of a simulated operating-system process. What it left to be done is never done once it is dead, not
    even its `finally` blocks: SIGKILL runs no code."""

    __slots__ = ("alive", "context", "frozen", "name", "parked", "skew")

    def __init__(self, name: str) -> None:
        self.name, self.alive, self.frozen, self.skew = name, True, False, 0.0
        self.parked: list[Handle] = []
        self.context = contextvars.Context()
        self.context.run(_PROCESS.set, self)


def current() -> Process:
    """The process whose code is running."""
    process = _PROCESS.get()
    assert process is not None
    return process


class Handle(list[Any]):
    """What `call_soon` and `call_at` return, [callback, arguments, context]: asyncio asks no more of it than this."""

    __slots__ = ()

    def cancel(self) -> None:
        self[0] = None

    def cancelled(self) -> bool:
        return self[0] is None


class SimLoop(asyncio.AbstractEventLoop):
    """Time moves only when nothing is left to do now. `on_step(process)` is asked before each step of a process: true
    means that the process has just died, and the step is not taken."""

    def __init__(self, on_step: Callable[[Process], bool]) -> None:
        self._now, self._count, self._on_step = 0.0, 0, on_step
        self._ready: deque[Handle] = deque()
        self._later: list[tuple[float, int, Handle | None, Callable[..., Any], Any]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.complaints: list[str] = []

    # what asyncio asks of a loop

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def call_soon(self, callback: Any, *args: Any, context: contextvars.Context | None = None) -> Any:
        handle = Handle((callback, args, contextvars.copy_context() if context is None else context))
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None) -> Any:
        handle = Handle((callback, args, contextvars.copy_context() if context is None else context))
        self._count += 1
        heapq.heappush(self._later, (when, self._count, handle, callback, args))
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "exception" in context:
            self.complaints.append(repr(context["exception"]))

    # what the simulation asks

    def world(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call back outside any process: the network, the broker, the hardware."""
        self.world_at(self._now + delay, callback, *args)

    def world_at(self, when: float, callback: Callable[..., Any], *args: Any) -> None:
        """The same; what is due at the same moment happens in the order of these calls."""
        self._count += 1
        heapq.heappush(self._later, (when, self._count, None, callback, args))

    def start(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as code of this process."""
        return self.create_task(work, context=process.context)

    def thaw(self, process: Process) -> None:
        """SIGCONT: what came due meanwhile happens now, in its order."""
        process.frozen = False
        self._ready.extend(process.parked)
        process.parked.clear()

    def run(self, until: float) -> bool:
        """Run until nothing is left to do (true) or virtual time passes `until` seconds."""
        ready, later, on_step = self._ready, self._later, self._on_step
        asyncio._set_running_loop(self)
        try:
            while ready or later:
                if ready:
                    handle = ready.popleft()
                else:
                    when, _, due, callback, args = heapq.heappop(later)
                    if when > until:
                        return False
                    if when > self._now:
                        self._now = when
                    if due is None:
                        callback(*args)
                        continue
                    handle = due
                callback, args, context = handle
                if callback is None:
                    continue
                process = context.get(_PROCESS)
                if process is not None:
                    if not process.alive:
                        continue
                    if process.frozen:
                        process.parked.append(handle)
                        continue
                    if on_step(process):
                        continue
                context.run(callback, *args)
            return True
        finally:
            asyncio._set_running_loop(None)

    def close(self) -> None:
        """Throw away the tasks of the dead, whose `finally` blocks touch nobody now."""
        for task in reversed(self._tasks):
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine: Any = task.get_coro()
                for _ in range(4):  # a task group waits in its `finally`, once
                    with suppress(BaseException):
                        coroutine.close()
                        break
        self._tasks.clear()
        self._ready.clear()
        self._later.clear()
