"""The ledger on Fabric as its tests open it, and what they read off it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ledger.fabric.gateway import Deadlines
from ledger.fabric.ledger import FabricLedger
from ledger.fabric.pending import Pending, PendingTransaction
from ledger.port import (
    AppendResult,
    Receipt,
)
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.records import CREATED_AT, POLICY

QUICK = Deadlines(evaluate=5, endorse=5, submit=0.5, commit=0.5, known=0.2)


@asynccontextmanager
async def opened(
    network: TestNetwork, folder: Path, *, user: str = "User1", deadlines: Deadlines | None = None, **settings: Any
) -> AsyncIterator[FabricLedger]:
    ledger = FabricLedger(network.profile(user), folder / "pending.sqlite3", deadlines=deadlines, **settings)
    try:
        yield ledger
    finally:
        await ledger.close()


async def register(network: TestNetwork, folder: Path) -> None:
    async with opened(network, folder, user="Admin") as admin:
        await admin.register_policy(POLICY.document, CREATED_AT)


async def pending(folder: Path) -> list[PendingTransaction]:
    file = Pending(folder / "pending.sqlite3", "glassbox")
    try:
        return await file.all()
    finally:
        await file.close()


def results(answered: Sequence[AppendResult]) -> list[str]:
    return [answer.result if isinstance(answer, Receipt) else "refused" for answer in answered]


def transactions(answered: Sequence[AppendResult]) -> list[str]:
    """The different transactions of receipts, in order."""
    return list(dict.fromkeys(a.proof["tx_id"] for a in answered if isinstance(a, Receipt)))


def valid(network: TestNetwork) -> int:
    """Transactions in the blocks that were valid, without the channel's first."""
    return sum(one.code == 0 for block in network.channel.ledger.committed[1:] for one in block)
