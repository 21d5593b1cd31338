"""Where evidence lies: small objects by name, and a folder that keeps them.

Nothing spans two objects; each is created, replaced, read and deleted on its own, linearizably.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from ledger.port import StoreUnavailable

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
_LONGEST = 240
_THREADS = 16


class ObjectStore(Protocol):
    """Objects by name: `OWNER/rest`, segments of `[A-Za-z0-9._-]`. Every method may raise StoreUnavailable."""

    async def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create an object, whole or not at all; False if one stands under this name. Durable on return."""
        ...

    async def replace(self, name: str, data: bytes) -> None:
        """Put an object in place of the one that stands, or of none, in one step. Durable on return."""
        ...

    async def get(self, name: str) -> bytes | None: ...

    async def delete(self, name: str) -> None:
        """Durable on return; deleting what is not there is fine."""
        ...

    async def names(self, owner: str) -> list[str]:
        """The names that begin `OWNER/`, sorted."""
        ...

    async def close(self) -> None: ...


def checked_name(name: str) -> str:
    """The name, if a store takes it. Raises ValueError."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise ValueError(f"not a name in an evidence store: {name[:40]!r}")
    return name


class FolderStore:
    """Objects as files of mode 600: OWNER/evidence/KIND/DIGEST is `ROOT/OW/OWNER/evidence,KIND,DIGEST`.

    An owner's objects share one folder, so that creating one costs two fsyncs (file, folder) rather than one for
    each level. Files are written without a name (O_TMPFILE) and linked when whole, so a crash leaves no part of
    one. Where the file system has no O_TMPFILE the file is written under a random name in the owner's own
    folder: a crash may leave it there, but then it is an object like others, and deleting an owner's objects
    deletes it too. `replace` works that way everywhere, with content that may be read by anybody (tombstones).
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="evidence")

    async def put_if_absent(self, name: str, data: bytes) -> bool:
        return await self._run(name, lambda: self._create(name, data))

    async def replace(self, name: str, data: bytes) -> None:
        await self._run(name, lambda: self._replace(name, data))

    async def get(self, name: str) -> bytes | None:
        return await self._run(name, lambda: self._read(name))

    async def delete(self, name: str) -> None:
        await self._run(name, lambda: self._delete(name))

    async def names(self, owner: str) -> list[str]:
        return await self._run(owner, lambda: self._names(owner))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, name: str, work: Callable[[], T]) -> T:
        def guarded() -> T:
            try:
                return work()
            except OSError as error:
                raise StoreUnavailable(
                    f"the evidence store {self._root}: {error.strerror} at {name[:12]}…: check that the disk has "
                    "space and that this user may write there (GLASSBOX_EVIDENCE_URL)"
                ) from error

        return await asyncio.get_running_loop().run_in_executor(self._threads, guarded)

    def _place(self, name: str) -> tuple[Path, str]:
        """(folder, file name)"""
        owner, _, rest = checked_name(name).partition("/")
        return self._folder(owner), rest.replace("/", ",")

    def _folder(self, owner: str) -> Path:
        return self._root / owner[:2] / owner

    def _create(self, name: str, data: bytes) -> bool:
        folder, file_name = self._place(name)
        with _opened(folder) as descriptor:
            created = _link_unnamed(descriptor, folder, file_name, data)
            # Also when it stood already: the caller goes by it, so it must outlive a power cut from here on.
            os.fsync(descriptor)
        return created

    def _replace(self, name: str, data: bytes) -> None:
        folder, file_name = self._place(name)
        with _opened(folder) as descriptor:
            temporary = _write_named(descriptor, data)
            os.rename(temporary, file_name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
            os.fsync(descriptor)

    def _read(self, name: str) -> bytes | None:
        folder, file_name = self._place(name)
        try:
            return (folder / file_name).read_bytes()
        except FileNotFoundError:
            return None

    def _delete(self, name: str) -> None:
        folder, file_name = self._place(name)
        try:
            (folder / file_name).unlink()
        except FileNotFoundError:
            return
        with _opened(folder) as descriptor:
            os.fsync(descriptor)

    def _names(self, owner: str) -> list[str]:
        try:
            names = os.listdir(self._folder(owner))
        except FileNotFoundError:
            return []
        return sorted(f"{owner}/{name.replace(',', '/')}" for name in names)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A descriptor of the folder, which is made (durably) where it is missing."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        _make(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _make(folder: Path) -> None:
    if not folder.parent.exists():
        _make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _link_unnamed(descriptor: int, folder: Path, file_name: str, data: bytes) -> bool:
    """Write a file that has no name until it is whole; False if the name is taken."""
    try:
        file = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except OSError:  # EOPNOTSUPP, EISDIR or EINVAL, by file system; real trouble shows again below
        return _link_named(descriptor, file_name, data)
    try:
        _write_all(file, data)
        # Naming dst_dir_fd makes Python call linkat with AT_SYMLINK_FOLLOW, which /proc/self/fd needs (open(2)).
        os.link(f"/proc/self/fd/{file}", file_name, dst_dir_fd=descriptor)
    except FileExistsError:
        return False
    finally:
        os.close(file)
    return True


def _link_named(descriptor: int, file_name: str, data: bytes) -> bool:
    temporary = _write_named(descriptor, data)
    try:
        os.link(temporary, file_name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary, dir_fd=descriptor)
    return True


def _write_named(descriptor: int, data: bytes) -> str:
    name = f"new-{secrets.token_hex(16)}"
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=descriptor)
    try:
        _write_all(file, data)
    except BaseException:
        os.unlink(name, dir_fd=descriptor)
        raise
    finally:
        os.close(file)
    return name


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    os.fsync(file)
