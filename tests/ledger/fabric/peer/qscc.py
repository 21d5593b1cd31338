"""The system chaincode that answers questions about the ledger itself (core/scc/qscc of Fabric 2.5)."""

from __future__ import annotations

from collections.abc import Sequence

from fabric_protos.common.common_pb2 import Block, Envelope
from fabric_protos.peer.proposal_pb2 import SignedProposal
from fabric_protos.peer.proposal_response_pb2 import Response
from fabric_protos.peer.transaction_pb2 import ProcessedTransaction

from tests.ledger.fabric.peer.blocks import header_hash
from tests.ledger.fabric.peer.channel import Channel
from tests.ledger.fabric.peer.msp import READERS
from tests.ledger.fabric.peer.policy import unsatisfied_on_signed_data

NAME = "qscc"
ERROR = 500


class _Failed(Exception):
    """The query has no answer; the message is the chaincode's."""


def query(channel: Channel, arguments: Sequence[bytes], creator: bytes, signed: SignedProposal) -> Response:
    """Answers [function, channel id, argument]: a serialized message, or status 500 with a sentence."""
    try:
        return Response(status=200, payload=_answer(channel, arguments, creator, signed))
    except _Failed as failure:
        return Response(status=ERROR, message=str(failure))


def _answer(channel: Channel, arguments: Sequence[bytes], creator: bytes, signed: SignedProposal) -> bytes:
    if len(arguments) < 2:
        raise _Failed(f"Incorrect number of arguments, {len(arguments)}")
    function, channel_id = arguments[0].decode(), arguments[1].decode()
    if function != "GetChainInfo" and len(arguments) < 3:
        raise _Failed(f"missing 3rd argument for {function}")
    if channel_id != channel.definition.channel:
        raise _Failed(f"Invalid chain ID, {channel_id}")
    if not channel.membership.satisfied(creator, signed.signature, signed.proposal_bytes, READERS):
        denial = unsatisfied_on_signed_data("Readers", channel_id)
        raise _Failed(f"access denied for [{function}][{channel_id}]: [{denial}]")
    with channel.ledger.changed:
        match function:
            case "GetChainInfo":
                return channel.ledger.info().SerializeToString()
            case "GetTransactionByID":
                return _transaction(channel, arguments[2].decode()).SerializeToString()
            case "GetBlockByTxID":
                return _block_of(channel, arguments[2].decode()).SerializeToString()
            case "GetBlockByNumber":
                return _block(channel, arguments[2].decode()).SerializeToString()
            case "GetBlockByHash":
                return _block_with_hash(channel, arguments[2]).SerializeToString()
    raise _Failed(f"access denied for [{function}][{channel_id}]: [Unmapped policy for {NAME}/{function}]")


def _transaction(channel: Channel, transaction_id: str) -> ProcessedTransaction:
    found = channel.ledger.location(transaction_id)
    if found is None:
        raise _Failed(f"Failed to get transaction with id {transaction_id}, error {_unknown(transaction_id)}")
    raw = channel.ledger.blocks[found.height.block].data.data[found.height.transaction]
    return ProcessedTransaction(transactionEnvelope=Envelope.FromString(raw), validationCode=found.code)


def _block_of(channel: Channel, transaction_id: str) -> Block:
    found = channel.ledger.location(transaction_id)
    if found is None:
        raise _Failed(f"Failed to get block for txID {transaction_id}, error {_unknown(transaction_id)}")
    return channel.ledger.blocks[found.height.block]


def _block(channel: Channel, number: str) -> Block:
    if not number.isdecimal():
        raise _Failed(f'Failed to parse block number with error strconv.ParseUint: parsing "{number}": invalid syntax')
    if int(number) >= channel.ledger.height:
        raise _Failed(f"Failed to get block number {number}, error no such block number [{number}] in index")
    return channel.ledger.blocks[int(number)]


def _block_with_hash(channel: Channel, wanted: bytes) -> Block:
    for block in channel.ledger.blocks:
        if header_hash(block.header) == wanted:
            return block
    raise _Failed(f"Failed to get block hash {wanted.decode(errors='replace')}, error no such block hash in index")


def _unknown(transaction_id: str) -> str:
    return f"no such transaction ID [{transaction_id}] in index"
