"""What a dishonest gateway makes of an endorsed transaction."""

from __future__ import annotations

from fabric_protos.common.common_pb2 import ChannelHeader, Envelope, Payload
from fabric_protos.ledger.rwset.kvrwset.kv_rwset_pb2 import KVRWSet
from fabric_protos.ledger.rwset.rwset_pb2 import TxReadWriteSet
from fabric_protos.peer.transaction_pb2 import Transaction

from tests.ledger.fabric.peer.faults import Tamper
from tests.ledger.fabric.peer.transaction import UnpackedTransaction


def tampered(envelope: Envelope, how: Tamper) -> Envelope:
    payload = Payload.FromString(envelope.payload)
    if how is Tamper.TRANSACTION_ID:
        header = ChannelHeader.FromString(payload.header.channel_header)
        header.tx_id = "0" * 64
        payload.header.channel_header = header.SerializeToString()
    else:
        payload.data = _other_writes(payload).SerializeToString()
    return Envelope(payload=payload.SerializeToString())


def _other_writes(payload: Payload) -> Transaction:
    unpacked = UnpackedTransaction.of(payload)
    results = TxReadWriteSet.FromString(unpacked.action.results)
    for namespace in results.ns_rwset:
        sets = KVRWSet.FromString(namespace.rwset)
        for write in sets.writes:
            write.value = write.value.swapcase()
        namespace.rwset = sets.SerializeToString()
    unpacked.action.results = results.SerializeToString()
    unpacked.response.extension = unpacked.action.SerializeToString()
    unpacked.proposed.action.proposal_response_payload = unpacked.response.SerializeToString()
    transaction = Transaction.FromString(payload.data)
    transaction.actions[0].payload = unpacked.proposed.SerializeToString()
    return transaction
