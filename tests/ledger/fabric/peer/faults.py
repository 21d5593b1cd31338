"""What goes wrong, set by a test while the network serves."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass, field


class Call(enum.Enum):
    """The calls of the gateway service."""

    EVALUATE = "Evaluate"
    ENDORSE = "Endorse"
    SUBMIT = "Submit"
    COMMIT_STATUS = "CommitStatus"
    CHAINCODE_EVENTS = "ChaincodeEvents"


class Tamper(enum.Enum):
    """What a dishonest gateway changes in the transaction that it hands out to be signed."""

    WRITES = "writes"
    """A value in the endorsed write set, so that no endorsement covers it: ENDORSEMENT_POLICY_FAILURE."""
    TRANSACTION_ID = "transaction id"
    """The id in its header: another transaction than the client proposed."""


@dataclass
class PeerFaults:
    """Faults of one peer's gateway.

    `unavailable`: calls refused with UNAVAILABLE before anything is done. `lost_replies`: calls that are carried out,
    but whose reply is UNAVAILABLE; Submit loses it once the transaction is committed. `silent`: calls that never
    answer, so that the client's deadline ends them.
    """

    unavailable: set[Call] = field(default_factory=set)
    lost_replies: set[Call] = field(default_factory=set)
    silent: set[Call] = field(default_factory=set)
    tamper: Tamper | None = None


@dataclass
class OrdererFaults:
    """Faults of the ordering service and of validation.

    `down`: nobody listens there. `leaderless`: it takes nothing while it elects a leader. `commits`: an event; while it
    is clear, what is ordered is not committed. `delay`: seconds before each block commits. `order_twice`: each envelope
    is ordered a second time, which makes a DUPLICATE_TXID. `conflicts`: so many of the next transactions fail with
    MVCC_READ_CONFLICT, whatever they read.
    """

    down: bool = False
    leaderless: bool = False
    commits: threading.Event = field(default_factory=threading.Event)
    delay: float = 0.0
    order_twice: bool = False
    conflicts: int = 0

    def __post_init__(self) -> None:
        self.commits.set()
