"""Fabric's messages as a client makes and reads them: proposals, transactions and signed requests. Pure: nonce and
time come in from outside, and nothing is sent (fabric-protos; hyperledger/fabric, protoutil and docs "txflow").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ledger.fabric.identity import Signer
from ledger.fabric.protos import (
    DecodeError,
    Timestamp,
    chaincode,
    common,
    gateway,
    identities,
    orderer,
    proposal,
    proposal_response,
    transaction,
)

NONCE_SIZE = 24
"""Bytes of a nonce, as in Fabric's own clients."""

Position = tuple[int, str]
"""Where an event stands: number of its block, id of its transaction."""


class EnvelopeError(ValueError):
    """A prepared transaction that is not the one that was proposed."""


@dataclass(frozen=True)
class Proposal:
    """What is asked of a peer. `signed`: a peer.SignedProposal; the rest is what the answer is held against."""

    tx_id: str
    channel: str
    signed: Any
    channel_header: bytes
    signature_header: bytes
    chaincode_input: bytes


@dataclass(frozen=True)
class Prepared:
    """An endorsed and signed transaction, and what the chaincode answers when it is committed.

    `envelope`: the bytes of a common.Envelope, which may be submitted any number of times and counts once.
    """

    tx_id: str
    result: bytes
    envelope: bytes


def creator(signer: Signer) -> bytes:
    """How messages name their author: the bytes of an msp.SerializedIdentity."""
    return bytes(identities.SerializedIdentity(mspid=signer.msp_id, id_bytes=signer.certificate).SerializeToString())


def transaction_id(nonce: bytes, author: bytes) -> str:
    """Hexadecimal SHA-256 of nonce and creator, which peers recompute."""
    return sha256(nonce + author).hexdigest()


def propose(
    signer: Signer, channel: str, name: str, function: str, args: Sequence[str], *, nonce: bytes, time_ns: int
) -> Proposal:
    """A signed proposal to call a function of the chaincode `name`. `time_ns`: nanoseconds since 1970."""
    author = creator(signer)
    tx_id = transaction_id(nonce, author)
    chaincode_id = chaincode.ChaincodeID(name=name)
    channel_header = common.ChannelHeader(
        type=common.ENDORSER_TRANSACTION,
        tx_id=tx_id,
        channel_id=channel,
        timestamp=Timestamp(seconds=time_ns // 10**9, nanos=time_ns % 10**9),
        extension=proposal.ChaincodeHeaderExtension(chaincode_id=chaincode_id).SerializeToString(),
    ).SerializeToString()
    signature_header = common.SignatureHeader(creator=author, nonce=nonce).SerializeToString()
    chaincode_input = chaincode.ChaincodeInvocationSpec(
        chaincode_spec=chaincode.ChaincodeSpec(
            chaincode_id=chaincode_id,
            input=chaincode.ChaincodeInput(args=[arg.encode() for arg in (function, *args)]),
        )
    ).SerializeToString()
    raw = proposal.Proposal(
        header=common.Header(channel_header=channel_header, signature_header=signature_header).SerializeToString(),
        payload=proposal.ChaincodeProposalPayload(input=chaincode_input).SerializeToString(),
    ).SerializeToString()
    signed = proposal.SignedProposal(proposal_bytes=raw, signature=signer.sign(raw))
    return Proposal(tx_id, channel, signed, channel_header, signature_header, chaincode_input)


def prepare(signer: Signer, proposed: Proposal, envelope: Any) -> Prepared:
    """Check that the peer's `envelope` (common.Envelope) is the transaction that was proposed, and sign it.

    Without the check a peer could have us sign a transaction of its own. Raises EnvelopeError.
    """
    try:
        payload = common.Payload.FromString(envelope.payload)
        actions = transaction.Transaction.FromString(payload.data).actions
        if len(actions) != 1:
            raise EnvelopeError(f"it has {len(actions)} actions")
        action = transaction.ChaincodeActionPayload.FromString(actions[0].payload)
        endorsed = proposal_response.ProposalResponsePayload.FromString(action.action.proposal_response_payload)
        answer = proposal.ChaincodeAction.FromString(endorsed.extension).response
    except DecodeError:
        raise EnvelopeError("it cannot be read") from None
    tx_id = _tx_id(payload.header.channel_header)
    if tx_id != proposed.tx_id:
        raise EnvelopeError(f"it is the transaction {tx_id}, not {proposed.tx_id}")
    ours = (proposed.channel_header, proposed.signature_header, proposed.signature_header)
    if (payload.header.channel_header, payload.header.signature_header, actions[0].header) != ours:
        raise EnvelopeError("its header is not the proposal's")
    if _chaincode_input(action.chaincode_proposal_payload) != proposed.chaincode_input:
        raise EnvelopeError("it calls something else than was proposed")
    hashed = proposed.channel_header + proposed.signature_header + action.chaincode_proposal_payload
    if endorsed.proposal_hash != sha256(hashed).digest():
        raise EnvelopeError("another proposal was endorsed")
    sealed = common.Envelope(payload=envelope.payload, signature=signer.sign(envelope.payload))
    return Prepared(tx_id, bytes(answer.payload), bytes(sealed.SerializeToString()))


def status_request(signer: Signer, channel: str, tx_id: str) -> Any:
    """A gateway.SignedCommitStatusRequest."""
    raw = gateway.CommitStatusRequest(
        transaction_id=tx_id, channel_id=channel, identity=creator(signer)
    ).SerializeToString()
    return gateway.SignedCommitStatusRequest(request=raw, signature=signer.sign(raw))


def events_request(signer: Signer, channel: str, name: str, after: Position | None) -> Any:
    """A gateway.SignedChaincodeEventsRequest for the events behind `after`, or all from the first block."""
    block, tx_id = after or (0, "")
    raw = gateway.ChaincodeEventsRequest(
        channel_id=channel,
        chaincode_id=name,
        identity=creator(signer),
        start_position=orderer.SeekPosition(specified=orderer.SeekSpecified(number=block)),
        after_transaction_id=tx_id,
    ).SerializeToString()
    return gateway.SignedChaincodeEventsRequest(request=raw, signature=signer.sign(raw))


def _tx_id(channel_header: bytes) -> str:
    try:
        return str(common.ChannelHeader.FromString(channel_header).tx_id)
    except DecodeError:
        raise EnvelopeError("its header cannot be read") from None


def _chaincode_input(payload: bytes) -> bytes:
    try:
        return bytes(proposal.ChaincodeProposalPayload.FromString(payload).input)
    except DecodeError:
        raise EnvelopeError("what it calls cannot be read") from None
