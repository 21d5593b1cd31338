"""Batches across evaluations for a model that runs in this process.

Items of concurrent evaluations wait in one place; one thread (a model is not thread safe) runs them in batches of
similar size. What goes wrong with an item stays with the evaluation that it belongs to.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from judges.port import JudgeError

logger = logging.getLogger(__name__)

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")

SHARE = 64
"""Items that one call may have in a round: beside a call of thousands of items a small one is answered soon."""


@dataclass(eq=False)
class _Call(Generic[Result]):
    """One `submit`: its results by item, complete when none of `missing` is left."""

    missing: int
    results: dict[int, Result] = field(default_factory=dict)
    future: Future[list[Result]] = field(default_factory=Future)

    def put(self, index: int, result: Result) -> None:
        self.results[index] = result
        self.missing -= 1
        if not self.missing and self._open():
            self.future.set_result([self.results[n] for n in range(len(self.results))])

    def fail(self, error: JudgeError) -> None:
        if self._open():
            self.future.set_exception(error)

    def _open(self) -> bool:
        return not self.future.done() and self.future.set_running_or_notify_cancel()


@dataclass(frozen=True, eq=False)
class _Piece(Generic[Item, Result]):
    """An item that is run once for all who ask for it, and where each of them wants the result."""

    item: Item
    size: int
    wanted: list[tuple[_Call[Result], int]]

    def put(self, result: Result) -> None:
        for call, index in self.wanted:
            call.put(index, result)

    def fail(self, error: JudgeError) -> None:
        for call, _ in self.wanted:
            call.fail(error)

    def given_up(self) -> bool:
        return all(call.future.done() for call, _ in self.wanted)


class _Queue(NamedTuple, Generic[Item, Result]):
    call: _Call[Result]
    items: deque[tuple[int, Item, int]]
    """Place in the call, item, size."""


class Batcher(Generic[Item, Result]):
    """Runs `run` on batches, never twice at a time, in a thread of its own that the first `submit` starts.

    `run`: items -> as many results, in order. `size`: an item's cost, at least 1 (sub-tokens, say). `budget`: the
    most that a batch may cost, padding counted: items × the largest size; an item beyond it runs alone. `uniform`:
    batches hold items of one size, for a model whose results depend on how far an item is padded. Equal items of
    calls that wait at the same time are run once.

    `out_of_memory`: whether an exception of `run` means that a smaller batch may pass; the budget is then halved
    for good, and the batch run under it. Any other exception makes the batch run in halves, until the item that
    caused it is alone. Results must not depend on the batch: `run` rounds what its batch changes.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        size: Callable[[Item], int],
        budget: int,
        out_of_memory: Callable[[BaseException], bool],
        uniform: bool = False,
    ) -> None:
        self.budget = budget
        self._run, self._size, self._out_of_memory, self._uniform = run, size, out_of_memory, uniform
        self._changed = threading.Condition()
        self._waiting: list[_Queue[Item, Result]] = []
        self._closed = False
        self._thread: threading.Thread | None = None
        self._ended: Future[None] = Future()

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """The results of `items`, in their order. A cancelled call's items are not run any more.

        Raises `JudgeError`: that of `run` for an item, else `crashed` where one failed by itself or the batcher was
        closed.
        """
        if not items:
            return []
        if self._closed:
            raise _closed()
        call: _Call[Result] = _Call(len(items))
        queue = _Queue(call, deque((n, item, max(self._size(item), 1)) for n, item in enumerate(items)))
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="batcher", daemon=True)
            self._thread.start()
        # Not at once: the calls that this turn of the loop is about to make belong to the same batch.
        asyncio.get_running_loop().call_soon(self._wake, queue)
        return await asyncio.wrap_future(call.future)

    async def close(self) -> None:
        """End the thread when its running batch is done; calls that still wait fail."""
        self._closed = True
        self._wake()
        if self._thread is not None:
            await asyncio.shield(asyncio.wrap_future(self._ended))
            self._thread.join()

    def _wake(self, queue: _Queue[Item, Result] | None = None) -> None:
        with self._changed:
            if queue and self._closed:  # the thread may have looked for the last time
                queue.call.fail(_closed())
            elif queue:
                self._waiting.append(queue)
            self._changed.notify()

    def _serve(self) -> None:
        while pieces := self._round():
            # Equal sizes side by side need no padding; the largest come first, because they show what memory holds.
            self._batches(sorted(pieces, key=lambda piece: piece.size, reverse=True))
        self._ended.set_result(None)

    def _round(self) -> list[_Piece[Item, Result]]:
        """The next items of every call that waits; none where the batcher is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                for queue in self._waiting:
                    queue.call.fail(_closed())
                return []
            pieces: dict[Item, _Piece[Item, Result]] = {}
            for call, items in self._waiting:
                for _ in range(min(SHARE, len(items))):
                    index, item, size = items.popleft()
                    piece = pieces.setdefault(item, _Piece(item, size, []))
                    piece.wanted.append((call, index))
            self._waiting = [queue for queue in self._waiting if queue.items and not queue.call.future.done()]
            return list(pieces.values())

    def _batches(self, pieces: Sequence[_Piece[Item, Result]]) -> None:
        start = 0
        while start < len(pieces):
            end = min(start + max(self.budget // pieces[start].size, 1), len(pieces))
            while self._uniform and pieces[end - 1].size != pieces[start].size:
                end -= 1
            self._attempt(pieces[start:end])
            start = end

    def _attempt(self, batch: Sequence[_Piece[Item, Result]]) -> None:
        batch = [piece for piece in batch if not piece.given_up()]
        if not batch:
            return
        if self._closed:
            for piece in batch:
                piece.fail(_closed())
            return
        try:
            results = self._run([piece.item for piece in batch])
            if len(results) != len(batch):
                raise ValueError(f"{len(results)} results for {len(batch)} items")
        except BaseException as error:  # a tokenizer of Rust panics beyond Exception; this thread must not die of it
            # Nothing of the error outlives this block: its traceback holds the tensors of the batch that failed.
            full, name, site = self._out_of_memory(error), type(error).__name__, _site(error)
            known = (error.cause, error.detail) if isinstance(error, JudgeError) else None
        else:
            for piece, result in zip(batch, results, strict=True):
                piece.put(result)
            return
        if len(batch) == 1:
            logger.error("a model failed on one item of size %d: %s%s", batch[0].size, name, site)
            batch[0].fail(JudgeError(*known or ("crashed", "out of memory" if full else name)))
        elif full:
            self.budget = min(self.budget, batch[0].size * len(batch) // 2)
            logger.warning("out of memory: batches of at most %d from now on", self.budget)
            self._batches(batch)
        else:
            self._attempt(batch[: len(batch) // 2])
            self._attempt(batch[len(batch) // 2 :])


def _closed() -> JudgeError:
    return JudgeError("crashed", "the model was closed")


def _site(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
