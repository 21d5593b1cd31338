"""The ledger on Hyperledger Fabric, reached through the gateway service of its peers."""

from pathlib import Path

from ledger.fabric.batches import BATCH
from ledger.fabric.channel import ChannelLedger
from ledger.fabric.gateway import Deadlines, Gateway
from ledger.fabric.pending import Pending
from ledger.fabric.profile import Profile
from ledger.fabric.transactions import Transactions


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

    async def close(self) -> None:
        await super().close()
        await self._pending.close()
