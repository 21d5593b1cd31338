"""The ledger of one channel: blocks, an index of transactions, world state, and a way to wait for the next block."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fabric_protos.common.common_pb2 import CONFIG, Block, ChannelHeader, Envelope, Header, Payload
from fabric_protos.common.ledger_pb2 import BlockchainInfo
from fabric_protos.peer.chaincode_event_pb2 import ChaincodeEvent
from fabric_protos.peer.transaction_pb2 import TxValidationCode
from google.protobuf.timestamp_pb2 import Timestamp

from tests.ledger.fabric.peer.blocks import header_hash, make_block
from tests.ledger.fabric.peer.state import Height, VersionedState

LIFECYCLE = "_lifecycle"
"""The namespace in which a peer reads, in each transaction, which definition of the chaincode is in force."""


class Committed(NamedTuple):
    """One transaction as it stands in a block. Two may share an id: the second is a DUPLICATE_TXID."""

    transaction_id: str
    code: int
    event: ChaincodeEvent | None
    timestamp: Timestamp


class Location(NamedTuple):
    """Where the first transaction with an id stands, and its validation code."""

    height: Height
    code: int


Validate = Callable[[bytes, Height], Committed]
"""Judges a serialized envelope against the state as it stands, and applies its writes where it is valid."""


class Ledger:
    """Everything that one channel's peers agree on. The peers of the test network share it."""

    def __init__(self, channel: str, chaincode: str) -> None:
        self.channel = channel
        self.changed = threading.Condition()
        self.blocks: list[Block] = []
        self.committed: list[list[Committed]] = []
        self._state: defaultdict[str, VersionedState] = defaultdict(VersionedState)
        self._locations: dict[str, Location] = {}
        header = ChannelHeader(type=CONFIG, channel_id=channel).SerializeToString()
        genesis = Envelope(payload=Payload(header=Header(channel_header=header)).SerializeToString())
        self._append([genesis.SerializeToString()], [Committed("", TxValidationCode.VALID, None, Timestamp())])
        self._state[LIFECYCLE].put(definition_key(chaincode), Height(0, 0), b"\x08\x01")

    @property
    def height(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    def state(self, namespace: str) -> VersionedState:
        return self._state[namespace]

    def commit(self, envelopes: Sequence[bytes], validate: Validate) -> None:
        with self.changed:
            number = self.height
            committed = []
            for index, envelope in enumerate(envelopes):
                verdict = validate(envelope, Height(number, index))
                self._locations.setdefault(verdict.transaction_id, Location(Height(number, index), verdict.code))
                committed.append(verdict)
            self._append(envelopes, committed)
            self.changed.notify_all()

    def location(self, transaction_id: str) -> Location | None:
        with self.changed:
            return self._locations.get(transaction_id)

    def info(self) -> BlockchainInfo:
        with self.changed:
            last = self.blocks[-1].header
            return BlockchainInfo(
                height=self.height, currentBlockHash=header_hash(last), previousBlockHash=last.previous_hash
            )

    @contextmanager
    def snapshot(self) -> Iterator[int]:
        """The number of the last block, which stays the last one meanwhile."""
        with self.changed:
            yield self.height - 1

    def _append(self, envelopes: Sequence[bytes], committed: list[Committed]) -> None:
        previous = header_hash(self.blocks[-1].header) if self.blocks else b""
        self.blocks.append(make_block(self.height, previous, envelopes, [one.code for one in committed]))
        self.committed.append(committed)


def definition_key(chaincode: str) -> str:
    return f"namespaces/fields/{chaincode}/Sequence"
