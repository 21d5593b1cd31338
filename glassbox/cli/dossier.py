"""The archive of the settings: the ledger, and the evidence of the data folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassbox.dossier.archive import Archive
    from glassbox.settings import Settings


@asynccontextmanager
async def archive(settings: Settings) -> AsyncIterator[Archive]:
    """For reading. Raises `LedgerError` where there is none."""
    from glassbox.cli.ledgers import open_reader
    from glassbox.cli.stores import evidence_store
    from glassbox.dossier.archive import Archive, Shelf

    async with AsyncExitStack() as stack:
        ledger = open_reader(settings)
        stack.push_async_callback(ledger.close)
        shelf = Shelf(evidence_store(settings))
        stack.push_async_callback(shelf.close)
        yield Archive(ledger, shelf)
