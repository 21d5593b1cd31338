from __future__ import annotations

import asyncio

import pytest

from streams.acks import OrderedAcks, Token
from streams.ports import Record
from streams.reading import InFlight, Pool, Reader
from streams.slots import Slots
from streams.starts import LAST_START, Note, Starts, Where

WHERE = ("tasks", 0)


class MemoryNotes:
    """What outlives a worker."""

    def __init__(self) -> None:
        self.kept: dict[Where, str] = {}
        self.writes = 0

    async def read(self, where: Where) -> Note:
        return Note.decode(self.kept.get(where, ""))

    async def write(self, where: Where, note: Note) -> None:
        self.writes += 1
        self.kept[where] = note.encode()


def task(offset: int) -> Record:
    return Record(*WHERE, offset, None, b"", 0)


@pytest.mark.parametrize("text", ["", "null", "[1]", "[1, 2]", '["a", []]', '{"high": 1}', "[1, [2, 3]]"])
def test_foreign_metadata_is_no_note(text: str) -> None:
    assert Note.decode(text) == Note()


def test_a_note_is_read_back() -> None:
    assert Note.decode(Note(7, {5: 2, 6: 3}).encode()) == Note(7, {5: 2, 6: 3})


async def test_one_note_covers_many_starts() -> None:
    notes = MemoryNotes()
    starts = Starts(notes, reserve=10)
    for offset in range(25):
        assert not await starts.guarded(task(offset))
        assert await starts.begin(task(offset))
    assert notes.writes == 3
    assert (await notes.read(WHERE)).high == 30


async def test_after_a_good_end_nothing_is_guarded() -> None:
    notes = MemoryNotes()
    starts = Starts(notes, reserve=10)
    await starts.begin(task(0))
    await starts.hand_over()
    assert not await Starts(notes, reserve=10).guarded(task(0))


async def test_a_good_end_does_not_forget_what_an_unclean_one_left() -> None:
    notes = MemoryNotes()
    await Starts(notes, reserve=4).begin(task(1))  # and the worker died
    starts = Starts(notes, reserve=4)
    await starts.begin(task(0))
    await starts.hand_over()
    starts = Starts(notes, reserve=4)
    assert await starts.guarded(task(1))
    assert not await starts.guarded(task(5))


async def test_nothing_begins_while_partitions_are_given_up() -> None:
    notes, acks, in_flight, begun = MemoryNotes(), OrderedAcks(), InFlight(), list[int]()
    writing, written = asyncio.Event(), asyncio.Event()
    write = notes.write

    async def slow(where: Where, note: Note) -> None:
        writing.set()
        await written.wait()
        await write(where, note)

    async def handle(record: Record, token: Token) -> None:
        begun.append(record.offset)

    notes.write = slow  # type: ignore[method-assign]
    pool = Pool(handle, acks, in_flight, Slots(3), starts=Starts(notes, reserve=8), give_up=handle)
    reader = Reader(pool, acks, in_flight)
    reading = asyncio.create_task(reader.read(task(0), 1, lambda: None))
    await writing.wait()
    settling = asyncio.create_task(reader.settle(0.1))
    await asyncio.sleep(0)
    written.set()
    assert await reading
    assert await settling == ({}, 0)
    assert await reader.read(task(1), 1, lambda: None)
    await in_flight.drain(1)
    assert begun == []
    assert pool.slots.held == 0


async def test_the_last_start_of_a_task_is_not_made() -> None:
    notes = MemoryNotes()
    await Starts(notes, reserve=4).begin(task(6))  # and the worker died
    for n in range(1, LAST_START + 2):
        starts = Starts(notes, reserve=4)
        assert await starts.guarded(task(6))
        assert await starts.begin(task(6)) == (n < LAST_START)
    starts = Starts(notes, reserve=4)
    assert await starts.begin(task(7))  # its own count
    assert not await starts.guarded(task(10))  # above the old mark


async def test_a_task_before_the_killer_that_runs_again_does_not_wipe_its_count() -> None:
    notes = MemoryNotes()
    await Starts(notes, reserve=4).begin(task(0))
    for n in range(1, LAST_START + 1):
        starts = Starts(notes, reserve=4)
        assert await starts.begin(task(0))
        assert await starts.begin(task(1)) == (n < LAST_START)


async def test_a_task_that_was_given_up_is_not_run_when_a_later_one_kills_too() -> None:
    notes = MemoryNotes()
    notes.kept[WHERE] = Note(high=4, starts={0: LAST_START}).encode()
    for n in range(1, LAST_START + 1):
        starts = Starts(notes, reserve=4)
        assert not await starts.begin(task(0))
        assert await starts.begin(task(1))
        assert await starts.begin(task(2)) == (n < LAST_START)
    assert (await notes.read(WHERE)).starts == {0: LAST_START + 3, 2: LAST_START}


async def test_what_is_below_the_commit_is_forgotten() -> None:
    notes = MemoryNotes()
    notes.kept[WHERE] = Note(high=9, starts={0: LAST_START, 5: 1}).encode()
    await Starts(notes, reserve=4).begin(task(3))
    assert (await notes.read(WHERE)).starts == {3: 1, 5: 1}


async def test_a_good_end_does_not_forgive_a_task_that_kills() -> None:
    notes = MemoryNotes()
    await Starts(notes, reserve=4).begin(task(0))
    for _ in range(LAST_START - 1):
        starts = Starts(notes, reserve=4)
        assert await starts.begin(task(0))
    await starts.hand_over()
    await Starts(notes, reserve=4).begin(task(0))
    assert not await Starts(notes, reserve=4).begin(task(0))


async def test_what_is_guarded_runs_alone_and_what_kills_is_answered() -> None:
    notes = MemoryNotes()
    notes.kept[WHERE] = Note(high=3, starts={1: LAST_START - 1}).encode()
    acks, in_flight = OrderedAcks(), InFlight()
    acks.assign(1)
    running, most, given_up = set[int](), dict[int, int](), list[int]()

    async def handle(record: Record, token: Token) -> None:
        running.add(record.offset)
        await asyncio.sleep(0.01)
        most[record.offset] = len(running)
        running.discard(record.offset)

    async def give_up(record: Record, token: Token) -> None:
        assert not running
        given_up.append(record.offset)

    pool = Pool(handle, acks, in_flight, Slots(3), starts=Starts(notes, reserve=8), give_up=give_up)
    for offset in range(6):
        token = acks.take(*WHERE, offset, 1, lambda: None)
        assert token is not None
        await pool.on_record(task(offset), token)
    await in_flight.drain(5)
    assert given_up == [1]
    assert most == {0: 1, 2: 1, 3: 3, 4: 2, 5: 1}
    assert acks.open_tokens() == 0
