"""The log survives its disk: a copy taken while it is written is whole, and goes back to where the log was lost."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from glassbox.cli import ledger as command
from ledger.audit import audit
from ledger.checkpoint import Signer, create_key_file
from ledger.log_file import FILE_NAME, LogFile
from ledger.merkle_log import MerkleLog
from ledger.port import LedgerUnavailable, Receipt
from tests.ledger.records import CREATED_AT, POLICY, scorecard

RECORDS = [scorecard(f"e{n}") for n in range(60)]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSBOX_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return create_key_file(tmp_path / "signing.key", "log.example")


async def replayed(folder: Path, signer: Signer, order: list[int]) -> tuple[list[str], str]:
    """Append records as a committer that reads the topic from its beginning; the results and the newest checkpoint."""
    log = await asyncio.to_thread(MerkleLog.committer, folder, signer)
    try:
        await log.register_policy(POLICY.document, CREATED_AT)
        results: list[str] = []
        for made in await log.append([RECORDS[n] for n in order]):
            assert isinstance(made, Receipt)
            results.append(made.result)
        for record in RECORDS:
            assert await log.read(record["evaluation_id"]) in (record, None)
        return results, await log.newest_checkpoint()
    finally:
        await log.close()


async def test_a_copy_taken_while_the_log_is_written_is_whole(data: Path, signer: Signer, tmp_path: Path) -> None:
    log = await asyncio.to_thread(MerkleLog.committer, data / "ledger", signer)
    await log.register_policy(POLICY.document, CREATED_AT)

    async def write() -> None:
        for n in range(0, len(RECORDS), 12):
            await log.append(RECORDS[n : n + 12])

    writing = asyncio.create_task(write())
    copies: list[Path] = []
    while not writing.done():
        copies.append(tmp_path / f"copy-{len(copies)}")
        await asyncio.to_thread(command.backup, copies[-1])
    await writing
    kept = []
    for copy in copies:
        with closing(LogFile(copy, None)) as file:
            assert audit(file, [signer.verifier], []).problem is None
            kept.append(file.newest_checkpoint() or "")
    with closing(LogFile(data / "ledger", None)) as file:  # and a copy is the log as it was, not another one
        assert audit(file, [signer.verifier], kept).problem is None
    await log.close()


async def test_what_was_lost_after_the_copy_comes_back_from_the_topic(
    data: Path, signer: Signer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await replayed(data / "ledger", signer, list(range(40)))
    command.backup(tmp_path / "copy")
    results, newest = await replayed(data / "ledger", signer, list(range(40, 60)))
    assert results == ["created"] * 20
    shutil.rmtree(data / "ledger")
    command.restore(tmp_path / "copy")
    assert "41 records" in capsys.readouterr().out  # and the policy's
    results, again = await replayed(data / "ledger", signer, list(range(60)))
    assert results == ["exists"] * 40 + ["created"] * 20
    assert again == newest, "in the same order it is the same log, to the signature"
    with closing(LogFile(data / "ledger", None)) as file:
        assert audit(file, [signer.verifier], [newest]).problem is None


async def test_another_order_after_the_copy_is_another_log_and_an_auditor_sees_it(
    data: Path, signer: Signer, tmp_path: Path
) -> None:
    """With several partitions the topic has no one order: docs/operations.md says what that means."""
    await replayed(data / "ledger", signer, list(range(40)))
    command.backup(tmp_path / "copy")
    _, newest = await replayed(data / "ledger", signer, list(range(40, 60)))
    shutil.rmtree(data / "ledger")
    command.restore(tmp_path / "copy")
    results, _ = await replayed(data / "ledger", signer, [*range(59, 39, -1)])
    assert results == ["created"] * 20
    with closing(LogFile(data / "ledger", None)) as file:
        assert audit(file, [signer.verifier], []).problem is None
        assert audit(file, [signer.verifier], [newest]).problem is not None


async def test_a_ledger_is_never_written_over(data: Path, signer: Signer, tmp_path: Path) -> None:
    await replayed(data / "ledger", signer, [0, 1])
    command.backup(tmp_path / "copy")
    with pytest.raises(LedgerUnavailable, match="move it away first"):
        command.restore(tmp_path / "copy")
    with pytest.raises(LedgerUnavailable, match="move it away first"):
        command.backup(tmp_path / "copy")
    (data / "ledger" / FILE_NAME).rename(data / "old")
    log = await asyncio.to_thread(MerkleLog.committer, data / "ledger", signer)
    with pytest.raises(LedgerUnavailable, match="another committer"):
        command.restore(tmp_path / "copy")
    await log.close()


def test_the_command_says_what_does_not_hold(data: Path, signer: Signer) -> None:
    asyncio.run(replayed(data / "ledger", signer, [0, 1, 2]))
    program = [sys.executable, "-m", "glassbox.cli", "ledger", "audit", "--key", str(signer.verifier)]
    whole = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (whole.returncode, whole.stderr) == (0, "")
    assert "4 records" in whole.stdout
    file = data / "ledger" / FILE_NAME
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b'"evaluation_id":"e1"', b'"evaluation_id":"e9"'))
    changed = subprocess.run(program, capture_output=True, text=True, check=False)
    assert changed.returncode == 1
    assert "does not hold" in changed.stdout
