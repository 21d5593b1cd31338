"""What the peers of one channel share: the chaincode's definition, the members, the ledger and the orderer."""

from __future__ import annotations

from dataclasses import dataclass

from tests.ledger.fabric.peer.faults import OrdererFaults
from tests.ledger.fabric.peer.ledger import Ledger
from tests.ledger.fabric.peer.msp import Membership
from tests.ledger.fabric.peer.orderer import BatchSize, Orderer
from tests.ledger.fabric.peer.validation import Validator


@dataclass(frozen=True)
class Definition:
    """A chaincode as its organisations approved it for a channel.

    `endorsements`: how many organisations' peers must sign the same result.
    """

    channel: str
    chaincode: str
    endorsements: int
    version: str = "1.0"


class Channel:
    """One ledger with its ordering service. It serves until closed."""

    def __init__(
        self, definition: Definition, membership: Membership, faults: OrdererFaults, batches: BatchSize
    ) -> None:
        self.definition, self.membership = definition, membership
        self.ledger = Ledger(definition.channel, definition.chaincode)
        validator = Validator(self.ledger, membership, definition.endorsements, faults)
        self.orderer = Orderer(self.ledger, membership, validator, faults, batches)

    def close(self) -> None:
        self.orderer.close()
