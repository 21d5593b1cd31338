"""Endorsement: a proposal is checked, simulated and, where it succeeded, signed (core/endorser of Fabric 2.5)."""

from __future__ import annotations

from fabric_protos.common.common_pb2 import CONFIG, ENDORSER_TRANSACTION, HeaderType
from fabric_protos.peer.chaincode_pb2 import ChaincodeID
from fabric_protos.peer.proposal_pb2 import ChaincodeAction, SignedProposal
from fabric_protos.peer.proposal_response_pb2 import (
    Endorsement,
    ProposalResponse,
    ProposalResponsePayload,
    Response,
)
from google.protobuf.message import DecodeError

from tests.ledger.fabric.peer import qscc
from tests.ledger.fabric.peer.chaincode import ChaincodeClient, ChaincodeFailure
from tests.ledger.fabric.peer.channel import Channel
from tests.ledger.fabric.peer.msp import WRITERS, Denied, LocalSigner
from tests.ledger.fabric.peer.policy import unsatisfied_on_signed_data
from tests.ledger.fabric.peer.simulation import Simulation
from tests.ledger.fabric.peer.transaction import UnpackedProposal, transaction_id

ERROR_THRESHOLD = 400
"""From this status on a response is a failure and carries no event."""


class ProposalRefused(Exception):
    """The proposal itself is at fault: form, identity, signature, or a right that its creator lacks."""


class Endorser:
    """One peer's endorser: runs proposals in its chaincode and signs with its own identity."""

    def __init__(self, signer: LocalSigner, chaincode: ChaincodeClient) -> None:
        self._signer, self._chaincode = signer, chaincode

    def process(self, channel: Channel, signed: SignedProposal) -> ProposalResponse:
        """The endorsed response; one with status 500 and no payload where the peer could not carry it out, and one
        with the chaincode's status and a payload where the chaincode refused. Raises ProposalRefused.
        """
        try:
            proposal = UnpackedProposal.of(signed)
        except DecodeError as error:
            raise ProposalRefused(f"error unmarshalling Proposal: {error}") from error
        if not proposal.extension.HasField("chaincode_id"):
            raise ProposalRefused("ChaincodeHeaderExtension.ChaincodeId is nil")
        if not proposal.extension.chaincode_id.name:
            raise ProposalRefused("ChaincodeHeaderExtension.ChaincodeId.Name is empty")
        if proposal.channel.channel_id != channel.definition.channel:
            return _peer_failure(f"channel '{proposal.channel.channel_id}' not found")
        _check(channel, proposal)
        try:
            return self._endorsed(channel, proposal)
        except ChaincodeFailure as failure:
            return _peer_failure(str(failure))

    def _endorsed(self, channel: Channel, proposal: UnpackedProposal) -> ProposalResponse:
        response, results, events = self._simulate(channel, proposal)
        name = proposal.extension.chaincode_id.name
        action = ChaincodeAction(
            results=results,
            events=events,
            response=response,
            chaincode_id=ChaincodeID(name=name, version=channel.definition.version),
        )
        payload = ProposalResponsePayload(
            proposal_hash=proposal.digest, extension=action.SerializeToString()
        ).SerializeToString()
        if response.status >= ERROR_THRESHOLD:
            return ProposalResponse(response=response, payload=payload)
        endorsement = Endorsement(
            endorser=self._signer.identity, signature=self._signer.sign(payload + self._signer.identity)
        )
        return ProposalResponse(version=1, response=response, payload=payload, endorsement=endorsement)

    def _simulate(self, channel: Channel, proposal: UnpackedProposal) -> tuple[Response, bytes, bytes]:
        """Response, serialized read-write set and serialized event. Raises ChaincodeFailure."""
        name, transaction = proposal.extension.chaincode_id.name, proposal.channel.tx_id
        call = proposal.spec.input
        if name == qscc.NAME:
            return qscc.query(channel, call.args, proposal.signature.creator, proposal.signed), b"", b""
        if name != channel.definition.chaincode:
            raise ChaincodeFailure(
                f"make sure the chaincode {name} has been successfully defined on channel "
                f"{channel.definition.channel} and try again: chaincode {name} not found"
            )
        simulation = Simulation(channel.ledger, name, transaction)
        try:
            message = self._chaincode.execute(
                simulation, channel.definition.channel, transaction, call, proposal.signed
            )
        except ChaincodeFailure as failure:
            raise ChaincodeFailure(
                f"error in simulation: failed to execute transaction {transaction}: {failure}"
            ) from failure
        response = Response.FromString(message.payload)
        event = b""
        if response.status < ERROR_THRESHOLD and message.HasField("chaincode_event"):
            message.chaincode_event.chaincode_id, message.chaincode_event.tx_id = name, transaction
            event = message.chaincode_event.SerializeToString()
        return response, simulation.read_write_set(), event


def check_time(channel: Channel, signed: SignedProposal) -> None:
    """What a peer does to a proposal from outside before anything else (ExpirationCheck). Raises ProposalRefused."""
    try:
        creator = UnpackedProposal.of(signed).signature.creator
    except DecodeError as error:
        raise ProposalRefused(f"failed parsing proposal: {error}") from error
    if channel.membership.expired(creator):
        raise ProposalRefused("proposal client identity expired")


def _check(channel: Channel, proposal: UnpackedProposal) -> None:
    try:
        _check_headers(proposal)
        _check_creator(channel, proposal)
    except ProposalRefused as refusal:
        raise ProposalRefused(f"error validating proposal: {refusal}") from None
    header, creator = proposal.channel, proposal.signature.creator
    if channel.ledger.location(header.tx_id) is not None:
        raise ProposalRefused(f"duplicate transaction found [{header.tx_id}]. Creator [{creator.hex()}]")
    system = proposal.extension.chaincode_id.name == qscc.NAME  # which checks readers by itself
    if not system and channel.membership.member(creator).role not in WRITERS:
        raise ProposalRefused(unsatisfied_on_signed_data("Writers", header.channel_id))


def _check_headers(proposal: UnpackedProposal) -> None:
    channel, signature = proposal.channel, proposal.signature
    if channel.type not in (ENDORSER_TRANSACTION, CONFIG):
        raise ProposalRefused(f"invalid header type {HeaderType.Name(channel.type)}")
    if channel.epoch:
        raise ProposalRefused("epoch is non-zero")
    if not signature.nonce:
        raise ProposalRefused("nonce is empty")
    if not signature.creator:
        raise ProposalRefused("creator is empty")
    expected = transaction_id(signature)
    if channel.tx_id != expected:
        raise ProposalRefused(f"incorrectly computed txid '{channel.tx_id}' -- expected '{expected}'")


def _check_creator(channel: Channel, proposal: UnpackedProposal) -> None:
    access_denied = f"access denied: channel [{proposal.channel.channel_id}] creator org"
    if not proposal.signed.signature:
        raise ProposalRefused("empty signature bytes")
    try:
        member = channel.membership.member(proposal.signature.creator)
    except Denied:
        raise ProposalRefused(f"{access_denied} unknown, creator is malformed") from None
    if member.role is None or not member.signed(proposal.signed.signature, proposal.signed.proposal_bytes):
        raise ProposalRefused(f"{access_denied} [{member.msp_id}]")


def _peer_failure(message: str) -> ProposalResponse:
    return ProposalResponse(response=Response(status=500, message=message))
