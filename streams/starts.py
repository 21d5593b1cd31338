"""A task that kills its worker is found out and answered (DESIGN §4.1 rule 10).

Before a worker starts a task, it is durably known that it may have been started. After an unclean end the successor
runs what may have been started one task at a time and counts each start durably first, so that the one which kills
is told from those that only ran beside it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Protocol

from streams.ports import Record

LAST_START = 3
"""At this counted start a task is answered instead of run."""

Where = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Note:
    """What is durably known of one partition.

    `high`: the offset below which tasks may have been started by a worker that has not ended in good order; 0 when it
    has. `offset`, `starts`: the furthest task that was started alone, and how often.
    """

    high: int = 0
    offset: int = -1
    starts: int = 0

    def encode(self) -> str:
        """Short text for the metadata of a commit, or a file."""
        return json.dumps([self.high, self.offset, self.starts])

    @classmethod
    def decode(cls, text: str) -> Note:
        """Text that is no note (another program committed) means that nothing is known."""
        try:
            high, offset, starts = map(int, json.loads(text))
        except (ValueError, TypeError):
            return cls()
        return cls(high, offset, starts)


class Notes(Protocol):
    """Where notes are kept: beside the committed offset, so that whoever is assigned the partition finds them."""

    async def read(self, where: Where) -> Note: ...

    async def write(self, where: Where, note: Note) -> None:
        """Durable on return. Raises `SendFailed` where it could not be kept."""
        ...


class Starts:
    """The starts of the tasks of one process. `reserve`: how many tasks one note covers; a larger one is written
    more rarely, and has more tasks run alone after an unclean end."""

    def __init__(self, notes: Notes, reserve: int) -> None:
        self._notes, self._reserve = notes, reserve
        self._known: dict[Where, tuple[int, Note]] = {}  # the mark found at assignment, the note as it is now

    async def guarded(self, record: Record) -> bool:
        """Whether a worker that ended badly may have started this task: it must then run alone."""
        old_high, _ = await self._of((record.topic, record.partition))
        return record.offset < old_high

    async def begin(self, record: Record) -> bool:
        """Count the start of a task, durably, right before it; false at the last start, which is not to be made.

        Calls must not overlap.
        """
        where = record.topic, record.partition
        known = self._known
        old_high, note = await self._of(where)
        if record.offset < min(old_high, note.offset):
            return True  # it ended well when a later one was started alone; its acknowledgement was lost
        if record.offset < old_high:
            starts = note.starts + 1 if note.offset == record.offset else 1
            counted = replace(note, offset=record.offset, starts=starts)
        elif record.offset >= note.high:
            counted = replace(note, high=record.offset + self._reserve)
        else:
            return True
        await self._notes.write(where, counted)
        known[where] = old_high, counted
        return record.offset >= old_high or counted.starts < LAST_START

    async def hand_over(self) -> None:
        """The partitions are given up in good order. Counts stay: a task that kills slowly is not forgiven."""
        for where, (_, note) in list(self._known.items()):
            await self._notes.write(where, replace(note, high=0))

    def clear(self) -> None:
        """The partitions are gone."""
        self._known = {}

    async def _of(self, where: Where) -> tuple[int, Note]:
        known = self._known
        if where not in known:
            note = await self._notes.read(where)
            known[where] = note.high, note
        return known[where]
