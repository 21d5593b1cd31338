"""What makes a transaction in a block valid: form, signatures, endorsement policy, and reads that still hold."""

from __future__ import annotations

from collections.abc import Iterator

from fabric_protos.common.common_pb2 import (
    ENDORSER_TRANSACTION,
    ChannelHeader,
    Envelope,
    Payload,
    SignatureHeader,
)
from fabric_protos.ledger.rwset.kvrwset.kv_rwset_pb2 import KVRead, KVRWSet, RangeQueryInfo
from fabric_protos.ledger.rwset.rwset_pb2 import TxReadWriteSet
from fabric_protos.peer.chaincode_event_pb2 import ChaincodeEvent
from fabric_protos.peer.transaction_pb2 import TxValidationCode as Code
from google.protobuf.message import DecodeError

from tests.ledger.fabric.peer.faults import OrdererFaults
from tests.ledger.fabric.peer.ledger import Committed, Ledger
from tests.ledger.fabric.peer.msp import ENDORSERS, NODE_UNITS, Membership
from tests.ledger.fabric.peer.state import Height, VersionedState
from tests.ledger.fabric.peer.transaction import UnpackedTransaction, transaction_id

Namespaces = list[tuple[str, KVRWSet]]


class Validator:
    """Judges transactions in the order of their block. `endorsements`: organisations that must have signed."""

    def __init__(self, ledger: Ledger, membership: Membership, endorsements: int, faults: OrdererFaults) -> None:
        self._ledger, self._membership, self._endorsements = ledger, membership, endorsements
        self._faults = faults

    def validate(self, raw: bytes, height: Height) -> Committed:
        """The verdict on a serialized envelope; writes of a valid one are applied to the state."""
        envelope = Envelope.FromString(raw)
        payload = Payload.FromString(envelope.payload)
        channel = ChannelHeader.FromString(payload.header.channel_header)
        code, event = self._judge(envelope, payload, channel, height)
        return Committed(channel.tx_id, code, event, channel.timestamp)

    def _judge(
        self, envelope: Envelope, payload: Payload, channel: ChannelHeader, height: Height
    ) -> tuple[int, ChaincodeEvent | None]:
        signature = SignatureHeader.FromString(payload.header.signature_header)
        if channel.type != ENDORSER_TRANSACTION or channel.epoch or not signature.nonce or not signature.creator:
            return Code.BAD_COMMON_HEADER, None
        if not self._membership.satisfied(signature.creator, envelope.signature, envelope.payload, NODE_UNITS):
            return Code.BAD_CREATOR_SIGNATURE, None
        if channel.tx_id != transaction_id(signature):
            return Code.BAD_PROPOSAL_TXID, None
        try:
            transaction = UnpackedTransaction.of(payload)
            namespaces = read_write_sets(transaction.action.results)
        except (DecodeError, ValueError):
            return Code.INVALID_ENDORSER_TRANSACTION, None
        if transaction.response.proposal_hash != transaction.digest:
            return Code.INVALID_ENDORSER_TRANSACTION, None
        if channel.channel_id != self._ledger.channel:
            return Code.TARGET_CHAIN_NOT_FOUND, None
        if self._ledger.location(channel.tx_id) is not None:
            return Code.DUPLICATE_TXID, None
        if len(self._endorsing_organizations(transaction)) < self._endorsements:
            return Code.ENDORSEMENT_POLICY_FAILURE, None
        if (code := self._stale(namespaces)) is not None:
            return code, None
        self._apply(namespaces, height)
        events = transaction.action.events
        return Code.VALID, ChaincodeEvent.FromString(events) if events else None

    def _endorsing_organizations(self, transaction: UnpackedTransaction) -> set[str]:
        action = transaction.proposed.action
        signatories = (
            self._membership.signatory(
                each.endorser, each.signature, action.proposal_response_payload + each.endorser, ENDORSERS
            )
            for each in action.endorsements
        )
        return {msp_id for msp_id in signatories if msp_id is not None}

    def _stale(self, namespaces: Namespaces) -> int | None:
        """The code for reads that no longer hold, if any."""
        if self._faults.conflicts > 0:
            self._faults.conflicts -= 1
            return Code.MVCC_READ_CONFLICT
        for name, sets in namespaces:
            state = self._ledger.state(name)
            if any(_standing(state, read.key) != _height(read) for read in sets.reads):
                return Code.MVCC_READ_CONFLICT
            if any(list(_scan(state, query)) != _seen(query) for query in sets.range_queries_info):
                return Code.PHANTOM_READ_CONFLICT
        return None

    def _apply(self, namespaces: Namespaces, height: Height) -> None:
        for name, sets in namespaces:
            for write in sets.writes:
                self._ledger.state(name).put(write.key, height, None if write.is_delete else write.value)


def read_write_sets(results: bytes) -> Namespaces:
    """Each namespace with its keys read and written, from a serialized TxReadWriteSet."""
    sets = TxReadWriteSet.FromString(results).ns_rwset
    return [(one.namespace, KVRWSet.FromString(one.rwset)) for one in sets]


def _height(read: KVRead) -> Height | None:
    return Height(read.version.block_num, read.version.tx_num) if read.HasField("version") else None


def _standing(state: VersionedState, key: str) -> Height | None:
    entry = state.get(key)
    return entry.height if entry else None


def _seen(query: RangeQueryInfo) -> list[tuple[str, Height | None]]:
    return [(read.key, _height(read)) for read in query.raw_reads.kv_reads]


def _scan(state: VersionedState, query: RangeQueryInfo) -> Iterator[tuple[str, Height]]:
    """What the query would see now. The end of a range that was left early is its last key, which belongs to it."""
    end = query.end_key if query.itr_exhausted else query.end_key + "\0"
    return ((entry.key, entry.height) for entry in state.scan(query.start_key, end))
