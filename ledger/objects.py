"""Objects in a folder or in an S3-compatible bucket, and the evidence store that lies in a bucket.

Buckets are reached by the variables that every S3 tool reads: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ledger.port import StoreRefused, StoreUnavailable
from ledger.store import checked_name

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

_TIMEOUT = timedelta(seconds=20)
_CONNECT_TIMEOUT = timedelta(seconds=5)
_PROBES = "glassbox-check"
"""Where a bucket is tried. No evaluation's objects lie there: those are under 64 hexadecimal digits."""


class Objects:
    """Objects by path below `url`: `s3://BUCKET/PREFIX`, `file:///FOLDER` or a folder's path. `setting`: the variable
    that names the place, for the sentence of `StoreUnavailable`, which every method may raise."""

    def __init__(self, url: str, setting: str) -> None:
        self.url, self._setting = url.rstrip("/"), setting
        self._store = _connect(self.url)

    async def create(self, path: str, data: bytes) -> bool:
        """Whole or not at all; False if one stands there."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._trouble():
            try:
                self._unversioned(await obstore.put_async(self._store, path, data, mode="create"))
                return True
            except AlreadyExistsError:
                # S3 says the same (409) of another creation that is under way and may yet fail
                await obstore.head_async(self._store, path)
                return False

    async def replace(self, path: str, data: bytes) -> None:
        import obstore

        with self._trouble():
            self._unversioned(await obstore.put_async(self._store, path, data, use_multipart=False))

    async def get(self, path: str, at_most: int | None = None) -> bytes | None:
        """None where there is none, or one of more than `at_most` bytes."""
        import obstore

        with self._trouble():
            try:
                found = await obstore.get_async(self._store, path)
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None
            if at_most is not None and found.meta["size"] > at_most:
                return None
            return bytes(await found.bytes_async())

    async def delete(self, path: str) -> None:
        import obstore

        with self._trouble():
            try:
                await obstore.delete_async(self._store, path)
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise

    async def paths(self, folder: str) -> list[str]:
        """The paths that begin `FOLDER/`, sorted."""
        import obstore

        with self._trouble():
            listed = [entry["path"] async for batch in obstore.list(self._store, folder) for entry in batch]
        return sorted(listed)

    async def check(self) -> None:
        """Try the place with an object that is deleted again. Raises `StoreRefused` where a second creation goes
        through, or where what is replaced is kept."""
        path = f"{_PROBES}/{secrets.token_hex(16)}"
        try:
            if not await self.create(path, b"1") or await self.create(path, b"2"):
                raise StoreRefused(
                    f"{self.url} does not keep what was put first (If-None-Match): two processes could judge one "
                    f"evaluation with two salts; name another object store with {self._setting}"
                )
        finally:
            await self.delete(path)

    def _unversioned(self, put: object) -> None:
        version = put.get("version") if isinstance(put, dict) else None
        if version not in (None, "null"):  # "null": versioning is suspended, and what is put now has no second version
            raise StoreRefused(
                f"versioning is on in {self.url}: what is erased there could be had back; turn it off, delete the "
                f"noncurrent versions, or name another bucket with {self._setting}"
            )

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError) as error:
            reason = str(error).split("\n", 1)[0][:300]
            hint = "the AWS_ variables" if self.url.startswith("s3:") else "that this user may use the folder"
            raise StoreUnavailable(
                f"the object store {self.url}: {reason}: check {hint} and {self._setting}"
            ) from error


class BucketStore:
    """`store.ObjectStore` in an S3-compatible bucket with strong read-after-write consistency and versioning off."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def put_if_absent(self, name: str, data: bytes) -> bool:
        return await self._objects.create(checked_name(name), data)

    async def replace(self, name: str, data: bytes) -> None:
        await self._objects.replace(checked_name(name), data)

    async def get(self, name: str) -> bytes | None:
        return await self._objects.get(checked_name(name))

    async def delete(self, name: str) -> None:
        await self._objects.delete(checked_name(name))

    async def names(self, owner: str) -> list[str]:
        return await self._objects.paths(owner)

    async def check(self) -> None:
        """As `Objects.check`."""
        await self._objects.check()

    async def close(self) -> None:
        """Nothing to end: connections close when idle."""


def _connect(url: str) -> S3Store | LocalStore:
    from obstore.store import LocalStore, S3Store

    if not url.startswith("s3:"):
        folder = Path(urlsplit(url).path if url.startswith("file:") else url)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return LocalStore(folder)
    # whoever uses the store waits and repeats: retries here only bridge a broken connection
    return S3Store.from_url(
        url,
        client_options={"allow_http": True, "timeout": _TIMEOUT, "connect_timeout": _CONNECT_TIMEOUT},
        retry_config={"max_retries": 2, "retry_timeout": _TIMEOUT},
    )
