"""The stores of the settings: evidence, and the documents that requests refer to. Each a folder or a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassbox.settings import Settings
    from ledger.documents import StoredDocuments
    from ledger.store import ObjectStore


def evidence_store(settings: Settings) -> ObjectStore:
    """For reading."""
    from ledger.store import FolderStore

    if not settings.evidence.startswith("s3:"):
        return FolderStore(Path(settings.evidence))
    from ledger.objects import BucketStore, Objects

    return BucketStore(Objects(settings.evidence, "GLASSBOX_EVIDENCE_URL"))


async def evidence_store_to_write(settings: Settings) -> ObjectStore:
    """For writing: a bucket is tried first. Raises `StoreUnavailable` where it cannot be reached, `StoreRefused` where
    it could not keep the store's promises."""
    from ledger.objects import BucketStore

    store = evidence_store(settings)
    if isinstance(store, BucketStore):
        await store.check()
    return store


def documents(settings: Settings) -> StoredDocuments:
    from ledger.documents import StoredDocuments

    return StoredDocuments(settings.documents())
