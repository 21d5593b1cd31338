"""The log survives its disk: a copy taken while it is written is whole, and goes back to where the log was lost."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from glassbox.cli import ledger as command
from glassbox.cli.errors import CommandError
from glassbox.cli.publish import Publisher
from glassbox.settings import Settings
from ledger.audit import audit
from ledger.checkpoint import Signer, create_key_file
from ledger.log_file import FILE_NAME, LogFile
from ledger.merkle_log import MerkleLog
from ledger.port import LedgerUnavailable, Receipt
from ledger.rebuild import Rebuilt, rebuild
from streams.topics import RECEIPTS, partition_of
from tests.ledger.records import CREATED_AT, POLICY, scorecard
from tests.pipeline import Pipeline

RECORDS = [scorecard(f"e{n}") for n in range(30)]


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
        for n in range(0, len(RECORDS), 6):
            await log.append(RECORDS[n : n + 6])

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
    await replayed(data / "ledger", signer, list(range(20)))
    command.backup(tmp_path / "copy")
    results, newest = await replayed(data / "ledger", signer, list(range(20, 30)))
    assert results == ["created"] * 10
    shutil.rmtree(data / "ledger")
    command.restore(tmp_path / "copy")
    assert "21 records" in capsys.readouterr().out  # and the policy's
    results, again = await replayed(data / "ledger", signer, list(range(30)))
    assert results == ["exists"] * 20 + ["created"] * 10
    assert again == newest, "in the same order it is the same log, to the signature"
    with closing(LogFile(data / "ledger", None)) as file:
        assert audit(file, [signer.verifier], [newest]).problem is None


async def test_another_order_after_the_copy_is_another_log_and_an_auditor_sees_it(
    data: Path, signer: Signer, tmp_path: Path
) -> None:
    """With several partitions the topic has no one order: docs/operations.md says what that means."""
    await replayed(data / "ledger", signer, list(range(20)))
    command.backup(tmp_path / "copy")
    _, newest = await replayed(data / "ledger", signer, list(range(20, 30)))
    shutil.rmtree(data / "ledger")
    command.restore(tmp_path / "copy")
    results, _ = await replayed(data / "ledger", signer, [*range(29, 19, -1)])
    assert results == ["created"] * 10
    with closing(LogFile(data / "ledger", None)) as file:
        assert audit(file, [signer.verifier], []).problem is None
        assert audit(file, [signer.verifier], [newest]).problem is not None


# from the receipts


async def receipts_of(folder: Path, signer: Signer, lots: int = 5) -> tuple[list[Receipt], str]:
    """A log that grew in so many lots, the receipts that were published of it as three partitions have them, and its
    newest checkpoint."""
    log, said = await asyncio.to_thread(MerkleLog.committer, folder, signer), list[Receipt]()
    said.append(await log.register_policy(POLICY.document, CREATED_AT))
    for n in range(lots):
        for made in await log.append(RECORDS[n::lots]):
            assert isinstance(made, Receipt)
            said.append(made)
    newest = await log.newest_checkpoint()
    await log.close()
    return sorted(said, key=lambda it: (partition_of(it.evaluation_id.encode(), 3), it.proof["index"])), newest


async def rebuilt(folder: Path, signer: Signer, receipts: list[Receipt], *old: Signer) -> tuple[Rebuilt, str]:
    log = await asyncio.to_thread(MerkleLog.committer, folder, signer)
    try:
        keys = [each.verifier for each in (signer, *old)]
        return await rebuild(log, keys, receipts, {POLICY.digest: POLICY.document}.get), await log.newest_checkpoint()
    finally:
        await log.close()


async def test_from_its_receipts_it_is_the_same_log_whatever_the_order_of_partitions(
    data: Path, signer: Signer, tmp_path: Path
) -> None:
    receipts, newest = await receipts_of(data / "ledger", signer)
    assert [it.proof["index"] for it in receipts] != list(range(31))
    made, again = await rebuilt(tmp_path / "anew", signer, receipts + receipts[:9])
    assert (made, again) == (Rebuilt(31, 31, 31, 0), newest)
    made, again = await rebuilt(tmp_path / "anew", signer, receipts)
    assert (made, again) == (Rebuilt(0, 31, 31, 0), newest)
    with closing(LogFile(tmp_path / "anew", None)) as file:
        assert audit(file, [signer.verifier], [newest, receipts[7].proof["checkpoint"]]).problem is None


async def test_after_a_copy_only_what_came_since_is_put_back(data: Path, signer: Signer, tmp_path: Path) -> None:
    await receipts_of(data / "ledger", signer, 5)
    command.backup(tmp_path / "copy")
    log = await asyncio.to_thread(MerkleLog.committer, data / "ledger", signer)
    later = [scorecard(f"later{n}") for n in range(3)]
    said = [made for made in await log.append(later) if isinstance(made, Receipt)]
    newest = await log.newest_checkpoint()
    await log.close()
    shutil.rmtree(data / "ledger")
    command.restore(tmp_path / "copy")
    assert await rebuilt(data / "ledger", signer, said[::-1]) == (Rebuilt(3, 34, 34, 0), newest)


async def test_it_stops_before_the_first_record_without_a_receipt(data: Path, signer: Signer, tmp_path: Path) -> None:
    receipts, newest = await receipts_of(data / "ledger", signer)
    lost = [it for it in receipts if it.proof["index"] != 20]
    made, _ = await rebuilt(tmp_path / "anew", signer, lost)
    assert made == Rebuilt(20, 20, 31, 0)
    made, again = await rebuilt(tmp_path / "anew", signer, receipts)
    assert (made.added, again) == (11, newest)


async def test_only_what_the_logs_own_key_vouches_for_is_put_back(data: Path, signer: Signer, tmp_path: Path) -> None:
    receipts, _ = await receipts_of(data / "ledger", signer)
    other = create_key_file(tmp_path / "other.key", signer.name)
    made, _ = await rebuilt(tmp_path / "other", other, receipts)
    assert made == Rebuilt(0, 0, 0, 31)
    made, _ = await rebuilt(tmp_path / "other", other, receipts, signer)
    assert made == Rebuilt(31, 31, 31, 0)
    first = min(receipts, key=lambda it: int(it.proof["index"]))
    forged = [
        replace(first, record={**RECORDS[0], "evaluation_id": "forged"}),
        replace(first, proof={**first.proof, "index": 1}),
        replace(first, proof={**first.proof, "path": ["zz"]}),
        replace(first, proof={}),
        replace(first, ledger="fabric"),
    ]
    made, _ = await rebuilt(tmp_path / "anew", signer, forged)
    assert made == Rebuilt(0, 0, 0, 5)


async def test_a_log_that_went_on_in_another_order_is_not_touched(data: Path, signer: Signer, tmp_path: Path) -> None:
    receipts, _ = await receipts_of(data / "ledger", signer)
    await replayed(tmp_path / "anew", signer, list(range(29, 0, -1)))
    with pytest.raises(LedgerUnavailable, match="not the one that signed"):
        await rebuilt(tmp_path / "anew", signer, receipts)
    with closing(LogFile(tmp_path / "anew", None)) as file:
        assert file.size() == 30


async def test_the_command_reads_the_topic(
    signer: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receipts, newest = await receipts_of(tmp_path / "lost", signer)
    with closing(Pipeline(tmp_path)) as pipeline:
        await asyncio.to_thread(pipeline.start, [])  # the broker alone, with the policies registered on its topic
        with Publisher(pipeline.broker) as publisher:
            for it in receipts:
                said = {**vars(it), "evaluation_id": it.evaluation_id, "result": "created"}
                publisher.send(RECEIPTS, it.evaluation_id.encode(), json.dumps(said).encode())
            publisher.send(RECEIPTS, b"x", b"no receipt")
        monkeypatch.setenv("GLASSBOX_DATA_DIR", str(tmp_path / "data"))
        monkeypatch.setattr(Settings, "broker", lambda _: pipeline.broker)
        with pytest.raises(CommandError, match="put back the key"):
            await asyncio.to_thread(command.rebuild)
        monkeypatch.setenv("GLASSBOX_SIGNING_KEY_FILE", str(tmp_path / "signing.key"))
        monkeypatch.setattr(Settings, "policies", lambda _: {})  # as where they are not configured any more
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(command.rebuild)
    assert ended.value.code == 0
    assert "31 records put back from their receipts, 31 stand" in capsys.readouterr().out
    with closing(LogFile(tmp_path / "data" / "ledger", None)) as file:
        assert file.newest_checkpoint() == newest


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


def test_the_command_says_what_does_not_hold(data: Path, signer: Signer, capsys: pytest.CaptureFixture[str]) -> None:
    def audited() -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            command.audit(key=[str(signer.verifier)])
        return ended.value.code, capsys.readouterr().out

    asyncio.run(replayed(data / "ledger", signer, [0, 1, 2]))
    code, said = audited()
    assert (code, "4 records" in said, "every record and root holds" in said) == (0, True, True)
    file = data / "ledger" / FILE_NAME
    file.write_bytes(file.read_bytes().replace(b'"evaluation_id":"e1"', b'"evaluation_id":"e9"'))
    code, said = audited()
    assert (code, "does not hold" in said) == (1, True)
