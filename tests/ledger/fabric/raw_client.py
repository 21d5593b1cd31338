"""A gateway client that can do wrong: every message may be changed, and signed by whom and how a test wants."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from fabric_protos.common.common_pb2 import Block, ChannelHeader, Envelope, Header, SignatureHeader
from fabric_protos.gateway.gateway_pb2 import (
    ChaincodeEventsRequest,
    ChaincodeEventsResponse,
    EndorseRequest,
    EvaluateRequest,
    SignedChaincodeEventsRequest,
    SubmitRequest,
)
from fabric_protos.gateway.gateway_pb2_grpc import GatewayStub
from fabric_protos.orderer.ab_pb2 import SeekPosition
from fabric_protos.peer.proposal_pb2 import Proposal, SignedProposal
from fabric_protos.peer.transaction_pb2 import TxValidationCode

from ledger.fabric import proposal
from ledger.fabric.errors import error_details, trailing_status
from ledger.fabric.identity import Signer
from ledger.fabric.profile import Profile
from tests.ledger.fabric.peer.msp import P256_ORDER
from tests.ledger.records import CREATED_AT, POLICY, scorecard

EditHeaders = Callable[[ChannelHeader, SignatureHeader], None]


class CallFailed(Exception):
    """How a call ended: gRPC's name of the status, its message, and what each endorser or orderer said."""

    def __init__(self, code: str, message: str, details: list[str]) -> None:
        super().__init__(f"{code}: {message} {details}")
        self.code, self.message, self.details = code, message, details


@dataclass(frozen=True)
class HighS:
    """Signs as many libraries do and Fabric forbids: with the higher of the two valid s."""

    honest: Signer

    @property
    def msp_id(self) -> str:
        return self.honest.msp_id

    @property
    def certificate(self) -> bytes:
        return self.honest.certificate

    def sign(self, message: bytes) -> bytes:
        r, s = decode_dss_signature(self.honest.sign(message))
        return encode_dss_signature(r, P256_ORDER - s)


@dataclass(frozen=True)
class OfOtherBytes:
    """Signs something else than it is given."""

    honest: Signer

    @property
    def msp_id(self) -> str:
        return self.honest.msp_id

    @property
    def certificate(self) -> bytes:
        return self.honest.certificate

    def sign(self, message: bytes) -> bytes:
        return self.honest.sign(message + b"other")


class RawClient:
    """Blocking calls to the first peer of a profile. `edit`: changes the headers of each proposal."""

    def __init__(self, profile: Profile, edit: EditHeaders | None = None) -> None:
        self.profile, self._edit = profile, edit
        peer, tls = profile.peers[0], profile.client_tls
        credentials = grpc.ssl_channel_credentials(
            peer.tls_ca, tls.key if tls else None, tls.certificate if tls else None
        )
        self.connection = grpc.secure_channel(peer.endpoint, credentials)
        self._stub = GatewayStub(self.connection)

    def close(self) -> None:
        self.connection.close()

    def propose(self, function: str, *args: str, nonce: bytes | None = None, chaincode: str | None = None) -> Any:
        """(transaction id, SignedProposal)"""
        made = proposal.propose(
            self.profile.signer,
            self.profile.channel,
            chaincode or self.profile.chaincode,
            function,
            args,
            nonce=nonce or os.urandom(proposal.NONCE_SIZE),
            time_ns=time.time_ns(),
        )
        if self._edit is None:
            return made
        opened = Proposal.FromString(made.signed.proposal_bytes)
        header = Header.FromString(opened.header)
        channel = ChannelHeader.FromString(header.channel_header)
        signature = SignatureHeader.FromString(header.signature_header)
        self._edit(channel, signature)
        opened.header = Header(
            channel_header=channel.SerializeToString(), signature_header=signature.SerializeToString()
        ).SerializeToString()
        raw = opened.SerializeToString()
        signed = SignedProposal(proposal_bytes=raw, signature=self.profile.signer.sign(raw))
        return replace(made, tx_id=channel.tx_id, signed=signed)

    def evaluate(self, function: str, *args: str, chaincode: str | None = None) -> bytes:
        proposed = self.propose(function, *args, chaincode=chaincode)
        request = EvaluateRequest(
            transaction_id=proposed.tx_id, channel_id=proposed.channel, proposed_transaction=proposed.signed
        )
        with _failures():
            return bytes(self._stub.Evaluate(request, timeout=10).result.payload)

    def endorse(self, function: str, *args: str, nonce: bytes | None = None) -> proposal.Prepared:
        proposed = self.propose(function, *args, nonce=nonce)
        request = EndorseRequest(
            transaction_id=proposed.tx_id, channel_id=proposed.channel, proposed_transaction=proposed.signed
        )
        with _failures():
            prepared = self._stub.Endorse(request, timeout=30).prepared_transaction
        return proposal.prepare(self.profile.signer, proposed, prepared)

    def submit(self, prepared: proposal.Prepared) -> None:
        self.submit_envelope(prepared.tx_id, Envelope.FromString(prepared.envelope))

    def submit_envelope(self, tx_id: str, envelope: Envelope) -> None:
        request = SubmitRequest(transaction_id=tx_id, channel_id=self.profile.channel, prepared_transaction=envelope)
        with _failures():
            self._stub.Submit(request, timeout=10)

    def commit_status(self, tx_id: str, timeout: float = 10) -> tuple[str, int]:
        """Name of the validation code, and number of the block."""
        request = proposal.status_request(self.profile.signer, self.profile.channel, tx_id)
        with _failures():
            status = self._stub.CommitStatus(request, timeout=timeout)
        return TxValidationCode.Name(status.result), int(status.block_number)

    def commit(self, prepared: proposal.Prepared) -> str:
        """Submit and wait: the name of the validation code."""
        self.submit(prepared)
        return self.commit_status(prepared.tx_id)[0]

    def query_system(self, function: str, *arguments: str) -> bytes:
        """What the system chaincode qscc says of the client's channel."""
        return self.evaluate(function, self.profile.channel, *arguments, chaincode="qscc")

    def block(self, number: int) -> Block:
        return Block.FromString(self.query_system("GetBlockByNumber", str(number)))

    def events(self, start: SeekPosition | None = None, after: str = "") -> Iterator[ChaincodeEventsResponse]:
        raw = ChaincodeEventsRequest(
            channel_id=self.profile.channel,
            chaincode_id=self.profile.chaincode,
            identity=proposal.creator(self.profile.signer),
            start_position=start,
            after_transaction_id=after,
        ).SerializeToString()
        request = SignedChaincodeEventsRequest(request=raw, signature=self.profile.signer.sign(raw))
        with _failures():
            yield from self._stub.ChaincodeEvents(request, timeout=10)


def refused(call: Callable[..., object], *arguments: Any) -> CallFailed:
    """How a call ends that must not succeed."""
    with pytest.raises(CallFailed) as caught:
        call(*arguments)
    return caught.value


def new_id() -> str:
    """An evaluation id that no other test uses."""
    return f"e-{uuid.uuid4().hex}"


def endorse_scorecards(client: RawClient, *ids: str) -> proposal.Prepared:
    return client.endorse("CommitScorecards", json.dumps([scorecard(one) for one in ids]))


def register_policy(admin: Profile) -> None:
    """What scorecards need before they can be committed."""
    client = RawClient(admin)
    assert client.commit(client.endorse("RegisterPolicy", json.dumps(POLICY.document), CREATED_AT)) == "VALID"
    client.close()


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        details = error_details(trailing_status(error.trailing_metadata()))
        raise CallFailed(error.code().name, error.details() or "", details) from None
