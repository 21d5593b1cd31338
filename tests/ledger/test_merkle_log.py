"""What the SQLite log promises beyond the common behaviour: crashes, trouble, one writer, consistency."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import checkpoint, merkle
from ledger.bundle import make_bundle
from ledger.checkpoint import Signer
from ledger.log_file import FILE_NAME, LOCK_NAME
from ledger.merkle_log import MerkleLog
from ledger.port import LedgerUnavailable, Receipt
from ledger.verify import verify_bundle
from tests.ledger.records import CREATED_AT, POLICY, scorecard

SIGNER = Signer("log.example/merkle", bytes(32))
KEYS = [str(SIGNER.verifier)]


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[MerkleLog]:
    made = MerkleLog.committer(tmp_path, SIGNER)
    await made.register_policy(POLICY.document, CREATED_AT)
    yield made
    await made.close()


def holds(receipt: Receipt) -> bool:
    return all(step.holds for step in verify_bundle(make_bundle(receipt, POLICY.document), KEYS))


def change(folder: Path, statement: str, *values: Any) -> None:
    """What somebody with an SQLite shell could do."""
    connection = sqlite3.connect(folder / FILE_NAME)
    with connection:
        connection.execute(statement, values)
    connection.close()


async def test_a_batch_is_one_checkpoint_and_all_its_proofs_lead_there(log: MerkleLog) -> None:
    results = await log.append([scorecard(f"e-{n}") for n in range(9)])
    receipts = [result for result in results if isinstance(result, Receipt)]
    assert {receipt.proof["checkpoint"] for receipt in receipts} == {await log.newest_checkpoint()}
    assert [receipt.proof["index"] for receipt in receipts] == list(range(1, 10))
    assert (await log.audit()).checkpoints == 3
    assert (await log.append([scorecard("e-1")]))[0] == await log.prove("e-1")
    assert (await log.audit()).checkpoints == 3


async def test_a_new_ledger_has_a_signed_checkpoint_of_nothing(tmp_path: Path) -> None:
    log = MerkleLog.committer(tmp_path, SIGNER)
    signed = checkpoint.parse(await log.newest_checkpoint())
    await log.close()
    assert checkpoint.verify(signed, [SIGNER.verifier]) == SIGNER.verifier
    assert (signed.checkpoint.size, signed.checkpoint.root) == (0, merkle.EMPTY_ROOT)


async def test_every_checkpoint_extends_the_ones_before(log: MerkleLog) -> None:
    heads = [checkpoint.parse(await log.newest_checkpoint()).checkpoint]
    for n in range(7):
        await log.append([scorecard(f"e-{n}-{m}") for m in range(n)])
        heads.append(checkpoint.parse(await log.newest_checkpoint()).checkpoint)
    for first in heads:
        for second in heads[heads.index(first) :]:
            path = await log.prove_consistency(first.size, second.size)
            merkle.verify_consistency(first.size, second.size, path, first.root, second.root)
    with pytest.raises(ValueError, match="no 1000 leaves"):
        await log.prove_consistency(1, 1000)


async def test_readers_follow_a_committer_and_cannot_write(log: MerkleLog, tmp_path: Path) -> None:
    reader = MerkleLog.reader(tmp_path)
    assert reader.origin == SIGNER.name
    assert await reader.prove("e") is None
    await log.append([scorecard("e")])
    receipt = await reader.prove("e")
    assert receipt is not None
    assert holds(receipt)
    assert await reader.policy(POLICY.digest) == POLICY.document
    with pytest.raises(LedgerUnavailable, match="only the committer writes"):
        await reader.append([scorecard("f")])
    await reader.close()


async def test_a_second_committer_is_told_who_the_first_is(log: MerkleLog, tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match=rf"another committer \(process {os.getpid()}\).*one at a time"):
        MerkleLog.committer(tmp_path, SIGNER)
    await log.append([scorecard("e")])


async def test_the_lock_ends_with_the_committer(tmp_path: Path) -> None:
    for _ in range(2):
        await MerkleLog.committer(tmp_path, SIGNER).close()


def test_a_reader_without_a_ledger_is_told_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match=r"no ledger at .*glassbox up.*GLASSBOX_DATA_DIR"):
        MerkleLog.reader(tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_the_key_of_another_log_is_refused(log: MerkleLog, tmp_path: Path) -> None:
    await log.close()
    with pytest.raises(LedgerUnavailable, match=r"is the log log\.example/merkle, not log\.example/other"):
        MerkleLog.committer(tmp_path, Signer.generate("log.example/other"))


async def test_a_new_key_of_the_same_name_signs_the_standing_tree(log: MerkleLog, tmp_path: Path) -> None:
    await log.append([scorecard("e")])
    await log.close()
    rotated = Signer.generate(SIGNER.name)
    again = MerkleLog.committer(tmp_path, rotated)
    receipt = await again.prove("e")
    await again.close()
    assert receipt is not None
    steps = verify_bundle(make_bundle(receipt, POLICY.document), [str(rotated.verifier)])
    assert steps[-1].holds


async def test_a_full_disk_is_trouble_that_passes(log: MerkleLog, tmp_path: Path) -> None:
    await log.append([scorecard("before")])
    database = log._file._db
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerUnavailable, match="the disk is full: free some space"):
        await log.append([scorecard(f"e-{n}") for n in range(50)])
    assert await log.read("e-0") is None
    database.execute("PRAGMA max_page_count = 1000000")
    results = await log.append([scorecard(f"e-{n}") for n in range(50)])
    assert all(isinstance(result, Receipt) and result.result == "created" for result in results)
    assert (await log.audit()).problem is None


async def test_a_locked_file_is_trouble_that_passes(log: MerkleLog, tmp_path: Path) -> None:
    log._file._db.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="another program holds it locked"):
        await log.append([scorecard("e")])
    other.execute("ROLLBACK")
    other.close()
    assert isinstance((await log.append([scorecard("e")]))[0], Receipt)


def test_what_is_no_ledger_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("not a database " * 100)
    with pytest.raises(LedgerUnavailable, match="damaged, or is no ledger"):
        MerkleLog.committer(tmp_path, SIGNER)
    (tmp_path / FILE_NAME).unlink()
    change(tmp_path, "PRAGMA user_version = 9")
    with pytest.raises(LedgerUnavailable, match="has format 9"):
        MerkleLog.committer(tmp_path, SIGNER)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        MerkleLog.committer(tmp_path / "file" / "ledger", SIGNER)


async def test_a_tree_changed_behind_its_checkpoint_is_not_signed(log: MerkleLog, tmp_path: Path) -> None:
    await log.append([scorecard("e")])
    await log.close()
    change(tmp_path, "UPDATE nodes SET hash = ? WHERE level = 1", bytes(32))
    with pytest.raises(LedgerUnavailable, match="changed behind its newest checkpoint"):
        MerkleLog.committer(tmp_path, SIGNER)


async def test_a_missing_node_is_damage_and_not_a_wrong_proof(log: MerkleLog, tmp_path: Path) -> None:
    await log.append([scorecard("e")])
    change(tmp_path, "DELETE FROM nodes WHERE level = 0 AND number = 0")
    with pytest.raises(LedgerUnavailable, match="lacks tree node 0/0"):
        await log.prove("e")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE checkpoints SET note = 'x'",
        "UPDATE policies SET policy = x'ff'",
        "UPDATE leaves SET record = x'ff' WHERE number = 1",
    ],
)
async def test_what_cannot_be_read_back_is_damage_and_never_a_refusal(
    log: MerkleLog, tmp_path: Path, statement: str
) -> None:
    await log.append([scorecard("e")])
    await log.close()
    change(tmp_path, statement)
    with pytest.raises(LedgerUnavailable, match="damaged"):
        await append_again(tmp_path)


async def append_again(folder: Path) -> None:
    reopened = MerkleLog.committer(folder, SIGNER)
    try:
        await reopened.append([scorecard("e"), scorecard("f")])
    finally:
        await reopened.close()


async def test_a_reader_needs_no_committer(log: MerkleLog, tmp_path: Path) -> None:
    await log.append([scorecard("e")])
    await log.close()
    reader = MerkleLog.reader(tmp_path)
    receipt = await reader.prove("e")
    await reader.close()
    assert receipt is not None
    assert holds(receipt)


WRITER = """
import asyncio, sys
from pathlib import Path
from ledger.checkpoint import Signer
from ledger.merkle_log import MerkleLog
from tests.ledger.records import CREATED_AT, POLICY, scorecard

async def main():
    log = MerkleLog.committer(Path(sys.argv[1]), Signer("log.example/merkle", bytes(32)))
    await log.register_policy(POLICY.document, CREATED_AT)
    batch = 0
    while True:
        await log.append([scorecard(f"{batch}-{n}") for n in range(batch % 4 + 1)])
        print(batch, flush=True)
        batch += 1

asyncio.run(main())
"""


@pytest.mark.parametrize("batches", [1, 5, 12])
async def test_a_killed_committer_leaves_whole_batches_and_every_proof_verifies(tmp_path: Path, batches: int) -> None:
    told = killed_after(batches, tmp_path)
    log = MerkleLog.committer(tmp_path, SIGNER)
    report = await log.audit([SIGNER.verifier])
    assert report.problem is None
    for batch in range(told + 1):
        for n in range(batch % 4 + 1):
            receipt = await log.prove(f"{batch}-{n}")
            assert receipt is not None
            assert holds(receipt)
    assert isinstance((await log.append([scorecard("after")]))[0], Receipt)
    await log.close()


def killed_after(batches: int, folder: Path) -> int:
    """Kill a writing process without warning; the last batch that it was told stands."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(batches)]
    writer.send_signal(signal.SIGKILL)
    told += [int(line) for line in writer.stdout.read().split("\n") if line]
    writer.stdout.close()
    writer.wait()
    return told[-1]


def test_the_lock_file_stays_private(tmp_path: Path) -> None:
    MerkleLog.committer(tmp_path, SIGNER)._file.close()
    assert (tmp_path / LOCK_NAME).stat().st_mode & 0o077 == 0


async def test_ids_are_found_by_their_beginning(log: MerkleLog) -> None:
    await log.append([scorecard(name) for name in ("a-1", "a-2", "a-20", "b_1", "bx1")])
    assert await log.find("a-2", 5) == ["a-2", "a-20"]
    assert await log.find("a", 2) == ["a-1", "a-2"]
    assert await log.find("b_", 2) == ["b_1"], "no pattern"
    assert await log.find("%", 2) == []
