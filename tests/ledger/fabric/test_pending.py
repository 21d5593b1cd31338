"""The file of transactions on their way."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from ledger.fabric.pending import Pending, PendingTransaction
from ledger.port import LedgerUnavailable

ONE = PendingTransaction("01" * 32, ("e-1", "e-2"), b"\x00envelope")
TWO = PendingTransaction("02" * 32, (), b"other")


async def test_what_was_added_is_there_for_the_next_process_until_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "pending.sqlite3"
    first = Pending(path, "glassbox")
    await first.add([TWO, ONE])
    # Not closed: the process has died.
    second = Pending(path, "glassbox")
    assert await second.all() == [ONE, TWO]
    await second.remove([ONE.tx_id])
    await second.close()
    third = Pending(path, "glassbox")
    assert await third.all() == [TWO]
    await third.close()
    await first.close()


async def test_it_is_on_disk_in_full(tmp_path: Path) -> None:
    pending = Pending(tmp_path / "pending.sqlite3", "glassbox")
    found = await pending._run(lambda db: db.execute("PRAGMA synchronous").fetchone())
    assert found == (2,)  # FULL
    await pending.close()


async def test_many_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    pending = Pending(tmp_path / "pending.sqlite3", "glassbox")

    async def come_and_go(number: int) -> None:
        for n in range(20):
            one = PendingTransaction(f"{number}-{n}", ("e",), b"envelope")
            await pending.add([one])
            await pending.remove([one.tx_id])

    await asyncio.gather(*(come_and_go(number) for number in range(8)))
    assert await pending.all() == []
    await pending.close()


async def test_each_channel_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "pending.sqlite3"
    here, there = Pending(path, "glassbox"), Pending(path, "other")
    await here.add([ONE])
    assert await there.all() == []
    for pending in (here, there):
        await pending.close()


async def test_who_writes_nothing_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "pending.sqlite3"
    await Pending(path, "glassbox").close()
    assert not path.exists()


async def test_all_of_them_or_none(tmp_path: Path) -> None:
    pending = Pending(tmp_path / "pending.sqlite3", "glassbox")
    await pending.add([ONE])
    with pytest.raises(LedgerUnavailable):
        await pending.add([TWO, ONE])
    assert await pending.all() == [ONE]
    await pending.close()


async def test_trouble_names_the_file_and_the_next_step(tmp_path: Path) -> None:
    nowhere = Pending(tmp_path / "none" / "pending.sqlite3", "glassbox")
    with pytest.raises(LedgerUnavailable, match=r"transactions on their way, .*none/pending\.sqlite3: it cannot be op"):
        await nowhere.add([ONE])
    await nowhere.close()
    (tmp_path / "pending.sqlite3").write_bytes(b"not a database, but long enough to be read as one" * 50)
    damaged = Pending(tmp_path / "pending.sqlite3", "glassbox")
    with pytest.raises(LedgerUnavailable, match="damaged"):
        await damaged.all()
    await damaged.close()


async def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "pending.sqlite3"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 9")
    db.close()
    pending = Pending(path, "glassbox")
    with pytest.raises(LedgerUnavailable, match="has format 9, this version reads 1"):
        await pending.all()
    await pending.close()
