"""What was anchored stays contained in the log, or somebody hears of it."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import merkle
from ledger.anchoring import FIRST_RETRY, Anchorage, Anchoring, HistoryChanged, check_history, compare, delay
from ledger.checkpoint import Checkpoint, CheckpointError, Signer, parse
from ledger.fabric.ledger import FabricLedger
from ledger.merkle_log import MerkleLog
from ledger.port import LedgerRefused, LedgerUnavailable
from tests.ledger.fabric.fixtures import BUILD_TIMEOUT
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.records import CREATED_AT, POLICY, scorecard

SIGNER = Signer("log.example/anchored", bytes(32))
EVERY = 600.0


class Ground:
    """Where checkpoints are anchored, as the chaincode does it; away for the next `failures` calls."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.failures = 0

    async def anchor(self, note: str) -> None:
        self._fail()
        self.notes.append(note)

    async def anchored(self, origin: str) -> str | None:
        self._fail()
        return self.notes[-1] if self.notes else None

    @property
    def sizes(self) -> list[int]:
        return [parse(note).checkpoint.size for note in self.notes]

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise LedgerUnavailable("the peer is away")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[MerkleLog]:
    made = MerkleLog.committer(tmp_path / "log", SIGNER)
    await made.register_policy(POLICY.document, CREATED_AT)
    yield made
    await made.close()


class Watched(Anchoring):
    """An Anchoring whose waits are counted instead of waited for; it ends after so many of them."""

    def __init__(self, log: MerkleLog, ground: Anchorage, rounds: int) -> None:
        self.waits: list[float] = []
        self.heard: list[str | None] = []
        self.sizes: list[int] = []

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)
            if len(self.waits) >= rounds:
                raise asyncio.CancelledError

        super().__init__(log, ground, EVERY, self.sizes.append, self.heard.append, sleep)

    async def until_cancelled(self) -> None:
        with pytest.raises(asyncio.CancelledError):
            await self.run()


async def test_the_newest_checkpoint_is_anchored_once(log: MerkleLog) -> None:
    ground = Ground()
    watched = Watched(log, ground, 3)
    await watched.until_cancelled()
    assert ground.sizes == [1]
    assert watched.sizes == [1, 1, 1], "a log that does not grow stays current"
    assert watched.waits == [EVERY] * 3
    await log.append([scorecard("a"), scorecard("b")])
    await Watched(log, ground, 1).until_cancelled()
    assert ground.sizes == [1, 3]
    assert check_history(ground.notes[0], ground.notes[1], await log.prove_consistency(1, 3), [SIGNER.verifier]) == 1


async def test_an_empty_log_has_nothing_to_anchor(tmp_path: Path) -> None:
    log, ground = MerkleLog.committer(tmp_path, SIGNER), Ground()
    assert await Watched(log, ground, 1).once() == 0
    assert ground.notes == []
    await log.close()


async def test_while_the_other_ledger_is_away_it_is_tried_again_and_said(log: MerkleLog) -> None:
    ground = Ground()
    ground.failures = 3
    watched = Watched(log, ground, 4)
    await watched.until_cancelled()
    assert ground.sizes == [1]
    assert watched.waits == [FIRST_RETRY, FIRST_RETRY * 2, FIRST_RETRY * 4, EVERY]
    assert watched.heard == ["the peer is away"] * 3 + [None]
    assert watched.sizes == [1]


@given(st.floats(0.001, 1e6), st.integers(0, 10_000))
def test_waits_grow_to_the_interval_and_no_further(every: float, failures: int) -> None:
    assert 0 < delay(every, failures) <= every
    assert delay(every, failures + 1) >= min(delay(every, failures), FIRST_RETRY) or failures == 0


async def test_a_log_that_was_rolled_back_is_an_alarm_and_is_not_anchored(log: MerkleLog, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "log", tmp_path / "backup")
    await log.append([scorecard("a"), scorecard("b")])
    ground = Ground()
    await Watched(log, ground, 1).until_cancelled()
    old = MerkleLog.committer(tmp_path / "backup", SIGNER)
    watched = Watched(old, ground, 2)
    await watched.until_cancelled()
    assert ground.sizes == [3]
    assert watched.sizes == []
    assert str(watched.heard[-1]).startswith(
        "the log log.example/anchored was rolled back: it has 1 records and 3 were anchored"
    )
    # Grown again past what was anchored, with other records: longer, and still not that log.
    await old.append([scorecard(name) for name in "cdefg"])
    await watched.until_cancelled()
    assert ground.sizes == [3]
    assert "was rewritten: its first 3 records are not those that were anchored" in str(watched.heard[-1])
    # Of the same size.
    with pytest.raises(HistoryChanged, match="was rewritten"):
        check_history(ground.notes[0], SIGNER.sign(Checkpoint(SIGNER.name, 3, bytes(32))), [])
    await old.close()


async def test_what_nobody_named_has_signed_proves_nothing(log: MerkleLog) -> None:
    note = await log.newest_checkpoint()
    stranger = Signer(SIGNER.name, b"\x01" * 32).verifier
    assert check_history(note, note, [], [SIGNER.verifier]) == 1
    with pytest.raises(CheckpointError, match="whom you did not name"):
        check_history(note, note, [], [stranger])
    other = Signer("log.example/other", bytes(32))
    with pytest.raises(HistoryChanged, match=r"of the log log\.example/other"):
        check_history(other.sign(Checkpoint(other.name, 1, bytes(32))), note, [])


async def test_a_larger_checkpoint_of_somebody_else_under_this_name_is_told_from_a_rollback(log: MerkleLog) -> None:
    ground = Ground()
    await ground.anchor(Signer(SIGNER.name, bytes([1] * 32)).sign(Checkpoint(log.origin, 10**6, bytes(32))))
    with pytest.raises(CheckpointError, match="whom you did not name"):
        await compare(log, ground, [SIGNER.verifier])


async def test_an_anchored_note_that_is_none_is_said(log: MerkleLog) -> None:
    ground = Ground()
    ground.notes.append("nonsense")
    watched = Watched(log, ground, 1)
    await watched.until_cancelled()
    assert watched.heard == ["the checkpoint has no signature lines"]


async def test_a_log_that_grows_while_it_is_compared_is_no_alarm(log: MerkleLog) -> None:
    class Slow(Ground):
        async def anchored(self, origin: str) -> str | None:
            found = await super().anchored(origin)
            await log.append([scorecard(f"while-{len(self.notes)}")])
            return found

    ground = Slow()
    for size in (2, 3, 4):
        assert await Watched(log, ground, 1).once() == size
    anchored, newest = await compare(log, ground)
    assert (anchored, parse(newest).checkpoint.size) == (4, 5)


@given(st.integers(0, 40), st.integers(0, 40), st.booleans())
def test_history_holds_exactly_where_the_log_grew(first: int, second: int, changed: bool) -> None:
    leaves = [merkle.leaf_hash(bytes([n])) for n in range(second)]
    nodes: dict[merkle.Node, bytes] = {}
    for n, leaf in enumerate(leaves):
        nodes.update(merkle.completed(n, leaf, lambda level, number: nodes[level, number]))
    older = leaves[:first] + [merkle.leaf_hash(b"more")] * (first - second)
    if changed and older:
        older[0] = merkle.leaf_hash(b"other")
    before = SIGNER.sign(Checkpoint(SIGNER.name, first, merkle.root(older)))
    now = SIGNER.sign(Checkpoint(SIGNER.name, second, merkle.root(leaves)))
    path = merkle.consistency_path(first, second, lambda *node: nodes[node]) if first <= second else []
    if first > second or (changed and first):
        with pytest.raises(HistoryChanged):
            check_history(before, now, path)
    else:
        assert check_history(before, now, path) == first


@pytest.mark.timeout(BUILD_TIMEOUT)
async def test_checkpoints_are_anchored_in_a_channel(log: MerkleLog, fabric: TestNetwork, tmp_path: Path) -> None:
    ledger = FabricLedger(fabric.profile(), tmp_path / "pending")
    watched = Watched(log, ledger, 1)
    assert await compare(log, ledger) == (None, await log.newest_checkpoint())
    assert await watched.once() == 1
    shutil.copytree(tmp_path / "log", tmp_path / "backup")
    await log.append([scorecard("a"), scorecard("b")])
    assert await watched.once() == 3
    assert await ledger.anchored(log.origin) == await log.newest_checkpoint()
    assert await compare(log, ledger, [SIGNER.verifier]) == (3, await log.newest_checkpoint())
    old = MerkleLog.committer(tmp_path / "backup", SIGNER)
    with pytest.raises(HistoryChanged, match="rolled back: it has 1 records and 3 were anchored"):
        await Watched(old, ledger, 1).once()
    # The channel itself takes neither a smaller checkpoint nor another of this size.
    for size in (2, 3):
        with pytest.raises(LedgerRefused):
            await ledger.anchor(SIGNER.sign(Checkpoint(SIGNER.name, size, bytes(32))))
    await old.close()
    await ledger.close()
