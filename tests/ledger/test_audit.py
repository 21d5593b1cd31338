"""An auditor finds whatever was changed in the file, and says what and where."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from glassbox.contract.record import record_bytes
from ledger.checkpoint import Signer
from ledger.log_file import FILE_NAME
from ledger.merkle_log import MerkleLog
from tests.ledger.records import CREATED_AT, POLICY, scorecard

SIGNER = Signer("log.example/audit", bytes(32))


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[MerkleLog]:
    """Policy record and checkpoint 2, then three batches of three: records 1-9, checkpoints 3-5."""
    made = MerkleLog.committer(tmp_path, SIGNER)
    await made.register_policy(POLICY.document, CREATED_AT)
    for batch in range(3):
        await made.append([scorecard(f"e-{batch}-{n}") for n in range(3)])
    yield made
    await made.close()


def change(folder: Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(folder / FILE_NAME)
    with connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


async def test_an_untouched_log_has_no_problem(log: MerkleLog) -> None:
    report = await log.audit([SIGNER.verifier], [await log.newest_checkpoint()])
    assert report.problem is None
    assert (report.origin, report.tree_size, report.checkpoints) == (SIGNER.name, 10, 5)


@pytest.mark.parametrize(
    ("statement", "values", "problem"),
    [
        (
            "UPDATE leaves SET record = ? WHERE number = 4",
            (record_bytes(scorecard("e-1-0", score="0.500000")),),
            "record 4 (e-1-0) does not give the stored tree node 0/4",
        ),
        ("UPDATE leaves SET record = ? WHERE number = 4", (b"{}",), "record 4 (e-1-0): kind"),
        (
            "UPDATE leaves SET record = ? WHERE number = 4",
            (record_bytes(scorecard("e-1-0", outcome="incomplete")),),
            "record 4 (e-1-0): outcome",
        ),
        (
            "UPDATE leaves SET record = ? WHERE number = 4",
            (record_bytes(scorecard("e-1-0")) + b" ",),
            "record 4 (e-1-0) is not in canonical form",
        ),
        (
            "UPDATE leaves SET evaluation_id = 'other' WHERE number = 4",
            (),
            "record 4 (other) carries the id e-1-0",
        ),
        ("DELETE FROM leaves WHERE number = 4", (), "record 4 is missing"),
        ("DELETE FROM leaves WHERE number > 8", (), "checkpoint 5 covers 10 records, the log has 9"),
        ("DELETE FROM nodes WHERE level = 1 AND number = 2", (), "does not give the stored tree node 1/2"),
        ("DELETE FROM policies", (), "record 1 (e-0-0): policy_digest"),
        ("UPDATE policies SET policy = x'7b7d'", (), "is another one"),
        ("UPDATE policies SET policy = x'78'", (), "is no policy"),
        ("UPDATE checkpoints SET tree_size = 3 WHERE serial = 4", (), "filed under 3 records and says 7"),
        ("UPDATE checkpoints SET note = 'x' WHERE serial = 4", (), "checkpoint 4: the checkpoint has no signature"),
    ],
)
async def test_a_change_is_found_and_named(
    log: MerkleLog, tmp_path: Path, statement: str, values: tuple[Any, ...], problem: str
) -> None:
    change(tmp_path, statement, *values)
    report = await log.audit()
    assert report.problem is not None
    assert problem in report.problem


async def test_a_rewritten_history_does_not_contain_what_the_auditor_kept(log: MerkleLog, tmp_path: Path) -> None:
    other = MerkleLog.committer(tmp_path / "rewritten", SIGNER)
    await other.register_policy(POLICY.document, CREATED_AT)
    await other.append([scorecard(f"e-{batch}-{n}", score="0.990000") for batch in range(3) for n in range(3)])
    assert (await other.audit([SIGNER.verifier])).problem is None
    kept = await log.newest_checkpoint()
    report = await other.audit([SIGNER.verifier], [kept])
    await other.close()
    assert report.problem == "earlier checkpoint 1: the first 10 records do not give its root"


async def test_a_shortened_log_does_not_reach_what_the_auditor_kept(log: MerkleLog, tmp_path: Path) -> None:
    other = MerkleLog.committer(tmp_path / "short", SIGNER)
    report = await other.audit([], [await log.newest_checkpoint()])
    await other.close()
    assert report.problem == "earlier checkpoint 1 covers 10 records, the log has 0"


async def test_checkpoints_are_checked_against_the_keys_named(log: MerkleLog) -> None:
    stranger = Signer.generate(SIGNER.name)
    report = await log.audit([stranger.verifier])
    assert report.problem is not None
    assert "whom you did not name" in report.problem


async def test_a_checkpoint_of_another_log_is_named(log: MerkleLog, tmp_path: Path) -> None:
    other = MerkleLog.committer(tmp_path / "other", Signer.generate("log.example/other"))
    report = await log.audit([], [await other.newest_checkpoint()])
    await other.close()
    assert report.problem == "earlier checkpoint 1 is of the log log.example/other"
