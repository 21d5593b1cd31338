"""Whom a Fabric network serves, and which transactions it finds valid."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fabric_protos.common.common_pb2 import Envelope, Payload
from fabric_protos.common.ledger_pb2 import BlockchainInfo
from fabric_protos.peer.transaction_pb2 import Transaction, TxValidationCode

from ledger.fabric.identity import FileSigner, Signer
from tests.ledger.fabric.either_network import START_TIMEOUT, Connect, Network, client, connect, network, started
from tests.ledger.fabric.peer.blocks import validation_codes
from tests.ledger.fabric.peer.certificates import Authority
from tests.ledger.fabric.peer.faults import Tamper
from tests.ledger.fabric.peer.tamper import tampered
from tests.ledger.fabric.peer.transaction import UnpackedTransaction
from tests.ledger.fabric.raw_client import (
    EditHeaders,
    HighS,
    OfOtherBytes,
    RawClient,
    endorse_scorecards,
    new_id,
    refused,
)
from tests.ledger.records import scorecard

__all__ = ["client", "connect", "network", "started"]
MALFORMED = "error validating proposal: access denied: channel [glassbox] creator org unknown, creator is malformed"
DENIED = "error validating proposal: access denied: channel [glassbox] creator org [Org1MSP]"
ENDORSE_FAILED = "failed to endorse transaction, see attached details for more info"


def unsatisfied(policy: str) -> str:
    return (
        "implicit policy evaluation failed - 0 sub-policies were satisfied, but this policy requires 1 of the "
        f"'{policy}' sub-policies to be satisfied"
    )


def denied_by(policy: str) -> str:
    return (
        "Failed evaluating policy on signed data during check policy on channel [glassbox] with policy "
        f"[/Channel/Application/{policy}]: [{unsatisfied(policy)}]"
    )


pytestmark = pytest.mark.timeout(START_TIMEOUT)


def test_what_is_endorsed_and_submitted_is_committed(client: RawClient) -> None:
    one = new_id()
    prepared = endorse_scorecards(client, one)
    assert json.loads(prepared.result) == [{"evaluation_id": one, "result": "created"}]
    client.submit(prepared)
    code, block = client.commit_status(prepared.tx_id)
    assert (code, block > 0) == ("VALID", True)
    assert json.loads(client.evaluate("ReadRecords", json.dumps([one]))) == [
        {"record": scorecard(one), "tx_id": prepared.tx_id}
    ]


def test_what_is_only_endorsed_is_not_on_the_ledger(client: RawClient) -> None:
    one = new_id()
    endorse_scorecards(client, one)
    assert json.loads(client.evaluate("ReadRecords", json.dumps([one]))) == [None]


def test_the_chaincode_s_own_refusal_is_told_apart(client: RawClient) -> None:
    failure = refused(client.endorse, "CommitScorecards", "no batch")
    assert (failure.code, failure.message) == ("ABORTED", ENDORSE_FAILED)
    assert [detail.startswith("chaincode response 500, INVALID_BATCH: ") for detail in failure.details] == [True]
    failure = refused(client.evaluate, "ReadRecords", "no list")
    assert failure.code == "UNKNOWN"
    assert failure.message == f"evaluate call to endorser returned error: {failure.details[0]}"
    assert failure.details[0].startswith("chaincode response 500, ")


@pytest.mark.parametrize("wrong", [OfOtherBytes, HighS])
def test_a_signature_must_be_of_the_bytes_and_with_a_low_s(connect: Connect, wrong: Callable[[Signer], Signer]) -> None:
    client = connect(sign_as=wrong)
    failure = refused(endorse_scorecards, client, new_id())
    assert (failure.code, failure.message, failure.details) == ("ABORTED", ENDORSE_FAILED, [DENIED])
    failure = refused(client.evaluate, "ReadRecords", "[]")
    assert (failure.code, failure.details) == ("FAILED_PRECONDITION", [DENIED])
    assert failure.message == f"evaluate call to endorser returned error: {DENIED}"
    failure = refused(client.commit_status, "ab" * 32)
    assert (failure.code, failure.message) == ("PERMISSION_DENIED", denied_by("Readers"))


def set_channel_field(name: str, value: Any) -> EditHeaders:
    return lambda channel, signature: setattr(channel, name, value)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (set_channel_field("tx_id", "00"), "incorrectly computed txid '00' -- expected '"),
        (set_channel_field("epoch", 3), "epoch is non-zero"),
        (set_channel_field("type", 0), "invalid header type MESSAGE"),
        (lambda channel, signature: signature.ClearField("nonce"), "nonce is empty"),
        (lambda channel, signature: signature.ClearField("creator"), "creator is empty"),
    ],
    ids=["transaction id", "epoch", "type", "nonce", "creator"],
)
def test_headers_are_checked(connect: Connect, edit: EditHeaders, reason: str) -> None:
    failure = refused(endorse_scorecards, connect(edit=edit), new_id())
    assert (failure.code, failure.message) == ("ABORTED", ENDORSE_FAILED)
    assert [detail.startswith(f"error validating proposal: {reason}") for detail in failure.details] == [True]


def stranger(signer: Signer) -> Signer:
    pair = Authority.create("ca.elsewhere.example.com").issue("User1", "client")
    return FileSigner(signer.msp_id, pair.certificate_pem, pair.key)


def of_another_msp(signer: Signer) -> Signer:
    assert isinstance(signer, FileSigner)
    return replace(signer, msp_id="Org9MSP")


@pytest.mark.parametrize("who", [stranger, of_another_msp])
def test_nobody_whom_no_organisation_knows_is_served(connect: Connect, who: Callable[[Signer], Signer]) -> None:
    failure = refused(endorse_scorecards, connect(sign_as=who), new_id())
    assert (failure.code, failure.message, failure.details) == ("ABORTED", ENDORSE_FAILED, [MALFORMED])


def test_an_expired_certificate_reads_and_is_endorsed_and_stopped_by_the_orderer(
    network: Network, connect: Connect
) -> None:
    client = connect(network.enrol("Expired", expired=True))
    assert client.evaluate("ReadRecords", '["nobody"]') == b"[null]"
    failure = refused(client.submit, endorse_scorecards(client, new_id()))
    assert failure.code == "ABORTED"
    assert "broadcast client identity expired" in failure.message


def test_a_reader_cannot_write(network: Network, connect: Connect) -> None:
    reader = connect(network.enrol("Reader", "peer"))
    failure = refused(endorse_scorecards, reader, new_id())
    assert (failure.code, failure.message, failure.details) == ("ABORTED", ENDORSE_FAILED, [denied_by("Writers")])
    assert BlockchainInfo.FromString(reader.evaluate("GetChainInfo", "glassbox", chaincode="qscc")).height > 1


def test_a_certificate_without_a_role_is_not_served(network: Network, connect: Connect) -> None:
    failure = refused(endorse_scorecards, connect(network.enrol("Nobody", None)), new_id())
    assert failure.details == [DENIED]


def test_a_channel_that_is_not_there(connect: Connect) -> None:
    client = connect(channel="elsewhere")
    endorse = refused(endorse_scorecards, client, new_id())
    assert endorse.code == "FAILED_PRECONDITION"
    assert endorse.message == (
        "no combination of peers can be derived which satisfy the endorsement policy: No metadata was found for "
        f"chaincode {client.profile.chaincode} in channel elsewhere"
    )
    evaluate = refused(client.evaluate, "ReadRecords", "[]")
    no_config = "failed to get config for channel [elsewhere]: could not get last config for channel elsewhere"
    assert (evaluate.code, evaluate.message) == ("UNAVAILABLE", no_config)
    status = refused(client.commit_status, "ab" * 32)
    assert status.code == "PERMISSION_DENIED"
    assert status.message == "Failed to get policy manager for channel [elsewhere]"
    submit = refused(client.submit_envelope, "ab" * 32, Envelope(payload=b"x", signature=b"x"))
    assert (submit.code, submit.message) == ("FAILED_PRECONDITION", no_config)
    assert refused(list, client.events()).message == status.message


def test_a_chaincode_that_is_not_there(connect: Connect) -> None:
    client = connect(chaincode="nothing")
    endorse = refused(endorse_scorecards, client, new_id())
    assert endorse.code == "FAILED_PRECONDITION"
    assert endorse.message.endswith("No metadata was found for chaincode nothing in channel glassbox")
    evaluate = refused(client.evaluate, "ReadRecords", "[]")
    assert evaluate.code == "FAILED_PRECONDITION"
    assert evaluate.message == "no peers available to evaluate chaincode nothing in channel glassbox"


def test_the_status_of_an_unknown_transaction_is_waited_for(client: RawClient) -> None:
    assert refused(client.commit_status, "ab" * 32, 0.5).code == "DEADLINE_EXCEEDED"


def test_an_envelope_must_be_signed_by_its_creator(connect: Connect) -> None:
    client = connect()
    prepared = endorse_scorecards(client, new_id())
    envelope = Envelope.FromString(prepared.envelope)
    unsigned = refused(client.submit_envelope, prepared.tx_id, Envelope(payload=envelope.payload))
    assert (unsigned.code, unsigned.message) == ("INVALID_ARGUMENT", "prepared transaction must be signed")
    for signature in (client.profile.signer.sign(b"other"), connect("Admin").profile.signer.sign(envelope.payload)):
        forged = Envelope(payload=envelope.payload, signature=signature)
        failure = refused(client.submit_envelope, prepared.tx_id, forged)
        assert failure.code == "ABORTED"
        assert failure.message == (
            "received unsuccessful response from orderer: status=FORBIDDEN, "
            f"info={unsatisfied('Writers')}: permission denied"
        )


def test_a_transaction_counts_once_however_often_it_is_submitted(client: RawClient) -> None:
    nonce = os.urandom(24)
    batch = json.dumps([scorecard(new_id())])
    prepared = client.endorse("CommitScorecards", batch, nonce=nonce)
    client.submit(prepared)
    standing = client.commit_status(prepared.tx_id)
    client.submit(prepared)
    later = endorse_scorecards(client, new_id())
    assert client.commit(later) == "VALID"
    assert client.commit_status(prepared.tx_id) == standing == ("VALID", standing[1])
    blocks = (client.block(number) for number in range(standing[1] + 1, client.commit_status(later.tx_id)[1] + 1))
    assert TxValidationCode.DUPLICATE_TXID in b"".join(validation_codes(block) for block in blocks)
    failure = refused(lambda: client.endorse("CommitScorecards", batch, nonce=nonce))
    assert failure.message == ENDORSE_FAILED
    assert failure.details[0].startswith(f"duplicate transaction found [{prepared.tx_id}]. Creator [")


def test_of_two_that_read_the_same_one_is_valid(client: RawClient) -> None:
    one = new_id()
    first, second = endorse_scorecards(client, one), endorse_scorecards(client, one)
    client.submit(first)
    client.submit(second)
    assert client.commit_status(first.tx_id)[0] == "VALID"
    assert client.commit_status(second.tx_id)[0] == "MVCC_READ_CONFLICT"
    (again,) = json.loads(endorse_scorecards(client, one).result)
    assert again["result"] == "exists"


def test_what_was_read_must_still_hold_blocks_later(client: RawClient) -> None:
    one = new_id()
    stale = endorse_scorecards(client, one)
    assert client.commit(endorse_scorecards(client, one)) == "VALID"
    assert client.commit(stale) == "MVCC_READ_CONFLICT"


def test_a_key_that_appears_in_a_range_that_was_read_is_a_phantom(client: RawClient) -> None:
    prefix = new_id()
    listed = client.endorse("ListByPrefix", prefix, "10", "")
    assert client.commit(endorse_scorecards(client, f"{prefix}-1")) == "VALID"
    assert client.commit(listed) == "PHANTOM_READ_CONFLICT"


def resigned(client: RawClient, payload: bytes) -> Envelope:
    return Envelope(payload=payload, signature=client.profile.signer.sign(payload))


def test_an_altered_write_set_is_covered_by_no_endorsement(client: RawClient) -> None:
    one = new_id()
    prepared = endorse_scorecards(client, one)
    changed = tampered(Envelope.FromString(prepared.envelope), Tamper.WRITES)
    client.submit_envelope(prepared.tx_id, resigned(client, changed.payload))
    assert client.commit_status(prepared.tx_id)[0] == "ENDORSEMENT_POLICY_FAILURE"
    assert json.loads(client.evaluate("ReadRecords", json.dumps([one]))) == [None]


def with_endorsements(envelope: Envelope, choose: Callable[[list[Any]], list[Any]]) -> bytes:
    """The envelope's payload with some of its endorsements."""
    payload = Payload.FromString(envelope.payload)
    transaction = Transaction.FromString(payload.data)
    proposed = UnpackedTransaction.of(payload).proposed
    kept = choose(list(proposed.action.endorsements))
    del proposed.action.endorsements[:]
    proposed.action.endorsements.extend(kept)
    transaction.actions[0].payload = proposed.SerializeToString()
    payload.data = transaction.SerializeToString()
    return payload.SerializeToString()


def test_a_transaction_without_endorsements_is_invalid(client: RawClient) -> None:
    prepared = endorse_scorecards(client, new_id())
    bare = with_endorsements(Envelope.FromString(prepared.envelope), lambda endorsements: [])
    client.submit_envelope(prepared.tx_id, resigned(client, bare))
    assert client.commit_status(prepared.tx_id)[0] == "ENDORSEMENT_POLICY_FAILURE"


def test_two_organisations_endorse_the_same_result(started: Callable[[int], Network]) -> None:
    client = RawClient(started(2).profile())
    prepared = endorse_scorecards(client, new_id())
    envelope = Envelope.FromString(prepared.envelope)
    endorsements = UnpackedTransaction.of(Payload.FromString(envelope.payload)).proposed.action.endorsements
    assert len({endorsement.endorser for endorsement in endorsements}) == 2
    assert client.commit(prepared) == "VALID"
    client.close()


@pytest.mark.parametrize("choose", [lambda both: both[:1], lambda both: both[1:], lambda both: [both[0], both[0]]])
def test_one_of_two_endorsements_is_not_enough(
    started: Callable[[int], Network], choose: Callable[[list[Any]], list[Any]]
) -> None:
    client = RawClient(started(2).profile())
    prepared = endorse_scorecards(client, new_id())
    fewer = with_endorsements(Envelope.FromString(prepared.envelope), choose)
    client.submit_envelope(prepared.tx_id, resigned(client, fewer))
    assert client.commit_status(prepared.tx_id)[0] == "ENDORSEMENT_POLICY_FAILURE"
    client.close()


def test_a_client_of_the_other_organisation_is_served_too(started: Callable[[int], Network]) -> None:
    client = RawClient(started(2).profile(org=2))
    assert client.commit(endorse_scorecards(client, new_id())) == "VALID"
    client.close()
