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
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from judges.port import JudgeError

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
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
    call: _Call[Result]
    index: int
    item: Item
    size: int


class Batcher(Generic[Item, Result]):
    """Runs `run` on batches, never twice at a time, in a thread of its own that the first `submit` starts.

    `run`: items -> as many results, in order. `size`: an item's cost, at least 1 (sub-tokens, say). `budget`: the
    most that a batch may cost, padding counted: items × the largest size; an item beyond it runs alone.
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
    ) -> None:
        self.budget = budget
        self._run, self._size, self._out_of_memory = run, size, out_of_memory
        self._changed = threading.Condition()
        self._waiting: list[deque[_Piece[Item, Result]]] = []
        self._closed = False
        self._thread: threading.Thread | None = None
        self._ended: Future[None] = Future()

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """The results of `items`, in their order. A cancelled call's items are not run any more.

        Raises `JudgeError` (crashed) where an item failed by itself or the batcher was closed.
        """
        if not items:
            return []
        call: _Call[Result] = _Call(len(items))
        pieces = deque(_Piece(call, n, item, max(self._size(item), 1)) for n, item in enumerate(items))
        if self._closed:
            raise _closed()
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="batcher", daemon=True)
            self._thread.start()
        # Not at once: the calls that this turn of the loop is about to make belong to the same batch.
        asyncio.get_running_loop().call_soon(self._wake, pieces)
        return await asyncio.wrap_future(call.future)

    async def close(self) -> None:
        """End the thread when its running batch is done; calls that still wait fail."""
        self._closed = True
        self._wake()
        if self._thread is not None:
            await asyncio.shield(asyncio.wrap_future(self._ended))
            self._thread.join()

    def _wake(self, pieces: deque[_Piece[Item, Result]] | None = None) -> None:
        with self._changed:
            if pieces and self._closed:  # the thread may have looked for the last time
                pieces[0].call.fail(_closed())
            elif pieces:
                self._waiting.append(pieces)
            self._changed.notify()

    def _serve(self) -> None:
        while pieces := self._round():
            # Equal sizes side by side need no padding; the largest come first, because they show what memory holds.
            self._batches(sorted(pieces, key=lambda piece: piece.size, reverse=True))
        self._ended.set_result(None)

    def _batches(self, pieces: Sequence[_Piece[Item, Result]]) -> None:
        start = 0
        while start < len(pieces):
            count = max(self.budget // pieces[start].size, 1)
            self._attempt(pieces[start : start + count])
            start += count

    def _round(self) -> list[_Piece[Item, Result]]:
        """The next items of every call that waits; none where the batcher is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                for pieces in self._waiting:
                    pieces[0].call.fail(_closed())
                return []
            taken = [pieces.popleft() for pieces in self._waiting for _ in range(min(SHARE, len(pieces)))]
            self._waiting = [pieces for pieces in self._waiting if pieces and not pieces[0].call.future.done()]
            return taken

    def _attempt(self, batch: Sequence[_Piece[Item, Result]]) -> None:
        batch = [piece for piece in batch if not piece.call.future.done()]
        if not batch:
            return
        if self._closed:
            for piece in batch:
                piece.call.fail(_closed())
            return
        try:
            results = self._run([piece.item for piece in batch])
            if len(results) != len(batch):
                raise ValueError(f"{len(results)} results for {len(batch)} items")
        except BaseException as error:  # a tokenizer of Rust panics beyond Exception; this thread must not die of it
            # Nothing of the error outlives this block: its traceback holds the tensors of the batch that failed.
            full, name, site = self._out_of_memory(error), type(error).__name__, _site(error)
            cause = error if isinstance(error, JudgeError) else None
            detail = (cause.cause, cause.detail) if cause else ("crashed", "out of memory" if full else name)
            del cause
        else:
            for piece, result in zip(batch, results, strict=True):
                piece.call.put(piece.index, result)
            return
        if len(batch) == 1:
            logger.error("a model failed on one item of size %d: %s%s", batch[0].size, name, site)
            batch[0].call.fail(JudgeError(*detail))
            return
        if full:
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
