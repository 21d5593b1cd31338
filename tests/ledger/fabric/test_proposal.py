"""Fabric's messages, made and read without a network; the test peer's own reading is the other side."""

from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fabric_protos.common import common_pb2
from fabric_protos.gateway import gateway_pb2
from fabric_protos.peer import proposal_pb2, proposal_response_pb2, transaction_pb2
from hypothesis import given
from hypothesis import strategies as st

from ledger.fabric.identity import FileSigner, Signer
from ledger.fabric.proposal import (
    EnvelopeError,
    Proposal,
    creator,
    events_request,
    prepare,
    propose,
    status_request,
    transaction_id,
)
from tests.ledger.fabric.peer.certificates import Authority
from tests.ledger.fabric.peer.transaction import UnpackedProposal

USER = Authority.create("ca.org1.example.com").issue("User1@org1.example.com", "client")
SIGNER: Signer = FileSigner("Org1MSP", USER.certificate_pem, USER.key)
NONCE = bytes(range(24))
TIME = 1_700_000_000_123_456_789


def proposed(function: str = "CommitRun", *args: str, nonce: bytes = NONCE) -> Proposal:
    return propose(SIGNER, "glassbox", "scorecards", function, args, nonce=nonce, time_ns=TIME)


def endorsed(proposal: Proposal, answer: bytes = b'{"result":"created"}', **lies: bytes) -> Any:
    """What an honest gateway returns, but for `lies`."""
    unpacked = UnpackedProposal.of(proposal.signed)
    action = proposal_pb2.ChaincodeAction(response=proposal_response_pb2.Response(status=200, payload=answer))
    response = proposal_response_pb2.ProposalResponsePayload(
        proposal_hash=lies.get("proposal_hash", unpacked.digest), extension=action.SerializeToString()
    )
    return unpacked.prepare(
        transaction_pb2.ChaincodeEndorsedAction(proposal_response_payload=response.SerializeToString())
    )


def signed_by_user(signature: bytes, message: bytes) -> bool:
    USER.key.public_key().verify(signature, message, ec.ECDSA(hashes.SHA256()))
    return True


@given(
    st.binary(min_size=24, max_size=24), st.text(min_size=1, max_size=20), st.lists(st.text(max_size=40), max_size=3)
)
def test_a_proposal_says_what_was_asked(nonce: bytes, function: str, args: list[str]) -> None:
    made = propose(SIGNER, "glassbox", "scorecards", function, args, nonce=nonce, time_ns=TIME)
    read = UnpackedProposal.of(made.signed)
    assert signed_by_user(made.signed.signature, made.signed.proposal_bytes)
    assert made.tx_id == read.channel.tx_id == sha256(nonce + creator(SIGNER)).hexdigest()
    assert (read.channel.channel_id, read.channel.type, read.channel.epoch) == ("glassbox", 3, 0)
    assert (read.channel.timestamp.seconds, read.channel.timestamp.nanos) == (1_700_000_000, 123_456_789)
    assert (read.extension.chaincode_id.name, read.spec.chaincode_id.name) == ("scorecards", "scorecards")
    assert list(read.spec.input.args) == [arg.encode() for arg in (function, *args)]
    assert (read.signature.nonce, read.signature.creator) == (nonce, creator(SIGNER))


def test_a_proposal_is_the_same_for_the_same_nonce_and_time_but_for_its_signature() -> None:
    assert proposed().signed.proposal_bytes == proposed().signed.proposal_bytes
    assert proposed().tx_id == transaction_id(NONCE, creator(SIGNER))
    assert proposed().tx_id != proposed(nonce=bytes(24)).tx_id


def test_what_was_proposed_is_signed_and_its_answer_read() -> None:
    proposal = proposed("CommitRun", "{}")
    envelope = endorsed(proposal)
    prepared = prepare(SIGNER, proposal, envelope)
    sealed = common_pb2.Envelope.FromString(prepared.envelope)
    assert (prepared.tx_id, prepared.result) == (proposal.tx_id, b'{"result":"created"}')
    assert sealed.payload == envelope.payload
    assert signed_by_user(sealed.signature, sealed.payload)


def another_header(envelope: Any) -> None:
    payload = common_pb2.Payload.FromString(envelope.payload)
    header = common_pb2.ChannelHeader.FromString(payload.header.channel_header)
    header.timestamp.seconds = 978_307_200
    payload.header.channel_header = header.SerializeToString()
    envelope.payload = payload.SerializeToString()


def two_actions(envelope: Any) -> None:
    payload = common_pb2.Payload.FromString(envelope.payload)
    transaction = transaction_pb2.Transaction.FromString(payload.data)
    transaction.actions.append(transaction.actions[0])
    payload.data = transaction.SerializeToString()
    envelope.payload = payload.SerializeToString()


def another_call(envelope: Any) -> None:
    payload = common_pb2.Payload.FromString(envelope.payload)
    transaction = transaction_pb2.Transaction.FromString(payload.data)
    action = transaction_pb2.ChaincodeActionPayload.FromString(transaction.actions[0].payload)
    other = UnpackedProposal.of(proposed("RegisterPolicy", "x").signed)
    action.chaincode_proposal_payload = other.payload_without_transient
    transaction.actions[0].payload = action.SerializeToString()
    payload.data = transaction.SerializeToString()
    envelope.payload = payload.SerializeToString()


def nothing(envelope: Any) -> None:
    envelope.payload = b"\xff"


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (another_header, "header is not the proposal's"),
        (two_actions, "2 actions"),
        (another_call, "calls something else"),
        (nothing, "cannot be read"),
    ],
)
def test_a_transaction_that_was_not_proposed_is_not_signed(lie: Any, reason: str) -> None:
    proposal = proposed("CommitRun", "{}")
    envelope = endorsed(proposal)
    lie(envelope)
    with pytest.raises(EnvelopeError, match=reason):
        prepare(SIGNER, proposal, envelope)


def test_another_transaction_and_endorsements_of_another_proposal_are_not_signed() -> None:
    proposal, other = proposed("CommitRun", "{}"), proposed("CommitRun", "{}", nonce=bytes(24))
    with pytest.raises(EnvelopeError, match=rf"it is the transaction {other.tx_id}, not {proposal.tx_id}"):
        prepare(SIGNER, proposal, endorsed(other))
    with pytest.raises(EnvelopeError, match="another proposal was endorsed"):
        prepare(SIGNER, proposal, endorsed(proposal, proposal_hash=bytes(32)))


@given(st.data())
def test_no_changed_byte_of_a_transaction_is_signed_unnoticed(data: st.DataObject) -> None:
    """Only endorsements are the peers' to check: all that is ours or is read here is held against the proposal."""
    proposal = proposed("CommitRun", "{}")
    envelope = endorsed(proposal)
    place = data.draw(st.integers(0, len(envelope.payload) - 1))
    changed = bytearray(envelope.payload)
    changed[place] ^= data.draw(st.integers(1, 255))
    envelope.payload = bytes(changed)
    try:
        prepared = prepare(SIGNER, proposal, envelope)
    except EnvelopeError:
        return
    assert prepared.tx_id == proposal.tx_id
    payload = common_pb2.Payload.FromString(envelope.payload)
    assert payload.header.channel_header == proposal.channel_header
    assert payload.header.signature_header == proposal.signature_header


def test_requests_for_status_and_events_are_signed_by_their_author() -> None:
    status = status_request(SIGNER, "glassbox", "ab" * 32)
    read = gateway_pb2.CommitStatusRequest.FromString(status.request)
    assert signed_by_user(status.signature, status.request)
    assert (read.channel_id, read.transaction_id, read.identity) == ("glassbox", "ab" * 32, creator(SIGNER))
    events = events_request(SIGNER, "glassbox", "scorecards", (7, "cd" * 32))
    asked = gateway_pb2.ChaincodeEventsRequest.FromString(events.request)
    assert signed_by_user(events.signature, events.request)
    assert (asked.start_position.specified.number, asked.after_transaction_id) == (7, "cd" * 32)
    assert asked.chaincode_id == "scorecards"
    first = gateway_pb2.ChaincodeEventsRequest.FromString(
        events_request(SIGNER, "glassbox", "scorecards", None).request
    )
    assert first.start_position.WhichOneof("Type") == "specified"
    assert (first.start_position.specified.number, first.after_transaction_id) == (0, "")


def test_whoever_signs_will_do() -> None:
    """The seam for keys in a token."""

    class Token:
        msp_id, certificate = "Org1MSP", USER.certificate_pem

        def __init__(self) -> None:
            self.asked: list[bytes] = []

        def sign(self, message: bytes) -> bytes:
            self.asked.append(message)
            return SIGNER.sign(message)

    token = Token()
    made = propose(token, "glassbox", "scorecards", "ReadPolicy", ["x"], nonce=NONCE, time_ns=TIME)
    assert token.asked == [made.signed.proposal_bytes]
    assert made.tx_id == transaction_id(NONCE, creator(SIGNER))
