"""The services that clients of the older SDKs call: endorser, orderer and block delivery, each by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import grpc
from fabric_protos.common import common_pb2 as common
from fabric_protos.orderer.ab_pb2 import BroadcastResponse, SeekInfo, SeekPosition
from fabric_protos.orderer.ab_pb2 import DeliverResponse as OrdererDeliverResponse
from fabric_protos.orderer.ab_pb2_grpc import AtomicBroadcastServicer
from fabric_protos.peer.chaincode_event_pb2 import ChaincodeEvent
from fabric_protos.peer.events_pb2 import (
    DeliverResponse,
    FilteredBlock,
    FilteredChaincodeAction,
    FilteredTransaction,
)
from fabric_protos.peer.events_pb2_grpc import DeliverServicer
from fabric_protos.peer.peer_pb2_grpc import EndorserServicer
from fabric_protos.peer.proposal_pb2 import SignedProposal
from fabric_protos.peer.proposal_response_pb2 import ProposalResponse
from google.protobuf.message import DecodeError

from tests.ledger.fabric.peer.blocks import validation_codes
from tests.ledger.fabric.peer.channel import Channel
from tests.ledger.fabric.peer.endorser import ProposalRefused, check_time
from tests.ledger.fabric.peer.msp import READERS
from tests.ledger.fabric.peer.transaction import UnpackedTransaction

if TYPE_CHECKING:
    from tests.ledger.fabric.peer.peer import Peer

WAIT = 0.1
"""Seconds after which a stream that waits for a block looks whether its client is still there."""


class EndorserService(EndorserServicer):  # type: ignore[misc]  # generated without types
    """protos.Endorser: a proposal that is at fault ends the call, what the chaincode refuses is a response."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def ProcessProposal(self, request: SignedProposal, context: grpc.ServicerContext) -> ProposalResponse:
        try:
            check_time(self._peer.channel, request)
            return self._peer.endorser.process(self._peer.channel, request)
        except ProposalRefused as refusal:
            context.abort(grpc.StatusCode.UNKNOWN, str(refusal))


class BroadcastService(AtomicBroadcastServicer):  # type: ignore[misc]  # generated without types
    """orderer.AtomicBroadcast, on the port of each peer."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def Broadcast(
        self, requests: Iterable[common.Envelope], context: grpc.ServicerContext
    ) -> Iterator[BroadcastResponse]:
        for envelope in requests:
            response = self._peer.channel.orderer.broadcast(envelope)
            yield response
            if response.status != common.SUCCESS:
                return

    def Deliver(
        self, requests: Iterable[common.Envelope], context: grpc.ServicerContext
    ) -> Iterator[OrdererDeliverResponse]:
        for envelope in requests:
            for block in _delivered(self._peer, envelope, context):
                if isinstance(block, common.Block):
                    yield OrdererDeliverResponse(block=block)
                else:
                    yield OrdererDeliverResponse(status=block)


class DeliverService(DeliverServicer):  # type: ignore[misc]  # generated without types
    """protos.Deliver: whole or filtered blocks from a position on, each request ended by a status."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def Deliver(self, requests: Iterable[common.Envelope], context: grpc.ServicerContext) -> Iterator[DeliverResponse]:
        for envelope in requests:
            for block in _delivered(self._peer, envelope, context):
                if isinstance(block, common.Block):
                    yield DeliverResponse(block=block)
                else:
                    yield DeliverResponse(status=block)

    def DeliverFiltered(
        self, requests: Iterable[common.Envelope], context: grpc.ServicerContext
    ) -> Iterator[DeliverResponse]:
        channel_id = self._peer.channel.definition.channel
        for envelope in requests:
            for block in _delivered(self._peer, envelope, context):
                if isinstance(block, common.Block):
                    yield DeliverResponse(filtered_block=filtered(channel_id, block))
                else:
                    yield DeliverResponse(status=block)


def filtered(channel_id: str, block: common.Block) -> FilteredBlock:
    """What a client needs to know of a block: ids, validation codes, and events without their payloads."""
    made = FilteredBlock(channel_id=channel_id, number=block.header.number)
    for raw, code in zip(block.data.data, validation_codes(block), strict=True):
        payload = common.Payload.FromString(common.Envelope.FromString(raw).payload)
        header = common.ChannelHeader.FromString(payload.header.channel_header)
        transaction = FilteredTransaction(txid=header.tx_id, type=header.type, tx_validation_code=code)
        if header.type == common.ENDORSER_TRANSACTION:
            transaction.transaction_actions.chaincode_actions.extend(_events(payload))
        made.filtered_transactions.append(transaction)
    return made


def _events(payload: common.Payload) -> Iterator[FilteredChaincodeAction]:
    try:
        event = ChaincodeEvent.FromString(UnpackedTransaction.of(payload).action.events)
    except (DecodeError, ValueError):
        return
    if event.chaincode_id:
        event.ClearField("payload")
        yield FilteredChaincodeAction(chaincode_event=event)


def _delivered(peer: Peer, envelope: common.Envelope, context: grpc.ServicerContext) -> Iterator[common.Block | int]:
    """The blocks that a signed SeekInfo asks for, and then the status of the request."""
    channel = peer.channel
    try:
        payload = common.Payload.FromString(envelope.payload)
        header = common.ChannelHeader.FromString(payload.header.channel_header)
        creator = common.SignatureHeader.FromString(payload.header.signature_header).creator
        seek = SeekInfo.FromString(payload.data)
    except DecodeError:
        yield common.BAD_REQUEST
        return
    if header.channel_id != channel.definition.channel:
        yield common.NOT_FOUND
        return
    readers = channel.membership.satisfied(creator, envelope.signature, envelope.payload, READERS)
    if channel.membership.expired(creator) or not readers:
        yield common.FORBIDDEN
        return
    number, last = _position(seek.start, channel), _position(seek.stop, channel)
    while number <= last:
        block = _block(channel, number)
        if block is not None:
            yield block
            number += 1
        elif seek.behavior == SeekInfo.FAIL_IF_NOT_READY:
            yield common.NOT_FOUND
            return
        elif not context.is_active() or peer.stopping.is_set():
            return
    yield common.SUCCESS


def _block(channel: Channel, number: int) -> common.Block | None:
    """A block, waited for a moment where it is not there yet."""
    with channel.ledger.changed:
        if number >= channel.ledger.height:
            channel.ledger.changed.wait(WAIT)
        return channel.ledger.blocks[number] if number < channel.ledger.height else None


def _position(position: SeekPosition, channel: Channel) -> int:
    match position.WhichOneof("Type"):
        case "specified":
            return position.specified.number
        case "newest":
            return channel.ledger.height - 1
        case "next_commit":
            return channel.ledger.height
    return 0
