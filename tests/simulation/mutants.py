"""The protocol with one rule taken away: each must be caught, or the simulator proves nothing.

A mutant patches the product's own code for the time of a `with` block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest import mock

import streams.committer
import streams.join
import streams.joiner
import streams.redrive
from glassbox.contract.events import Announced, Scorecard, scorecard_record
from streams import acks
from streams.acks import OrderedAcks, Token
from streams.join import Card
from streams.joiner import Join, Marker
from streams.ports import Record, SendFailed
from streams.reading import InFlight
from streams.starts import Note, Starts
from streams.topics import SCORECARDS
from tests.simulation.loop import current
from tests.simulation.roles import SimClosedIds, SimOutbox

Patch = tuple[object, str, object]
_MARK = SimClosedIds.mark


def _release_on_completion(self: OrderedAcks, token: Token) -> None:
    if token.done or not token.live():
        return
    token.done = True
    where = token.topic, token.partition
    self._open[where].remove(token)
    self._position[where] = max(self._position.get(where, 0), token.offset + 1)
    token.acknowledge()


def _revoke_nothing(self: OrderedAcks) -> None:
    """Tokens of older assignments go on counting."""


def _take_any(self: OrderedAcks, topic: str, partition: int, offset: int, generation: int, acknowledge: Any) -> Token:
    """Whatever is in the buffer belongs to the assignment of now."""
    current_one = self._assignment or acks.Assignment(generation)
    self._assignment = current_one
    token = Token(topic, partition, offset, current_one, acknowledge)
    self._open.setdefault((topic, partition), acks.deque()).append(token)
    return token


def _send_unawaited(send: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., Any]:
    async def unawaited(self: SimOutbox, *arguments: Any, **named: Any) -> int:
        sending = asyncio.create_task(send(self, *arguments, **named))
        sending.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self.world.log.time_ms()

    return unawaited


def _emit(order: str) -> Callable[..., Any]:
    """`Join._emit` with the closed marker at another place: before | after."""

    async def emit(self: Join, card: Card, record: Record, tokens: list[Token]) -> None:
        announced, last = card.announced, tokens[-1]
        evaluation_id = announced.evaluation_id
        scorecard = Scorecard(tenant=announced.tenant, record=card.record)
        marker = Marker(announced.request_digest, record.timestamp, record.offset)
        if order == "before":
            await self.closed.mark(evaluation_id, record.partition, marker)
        await self.outbox.send(SCORECARDS, evaluation_id, scorecard.model_dump_json().encode())
        for claim in card.claims:
            await self._send_claim(claim)
        if not last.live():
            return
        for token in tokens:
            self.acks.release(token)
        if order == "after":
            await asyncio.sleep(0.5)
            await self.closed.mark(evaluation_id, record.partition, marker)
        for late, token in self._closing.pop(evaluation_id, ()):
            self.spawn(self._claim(late, token))

    return emit


def _dated_by_the_clock(announced: Announced, rows: Any, evidence: str, closed_at: int) -> dict[str, Any]:
    now = asyncio.get_running_loop().time() + current().skew
    return scorecard_record(announced, rows, evidence, closed_at + round(now * 1000) % 1000)


def _any_batch(queue: Sequence[Any]) -> int:
    return min(streams.committer.BATCH, len(queue))


async def _mark_unawaited(self: SimClosedIds, evaluation_id: str, partition: int, marker: Marker) -> None:
    marking = asyncio.create_task(_MARK(self, evaluation_id, partition, marker))
    marking.add_done_callback(lambda task: task.cancelled() or task.exception())
    await asyncio.sleep(0)


def _keep_slots(self: InFlight, task: asyncio.Task[None]) -> None:
    """Work that is cancelled never says that it is over: found in the product once."""
    ended = self._tasks.pop(task, None)
    if not task.cancelled():
        if ended is not None:
            ended()
        if (error := task.exception()) is not None:
            self.fail(error)


def _count_one(self: Note, offset: int) -> Note:
    """The second of two tasks that kill wipes the count of the first: found in the product once."""
    return replace(self, starts={offset: self.starts.get(offset, 0) + 1})


async def _forgive_all(self: Starts) -> None:
    """Whoever gives up partitions in good order forgets what was left to it by one that died: found in the product
    once."""
    for where, (_, note) in list(self._known.items()):
        with suppress(SendFailed):
            await self._notes.write(where, replace(note, high=0))


def _close_nothing(self: OrderedAcks) -> None:
    """Work begins while its partitions are being given up: found in the product once."""


def _nothing_missing(self: acks.Continuity, *_: object) -> None:
    """Whatever the transport hands over is taken for the next event."""


def _nothing_lost(self: acks.Continuity, *_: object) -> None:
    """Only what comes later tells of an event that the transport lost."""


def _forget_nothing(self: Join, record: Record) -> None: ...


async def _mark_nothing(self: SimClosedIds, evaluation_id: str, partition: int, marker: Marker) -> None: ...


MUTANTS: dict[str, tuple[str, list[Patch]]] = {
    "acknowledge on completion": ("closing", [(OrderedAcks, "release", _release_on_completion)]),
    "no closed ids": ("closing", [(SimClosedIds, "mark", _mark_nothing)]),
    "send without await": ("closing", [(SimOutbox, "send", _send_unawaited(SimOutbox.send))]),
    "marker after the acknowledgement": ("closing", [(Join, "_emit", _emit("after"))]),
    "marker not awaited": ("markers", [(SimClosedIds, "mark", _mark_unawaited)]),
    "marker before the scorecard": ("closing", [(Join, "_emit", _emit("before"))]),
    "a clock in the scorecard": ("closing", [(streams.join, "scorecard_record", _dated_by_the_clock)]),
    "closed ids never forgotten": ("expiry", [(Join, "_sweep", _forget_nothing)]),
    "what the transport skipped goes unnoticed": ("skips", [(acks.Continuity, "first_missing", _nothing_missing)]),
    "the last that the transport lost goes unnoticed": ("skips", [(acks.Continuity, "never_came", _nothing_lost)]),
    "redriven without end": ("redrive", [(streams.redrive, "MAX_ATTEMPTS", 99)]),
    "cancelled work keeps its slot": ("epochs", [(InFlight, "_finished", _keep_slots)]),
    "only the last killer is counted": ("killers", [(Note, "counting", _count_one)]),
    "a good end forgives what another left": ("killers", [(Starts, "hand_over", _forgive_all)]),
    "work begins while partitions are given up": ("killers", [(OrderedAcks, "close", _close_nothing)]),
    "no epoch": ("epochs", [(OrderedAcks, "revoke", _revoke_nothing), (OrderedAcks, "take", _take_any)]),
    "epoch pinned at take": ("epochs", [(OrderedAcks, "take", _take_any)]),
    "two scorecards of one id in a batch": ("batches", [(streams.committer, "next_batch", _any_batch)]),
}
"""Name -> the profile that shows it, and what is patched."""


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The product's code with this mutant in it."""
    with ExitStack() as stack:
        for where, attribute, value in MUTANTS[name][1]:
            stack.enter_context(mock.patch.object(where, attribute, value))
        yield
