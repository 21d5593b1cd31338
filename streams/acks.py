"""Acknowledgement strictly in offset order, for every role alike.

A consumer may commit an offset only when everything before it is done. Each event takes a token when it is read; a
token is released when its work is done; the position moves over the released prefix. Tokens belong to the
assignment that fetched them: when partitions are revoked, what is still open becomes inert (DESIGN §4.1 rule 8).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LOST_S = 5.0
"""So long after the transport read it, and with nothing on its way, an event comes no more."""


class Assignment:
    """One period between two rebalances. `live` ends with it, for every token taken in it; `closing` comes before,
    when its partitions are being given up: what is under way may end, nothing begins."""

    __slots__ = ("closing", "generation", "live")

    def __init__(self, generation: int) -> None:
        self.generation, self.live, self.closing = generation, True, False


@dataclass(slots=True, eq=False)
class Token:
    """The duty to finish one event. `acknowledge` tells the transport that the event may be forgotten."""

    topic: str
    partition: int
    offset: int
    assignment: Assignment
    acknowledge: Callable[[], object]
    taken_at: float = field(default_factory=time.monotonic)
    done: bool = False

    def live(self) -> bool:
        """Whether the assignment that fetched this event still stands; recheck after every await."""
        return self.assignment.live

    def may_begin(self) -> bool:
        """Whether work on this event may still begin."""
        return self.assignment.live and not self.assignment.closing


class OrderedAcks:
    """The windows of open tokens of one consumer, one a partition."""

    def __init__(self) -> None:
        self._assignment: Assignment | None = None
        self._ended = -1
        self._open: dict[tuple[str, int], deque[Token]] = {}
        self._position: dict[tuple[str, int], int] = {}
        self.released = 0
        self.progressed_at = time.monotonic()

    def assign(self, generation: int) -> None:
        """A new assignment begins; the old one, if any, ends."""
        if self._assignment is not None and self._assignment.generation == generation:
            return
        self.revoke()
        self._assignment = Assignment(generation)

    def close(self) -> None:
        """The partitions are being given up: no more events are taken, what is released still counts."""
        if self._assignment is not None:
            self._assignment.closing = True

    def revoke(self) -> None:
        """The assignment ends: its tokens are inert from now on, and nothing of it is committed any more."""
        if self._assignment is not None:
            self._assignment.live = False
            self._ended = self._assignment.generation
        self._assignment = None
        self._open.clear()
        self._position.clear()

    @property
    def assigned(self) -> bool:
        return self._assignment is not None

    def take(
        self, topic: str, partition: int, offset: int, generation: int, acknowledge: Callable[[], object]
    ) -> Token | None:
        """The token of an event, or None if the event was fetched by another assignment than the present one, or if
        that one is being given up.

        `generation`: that of the assignment which fetched the event. The first event of a new one may come before
        the transport has said that it began.
        """
        if self._assignment is None and generation > self._ended:
            self.assign(generation)
        current = self._assignment
        if current is None or current.closing or current.generation != generation:
            return None
        token = Token(topic, partition, offset, current, acknowledge)
        window = self._open.setdefault((topic, partition), deque())
        if not window:
            self.progressed_at = max(self.progressed_at, token.taken_at)  # idle until now is not stuck
        window.append(token)
        return token

    def release(self, token: Token) -> None:
        """The event is done. Positions move when everything before it is done too; a stale token changes nothing."""
        if token.done or not token.live():
            return
        token.done = True
        where = token.topic, token.partition
        window = self._open[where]
        while window and window[0].done:
            first = window.popleft()
            first.acknowledge()
            self._position[where] = first.offset + 1
            self.released += 1
            self.progressed_at = time.monotonic()

    def positions(self) -> Mapping[tuple[str, int], int]:
        """(topic, partition) -> the offset to commit: everything before it is done."""
        return dict(self._position)

    def position(self, topic: str, partition: int) -> int:
        """The offset to commit for one partition of which something was read: that of its first open event, or the
        one after the last released."""
        window = self._open.get((topic, partition))
        return window[0].offset if window else self._position[topic, partition]

    def open_tokens(self, topic: str | None = None) -> int:
        """Events read and not yet acknowledged, of one topic or of all."""
        return sum(len(window) for (name, _), window in self._open.items() if topic in (None, name))

    def stalled_s(self) -> float:
        """Seconds since a position last moved, or since something was first open again."""
        return time.monotonic() - self.progressed_at

    def oldest_age(self) -> float:
        """Seconds since the oldest open event was read; 0 when nothing is open."""
        heads = [window[0].taken_at for window in self._open.values() if window]
        return time.monotonic() - min(heads) if heads else 0.0


class Skipped(Exception):
    """The transport lost an event that it had read: leave without acknowledging, and read again."""


class Continuity:
    """Whether a partition's events come one after another, from the committed one on, in each assignment.

    For topics whose offsets have no holes: those that no transactional producer writes and nothing compacts.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], tuple[int, int]] = {}  # generation, and the offset that comes next
        self._overdue: dict[tuple[str, int], tuple[int, float]] = {}  # the offset that should have come, since when

    def first_missing(self, where: tuple[str, int], offset: int, generation: int, committed: int | None) -> int | None:
        """The first offset that should have come before this one; None where nothing is missing. `committed`: where
        the group stands, for the first event of an assignment; None if it has no position yet."""
        expected = self._expected(where, generation, committed)
        if expected is None:
            expected = offset
        self._next[where] = generation, max(offset + 1, expected)
        return expected if offset > expected else None

    def never_came(
        self, read: Mapping[tuple[str, int], int], generation: int, committed: Mapping[Any, int], now: float
    ) -> tuple[tuple[str, int], int] | None:
        """As `first_missing`, for the last events of a partition, of which no later one tells: the partition, and the
        first offset that has not come `LOST_S` seconds after it was due.

        `read`: partition -> the offset after the last that the transport has read, while nothing is on its way any
        more; empty while something is. To be asked every now and then. `now`: seconds of a monotonic clock.
        """
        overdue: dict[tuple[str, int], tuple[int, float]] = {}
        for where, end in read.items():
            expected = self._expected(where, generation, committed.get(where))
            if expected is None or end <= expected:
                continue
            before, since = self._overdue.get(where, (expected, now))
            overdue[where] = (expected, since if before == expected else now)
        self._overdue = overdue
        return next(((where, due) for where, (due, since) in overdue.items() if now - since >= LOST_S), None)

    def _expected(self, where: tuple[str, int], generation: int, committed: int | None) -> int | None:
        """The offset that comes next in this assignment; None where that is any."""
        begun_in, following = self._next.get(where, (None, 0))
        return following if begun_in == generation else committed
