"""A task that kills its worker is found out and answered (DESIGN §4.1 rule 10).

Before a worker starts a task, it is durably known that it may have been started. After an unclean end the successor
runs what may have been started one task at a time and counts each start durably first, so that the one which kills
is told from those that only ran beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from streams.ports import Record, SendFailed

LAST_START = 3
"""At this counted start a task is answered instead of run."""

Where = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Note:
    """What is durably known of one partition.

    `high`: the offset below which tasks may have been started by a worker that has not ended in good order. `starts`:
    offset -> how often that task was started alone, of those that a worker died with.
    """

    high: int = 0
    starts: Mapping[int, int] = field(default_factory=dict)

    def encode(self) -> str:
        """Short text for the metadata of a commit, or a file."""
        return json.dumps([self.high, list(self.starts.items())])

    @classmethod
    def decode(cls, text: str) -> Note:
        """Text that is no note (another program committed) means that nothing is known."""
        try:
            high, starts = json.loads(text)
            return cls(int(high), {int(offset): int(count) for offset, count in starts})
        except (ValueError, TypeError):
            return cls()

    def counting(self, offset: int) -> Note:
        """One more start of this task. Tasks run alone run in their order, so an earlier one has ended well by now,
        unless it was not to be started at all."""
        kept = {o: count for o, count in self.starts.items() if o > offset or count >= LAST_START}
        return replace(self, starts={**kept, offset: self.starts.get(offset, 0) + 1})

    def since(self, offset: int) -> Note:
        """Without what lies below the committed offset."""
        return replace(self, starts={o: count for o, count in self.starts.items() if o >= offset})


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
        old_high, _ = await self._of(record)
        return record.offset < old_high

    async def begin(self, record: Record) -> bool:
        """Count the start of a task, durably, right before it; false at the last start, which is not to be made.

        Calls must not overlap.
        """
        where = record.topic, record.partition
        known = self._known
        old_high, note = await self._of(record)
        if record.offset < old_high:
            note = note.counting(record.offset)
        elif record.offset >= note.high:
            note = replace(note, high=record.offset + self._reserve)
        else:
            return True
        await self._notes.write(where, note)
        known[where] = old_high, note
        return note.starts.get(record.offset, 0) < LAST_START

    async def hand_over(self) -> None:
        """The partitions are given up in good order. The mark found at assignment stays, as the tasks below it may be
        still to run; so do counts: a task that kills slowly is not forgiven."""
        for where, (old_high, note) in list(self._known.items()):
            with suppress(SendFailed):  # then the successor is careful without need
                await self._notes.write(where, replace(note, high=old_high))

    def clear(self) -> None:
        """The partitions are gone."""
        self._known = {}

    async def _of(self, record: Record) -> tuple[int, Note]:
        known, where = self._known, (record.topic, record.partition)
        if where not in known:
            note = (await self._notes.read(where)).since(record.offset)
            known[where] = note.high, note
        return known[where]
