"""The ledger on Hyperledger Fabric, reached through the gateway service of its peers."""

import asyncio
import base64
import logging
from dataclasses import replace
from pathlib import Path

from glassbox.contract.canonical import canonical
from ledger.fabric.batches import BATCH
from ledger.fabric.channel import CATCHING_UP, ChannelLedger
from ledger.fabric.errors import Conflict, GatewayError
from ledger.fabric.gateway import Deadlines, Gateway
from ledger.fabric.pending import Pending
from ledger.fabric.profile import Profile
from ledger.fabric.proposal import Prepared
from ledger.fabric.transactions import Transactions
from ledger.port import Receipt

log = logging.getLogger(__name__)


class FabricLedger(ChannelLedger):
    """Reached through the gateway service of the channel's peers.

    `pending`: a file in the data folder, for transactions on their way (made by the first that writes).
    `in_flight`: transactions on their way at once.
    """

    def __init__(
        self,
        profile: Profile,
        pending: Path,
        *,
        in_flight: int = 8,
        batch: int = BATCH,
        deadlines: Deadlines | None = None,
    ) -> None:
        self.gateway = Gateway(profile, deadlines)
        self._pending = Pending(pending, profile.channel)
        super().__init__(profile, self.gateway, Transactions(self.gateway, self._pending, in_flight), batch)

    async def prove(self, evaluation_id: str) -> Receipt | None:
        """With the processed transaction and, if as many peers answer as must endorse, a reading (ledger.bundle): the
        record as they see it now, signed by them. A reading is a transaction that nobody submits."""
        receipt = await super().prove(evaluation_id)
        if receipt is None:
            return None
        try:
            reading = await self._read_by_endorsers(evaluation_id)
        except GatewayError as error:
            log.warning("the proof of %s comes without a reading by endorsers: %s", evaluation_id, error)
            return receipt
        return replace(receipt, proof={**receipt.proof, "reading": base64.b64encode(reading.envelope).decode()})

    async def _read_by_endorsers(self, evaluation_id: str) -> Prepared:
        for pause in CATCHING_UP:
            try:
                return await self.gateway.endorse("ReadRecords", canonical([evaluation_id]).decode())
            except Conflict:  # one of them is a block behind
                await asyncio.sleep(pause)
        return await self.gateway.endorse("ReadRecords", canonical([evaluation_id]).decode())

    async def close(self) -> None:
        await super().close()
        await self._pending.close()
