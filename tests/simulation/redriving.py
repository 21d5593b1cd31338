"""An operator who sends dead requests again, by the rules of `glassbox dead-letters redrive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassbox.contract.events import rfc3339
from ledger.port import LedgerUnavailable
from streams.ports import SendFailed
from streams.redrive import DeadLetter, Note, cases, obstacle, redriven_headers
from streams.topics import DEAD_LETTERS, REQUESTS

if TYPE_CHECKING:
    from tests.simulation.world import World


async def redrive(world: World, *, dies: bool) -> None:
    """Every open letter once. An operator who `dies` leaves the first one sent and without a note."""
    messages = [
        DeadLetter(
            {name: text.decode() for name, text in record.headers.items()},
            record.key,
            record.value,
            record.partition,
            record.offset,
        )
        for record in world.log.topic(DEAD_LETTERS.name)
    ]
    for case in cases(messages):
        letter = case.letter
        if obstacle(case) is not None or await _has_record(world, letter):
            world.faults["redrive refused"] += 1
            continue
        try:
            at = world.partition(letter.key)
            await world.send(REQUESTS, letter.key, letter.value, redriven_headers(letter), at)
            world.faults["redriven"] += 1
            if dies:
                return
            note = Note(letter.name, "redriven", rfc3339(world.log.time_ms()))
            await world.send(DEAD_LETTERS, letter.name.encode(), None, note.headers(), letter.partition)
        except SendFailed:
            return


async def _has_record(world: World, letter: DeadLetter) -> bool:
    """As far as the ledger can be asked: what is redriven beside a record changes nothing."""
    try:
        return await world.ledger.read(letter.headers.get("evaluation_id", "")) is not None
    except LedgerUnavailable:
        return False
