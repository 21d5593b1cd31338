"""Proposals and transaction envelopes: unpacked once, with the digests that bind one to the other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fabric_protos.common.common_pb2 import ChannelHeader, Envelope, Header, Payload, SignatureHeader
from fabric_protos.peer.chaincode_pb2 import ChaincodeInvocationSpec, ChaincodeSpec
from fabric_protos.peer.proposal_pb2 import (
    ChaincodeAction,
    ChaincodeHeaderExtension,
    ChaincodeProposalPayload,
    Proposal,
    SignedProposal,
)
from fabric_protos.peer.proposal_response_pb2 import ProposalResponsePayload
from fabric_protos.peer.transaction_pb2 import (
    ChaincodeActionPayload,
    ChaincodeEndorsedAction,
    Transaction,
    TransactionAction,
)


def transaction_id(header: SignatureHeader) -> str:
    """Hexadecimal SHA-256 over nonce and creator."""
    return hashlib.sha256(header.nonce + header.creator).hexdigest()


def proposal_hash(channel_header: bytes, signature_header: bytes, payload: bytes) -> bytes:
    """What endorsers sign in place of the proposal; `payload` is its payload without transient data."""
    return hashlib.sha256(channel_header + signature_header + payload).digest()


@dataclass(frozen=True)
class UnpackedProposal:
    """A signed proposal taken apart. Nothing of it is checked yet."""

    signed: SignedProposal
    header: Header
    channel: ChannelHeader
    signature: SignatureHeader
    extension: ChaincodeHeaderExtension
    payload: ChaincodeProposalPayload
    spec: ChaincodeSpec

    @classmethod
    def of(cls, signed: SignedProposal) -> UnpackedProposal:
        """Raises DecodeError for bytes that are no proposal."""
        proposal = Proposal.FromString(signed.proposal_bytes)
        header = Header.FromString(proposal.header)
        channel = ChannelHeader.FromString(header.channel_header)
        payload = ChaincodeProposalPayload.FromString(proposal.payload)
        return cls(
            signed=signed,
            header=header,
            channel=channel,
            signature=SignatureHeader.FromString(header.signature_header),
            extension=ChaincodeHeaderExtension.FromString(channel.extension),
            payload=payload,
            spec=ChaincodeInvocationSpec.FromString(payload.input).chaincode_spec,
        )

    @property
    def payload_without_transient(self) -> bytes:
        return ChaincodeProposalPayload(input=self.payload.input).SerializeToString()

    @property
    def digest(self) -> bytes:
        return proposal_hash(self.header.channel_header, self.header.signature_header, self.payload_without_transient)

    def prepare(self, action: ChaincodeEndorsedAction) -> Envelope:
        """The unsigned transaction that carries the endorsed action."""
        payload = ChaincodeActionPayload(chaincode_proposal_payload=self.payload_without_transient, action=action)
        transaction = Transaction(
            actions=[TransactionAction(header=self.header.signature_header, payload=payload.SerializeToString())]
        )
        return Envelope(payload=Payload(header=self.header, data=transaction.SerializeToString()).SerializeToString())


@dataclass(frozen=True)
class UnpackedTransaction:
    """An endorsed transaction taken apart."""

    proposed: ChaincodeActionPayload
    response: ProposalResponsePayload
    action: ChaincodeAction
    digest: bytes
    """What the proposal's hash must be for this payload."""

    @classmethod
    def of(cls, payload: Payload) -> UnpackedTransaction:
        """Raises DecodeError or ValueError for what is no transaction with one action."""
        actions = Transaction.FromString(payload.data).actions
        if len(actions) != 1:
            raise ValueError(f"only one action per transaction is supported, tx contains {len(actions)}")
        proposed = ChaincodeActionPayload.FromString(actions[0].payload)
        response = ProposalResponsePayload.FromString(proposed.action.proposal_response_payload)
        return cls(
            proposed=proposed,
            response=response,
            action=ChaincodeAction.FromString(response.extension),
            digest=proposal_hash(payload.header.channel_header, actions[0].header, proposed.chaincode_proposal_payload),
        )
