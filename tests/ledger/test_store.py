"""What an evidence store does, in a folder or in a bucket, and what a folder of files promises besides."""

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger.port import StoreUnavailable
from ledger.store import FolderStore, ObjectStore

pytestmark = pytest.mark.timeout(180)  # an S3 may take its time to start

OWNER = "ab" * 32
NAME = f"{OWNER}/evidence/grounding/{'cd' * 32}"


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def without_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot make files without a name."""
    real = os.open

    def refuse(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)


@pytest.fixture(params=["folder", "folder without O_TMPFILE", "bucket"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ObjectStore]:
    if request.param == "folder without O_TMPFILE":
        without_tmpfile(monkeypatch)
    made = request.getfixturevalue("bucket") if request.param == "bucket" else FolderStore(tmp_path / "evidence")
    yield made
    await made.close()


async def test_an_object_is_created_once_and_then_stands(store: ObjectStore) -> None:
    assert await store.get(NAME) is None
    assert await store.put_if_absent(NAME, b"first")
    assert not await store.put_if_absent(NAME, b"second")
    assert await store.get(NAME) == b"first"


async def test_of_many_at_once_one_creates_and_all_see_it(store: ObjectStore) -> None:
    contents = [bytes([n]) * 1000 for n in range(20)]
    made = await asyncio.gather(*(store.put_if_absent(NAME, content) for content in contents))
    assert made.count(True) == 1
    assert await store.get(NAME) == contents[made.index(True)]
    assert await store.names(OWNER) == [NAME]


async def test_replace_puts_one_in_place_of_another_or_of_none(store: ObjectStore) -> None:
    await store.replace(NAME, b"one")
    await store.replace(NAME, b"two")
    assert await store.get(NAME) == b"two"
    assert await store.names(OWNER) == [NAME]


async def test_deleted_is_gone_and_may_be_deleted_again(store: ObjectStore) -> None:
    await store.put_if_absent(NAME, b"x")
    await store.delete(NAME)
    await store.delete(NAME)
    assert await store.get(NAME) is None
    assert await store.names(OWNER) == []
    assert await store.names("ef" * 32) == []


async def test_owners_do_not_see_each_other(store: ObjectStore) -> None:
    other = f"{'ab' * 31}cd/request"
    await store.put_if_absent(f"{OWNER}/request", b"1")
    await store.put_if_absent(f"{OWNER}/raw/x", b"2")
    await store.put_if_absent(other, b"3")
    assert await store.names(OWNER) == [f"{OWNER}/raw/x", f"{OWNER}/request"]


BAD_NAMES = ["request", "", f"{OWNER}/", f"{OWNER}/../x", f"/{OWNER}/x", f"{OWNER}/a,b", "a/" * 200]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_a_name_that_could_leave_the_folder_is_refused(store: ObjectStore, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        await store.put_if_absent(name, b"x")


@pytest.fixture(params=["unnamed", "named"])
async def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FolderStore]:
    if request.param == "named":
        without_tmpfile(monkeypatch)
    made = FolderStore(tmp_path / "evidence")
    yield made
    await made.close()


async def test_files_are_private(folder: FolderStore, tmp_path: Path) -> None:
    await folder.put_if_absent(NAME, b"x")
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_trouble_is_a_sentence_without_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = FolderStore(tmp_path / "file" / "evidence")
    with pytest.raises(StoreUnavailable, match=r"check that the disk has space.*GLASSBOX_EVIDENCE_URL") as caught:
        await store.put_if_absent(NAME, b"secret answer")
    assert "secret answer" not in str(caught.value)
    await store.close()


async def test_a_full_disk_leaves_nothing_behind(folder: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await folder.put_if_absent(f"{OWNER}/request", b"x")

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(StoreUnavailable, match="No space left on device"):
            await folder.put_if_absent(NAME, b"x")
        with pytest.raises(StoreUnavailable):
            await folder.replace(NAME, b"x")
    assert await folder.names(OWNER) == [f"{OWNER}/request"]
    assert await folder.put_if_absent(NAME, b"x")


WRITER = """
import asyncio, sys
from pathlib import Path
from ledger.store import FolderStore

async def main():
    store = FolderStore(Path(sys.argv[1]))
    async def write(n):
        while True:
            await store.put_if_absent(f"{n:064x}/request", b"plaintext " * 20_000)
            print(n, flush=True)
            n += 8
    await asyncio.gather(*(write(n) for n in range(8)))

asyncio.run(main())
"""


def test_a_killed_writer_leaves_whole_objects_under_their_own_names_only(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(40)]
    writer.send_signal(signal.SIGKILL)
    told += [int(line) for line in writer.stdout.read().split("\n") if line]
    writer.stdout.close()
    writer.wait()
    left = files(tmp_path)
    assert {path.name for path in left} == {"request"}
    assert all(path.stat().st_size == 200_000 for path in left)
    assert {f"{n:064x}" for n in told} <= {path.parent.name for path in left}
