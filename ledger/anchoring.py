"""Merkle checkpoints anchored on another ledger, so that a log which is rolled back or rewritten gives itself away.

Whoever holds a log's disk and key can cut off its newest records and sign again. What was anchored elsewhere stays:
the log must still contain the tree of every anchored checkpoint, which is checked before each new one and can be
checked by anybody with a consistency proof (`check_history`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ledger import checkpoint, merkle
from ledger.checkpoint import CheckpointError, VerifierKey
from ledger.merkle import ProofError
from ledger.port import LedgerError

FIRST_RETRY = 1.0
"""Seconds until the second attempt; each further one waits twice as long, up to the interval."""


class HistoryChanged(LedgerError):
    """The log does not contain what was anchored of it: an alarm, and nothing that waiting mends."""


class Log(Protocol):
    """What is anchored (ledger.merkle_log.MerkleLog)."""

    @property
    def origin(self) -> str: ...

    async def newest_checkpoint(self) -> str: ...

    async def prove_consistency(self, first: int, second: int) -> list[bytes]: ...


class Anchorage(Protocol):
    """Where it is anchored (ledger.fabric.ledger.FabricLedger)."""

    async def anchor(self, note: str) -> Any: ...

    async def anchored(self, origin: str) -> str | None: ...


def check_history(anchored: str, newest: str, path: Sequence[bytes], keys: Sequence[VerifierKey] = ()) -> int:
    """Check offline that a log's newest checkpoint contains an anchored one, and return the anchored number of records.

    Both are signed notes, `path` is the consistency proof between their sizes (MerkleLog.prove_consistency). With
    `keys`, both must be signed by one of them. Raises HistoryChanged where the log was rolled back or rewritten, and
    CheckpointError for a note that is malformed or not signed.
    """
    notes = [checkpoint.parse(note) for note in (anchored, newest)]
    if keys:
        for note in notes:
            checkpoint.verify(note, keys)
    before, now = (note.checkpoint for note in notes)
    if before.origin != now.origin:
        raise HistoryChanged(f"the anchored checkpoint is of the log {before.origin}, not of {now.origin}")
    if now.size < before.size:
        raise HistoryChanged(
            f"the log {now.origin} was rolled back: it has {now.size} records and {before.size} were anchored; "
            "restore it from a backup before anything is written to it"
        )
    try:
        merkle.verify_consistency(before.size, now.size, path, before.root, now.root)
    except ProofError as error:
        raise HistoryChanged(
            f"the log {now.origin} was rewritten: its first {before.size} records are not those that were anchored "
            f"({error}); audit it and restore it from a backup"
        ) from None
    return before.size


async def compare(log: Log, anchorage: Anchorage, keys: Sequence[VerifierKey] = ()) -> tuple[int | None, str]:
    """Check a log against its newest anchored checkpoint: (anchored number of records, the log's newest note).

    None: nothing of it is anchored yet. Raises as `check_history`, and LedgerError of either.
    """
    anchored = await anchorage.anchored(log.origin)
    newest = await log.newest_checkpoint()  # after the other, which can only have been of an earlier state
    if anchored is None:
        return None, newest
    before, now = checkpoint.parse(anchored).checkpoint, checkpoint.parse(newest).checkpoint
    # for a longer tree there is no proof to ask for
    path = await log.prove_consistency(before.size, now.size) if before.size <= now.size else []
    return check_history(anchored, newest, path, keys), newest


def delay(every: float, failures: int) -> float:
    """Seconds until the next attempt, after so many failures in a row."""
    return every if failures == 0 else min(every, FIRST_RETRY * 2.0 ** min(failures - 1, 30))


@dataclass(frozen=True)
class Anchoring:
    """Anchors a log's newest checkpoint every `every` seconds, if the log grew.

    A task of its own beside the committer, which it never holds up. `current` hears the number of records whenever
    that many are known to be anchored and no more are written: the age of the last time is the metric to alert on.
    `trouble` hears a sentence while anchoring does not succeed, a changed history included, and None when it does.
    """

    log: Log
    anchorage: Anchorage
    every: float
    current: Callable[[int], None]
    trouble: Callable[[str | None], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Without end; cancel it. The first attempt is made at once."""
        failures = 0
        while True:
            try:
                size = await self.once()
            except (LedgerError, CheckpointError) as error:
                failures += 1
                self.trouble(str(error))
            else:
                failures = 0
                self.trouble(None)
                self.current(size)
            await self.sleep(delay(self.every, failures))

    async def once(self) -> int:
        """Compare, anchor what is new, and return the anchored number of records. Raises as `compare`."""
        anchored, newest = await compare(self.log, self.anchorage)
        size = checkpoint.parse(newest).checkpoint.size
        if size > (anchored or 0):
            await self.anchorage.anchor(newest)
        return size
