"""What the older SDKs call on a peer's port: endorsement, ordering and block delivery, each by itself."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace

import grpc
import pytest
from fabric_protos.common.common_pb2 import (
    DELIVER_SEEK_INFO,
    ENDORSER_TRANSACTION,
    FORBIDDEN,
    NOT_FOUND,
    SUCCESS,
    ChannelHeader,
    Envelope,
    Header,
    Payload,
    SignatureHeader,
)
from fabric_protos.orderer.ab_pb2 import SeekInfo, SeekNewest, SeekPosition, SeekSpecified
from fabric_protos.orderer.ab_pb2_grpc import AtomicBroadcastStub
from fabric_protos.peer.events_pb2 import DeliverResponse
from fabric_protos.peer.events_pb2_grpc import DeliverStub
from fabric_protos.peer.peer_pb2_grpc import EndorserStub
from fabric_protos.peer.transaction_pb2 import ChaincodeEndorsedAction, TxValidationCode
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.fabric import proposal
from ledger.fabric.profile import Profile
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.peer.transaction import UnpackedProposal
from tests.ledger.fabric.raw_client import HighS, RawClient, endorse_scorecards, register_policy
from tests.ledger.records import scorecard

TIMEOUT = 10


@pytest.fixture
def client(fabric: TestNetwork) -> Iterator[RawClient]:
    register_policy(fabric.profile("Admin"))
    made = RawClient(fabric.profile())
    yield made
    made.close()


def seek(profile: Profile, start: SeekPosition, stop: SeekPosition, *, wait: bool = True) -> Envelope:
    """A signed request for blocks."""
    timestamp = Timestamp()
    timestamp.GetCurrentTime()
    header = Header(
        channel_header=ChannelHeader(
            type=DELIVER_SEEK_INFO, channel_id=profile.channel, timestamp=timestamp
        ).SerializeToString(),
        signature_header=SignatureHeader(
            creator=proposal.creator(profile.signer), nonce=os.urandom(24)
        ).SerializeToString(),
    )
    behavior = SeekInfo.BLOCK_UNTIL_READY if wait else SeekInfo.FAIL_IF_NOT_READY
    asked = SeekInfo(start=start, stop=stop, behavior=behavior)
    payload = Payload(header=header, data=asked.SerializeToString()).SerializeToString()
    return Envelope(payload=payload, signature=profile.signer.sign(payload))


def number(value: int) -> SeekPosition:
    return SeekPosition(specified=SeekSpecified(number=value))


NEWEST = SeekPosition(newest=SeekNewest())


def delivered(client: RawClient, envelope: Envelope) -> list[DeliverResponse]:
    return list(DeliverStub(client.connection).DeliverFiltered(iter([envelope]), timeout=TIMEOUT))


def test_a_transaction_made_by_hand_commits(client: RawClient) -> None:
    proposed = client.propose("CommitScorecards", json.dumps([scorecard("e-1")]))
    response = EndorserStub(client.connection).ProcessProposal(proposed.signed, timeout=TIMEOUT)
    assert response.response.status == 200
    assert json.loads(response.response.payload) == [{"evaluation_id": "e-1", "result": "created"}]
    action = ChaincodeEndorsedAction(proposal_response_payload=response.payload, endorsements=[response.endorsement])
    envelope = UnpackedProposal.of(proposed.signed).prepare(action)
    envelope.signature = client.profile.signer.sign(envelope.payload)
    (answer,) = AtomicBroadcastStub(client.connection).Broadcast(iter([envelope]), timeout=TIMEOUT)
    assert answer.status == SUCCESS
    code, block = client.commit_status(proposed.tx_id)
    assert code == "VALID"
    filtered, status = delivered(client, seek(client.profile, number(block), number(block)))
    assert status.status == SUCCESS
    assert (filtered.filtered_block.channel_id, filtered.filtered_block.number) == (client.profile.channel, block)
    (transaction,) = filtered.filtered_block.filtered_transactions
    assert (transaction.txid, transaction.type) == (proposed.tx_id, ENDORSER_TRANSACTION)
    assert transaction.tx_validation_code == TxValidationCode.VALID
    (event,) = transaction.transaction_actions.chaincode_actions
    assert (event.chaincode_event.event_name, event.chaincode_event.payload) == ("CommitScorecards", b"")


def test_what_the_chaincode_refuses_is_a_response(client: RawClient) -> None:
    proposed = client.propose("CommitScorecards", "no batch")
    response = EndorserStub(client.connection).ProcessProposal(proposed.signed, timeout=TIMEOUT)
    assert response.response.status == 500
    assert response.response.message.startswith("INVALID_BATCH: ")
    assert not response.HasField("endorsement")


def test_a_proposal_at_fault_ends_the_call(client: RawClient, fabric: TestNetwork) -> None:
    profile = fabric.profile()
    dishonest = RawClient(replace(profile, signer=HighS(profile.signer)))
    proposed = dishonest.propose("CommitScorecards", "[]")
    with pytest.raises(grpc.RpcError) as caught:
        EndorserStub(client.connection).ProcessProposal(proposed.signed, timeout=TIMEOUT)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert caught.value.details() == (
        "error validating proposal: access denied: channel [glassbox] creator org [Org1MSP]"
    )
    dishonest.close()


def test_the_orderer_takes_only_what_a_writer_signed(client: RawClient) -> None:
    prepared = endorse_scorecards(client, "e-1")
    forged = Envelope.FromString(prepared.envelope)
    forged.signature = client.profile.signer.sign(b"other")
    (answer,) = AtomicBroadcastStub(client.connection).Broadcast(iter([forged]), timeout=TIMEOUT)
    assert answer.status == FORBIDDEN


def test_blocks_are_waited_for(client: RawClient) -> None:
    (last, _) = delivered(client, seek(client.profile, NEWEST, NEWEST))
    following = last.filtered_block.number + 1
    stream = DeliverStub(client.connection).Deliver(
        iter([seek(client.profile, number(following), number(following))]), timeout=TIMEOUT
    )
    prepared = endorse_scorecards(client, "e-1")
    assert client.commit(prepared) == "VALID"
    whole, status = stream
    assert (whole.block.header.number, list(whole.block.data.data)) == (following, [prepared.envelope])
    assert status.status == SUCCESS


def test_blocks_that_are_not_there_can_be_an_answer(client: RawClient) -> None:
    (answer,) = delivered(client, seek(client.profile, number(1000), number(1000), wait=False))
    assert answer.status == NOT_FOUND
    elsewhere = replace(client.profile, channel="elsewhere")
    (answer,) = delivered(client, seek(elsewhere, number(0), number(0)))
    assert answer.status == NOT_FOUND


def test_blocks_are_for_readers(client: RawClient) -> None:
    request = seek(client.profile, number(0), number(0))
    request.signature = client.profile.signer.sign(b"other")
    (answer,) = delivered(client, request)
    assert answer.status == FORBIDDEN
