"""Every text that Fabric 2.5.16 was seen to answer with, and what is done about it."""

import pytest
from fabric_protos.gateway import gateway_pb2
from fabric_protos.peer.transaction_pb2 import TxValidationCode
from google.protobuf.any_pb2 import Any
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st

from ledger.fabric.errors import (
    Configuration,
    Conflict,
    GatewayError,
    Invalid,
    Permanent,
    Retry,
    Step,
    Unknown,
    classify,
    error_details,
    invalidity,
    trailing_status,
)

PEER = "peer0.org1.example.com:7051"
FAILED = "failed to endorse transaction, see attached details for more info"
ACCESS = "error validating proposal: access denied: channel [glassbox] creator org"
READERS = (
    "Failed evaluating policy on signed data during check policy on channel [glassbox] with policy "
    "[/Channel/Application/Readers]: [implicit policy evaluation failed]"
)


@pytest.mark.parametrize(
    ("step", "code", "message", "details", "kind", "said"),
    [
        ("Endorse", "ABORTED", FAILED, ["chaincode response 500, INVALID_BATCH: no array"], Permanent,
         "INVALID_BATCH: no array (ABORTED): the chaincode will never take this call"),
        ("Endorse", "ABORTED", FAILED, ["chaincode response 500, INVALID_POLICY: judges: a list"], Permanent,
         "correct the policy"),
        ("Endorse", "ABORTED", FAILED, ["chaincode response 500, CONFLICT: a larger one stands"], Permanent,
         "what stands on the ledger stays"),
        ("Evaluate", "UNKNOWN", "evaluate call to endorser returned error: chaincode response 500, no such function",
         [], Permanent, "chaincode that belongs to this version"),
        ("Endorse", "ABORTED", FAILED, ["chaincode response 500, FORBIDDEN: registering is for admin"],
         Configuration, "use an identity that may do that"),
        ("Endorse", "ABORTED", FAILED, [f"{ACCESS} [Org1MSP]"], Configuration, "check this client's certificate"),
        ("Endorse", "ABORTED", FAILED, [f"{ACCESS} unknown, creator is malformed"], Configuration,
         "does not know this client's organisation"),
        ("Endorse", "ABORTED", FAILED, ["duplicate transaction found [ab]. Creator [cd]"], Unknown, "outcome"),
        ("Endorse", "ABORTED", FAILED, ["error in simulation: failed to execute transaction ab: could not launch "
         "chaincode scorecards_1:cd: connection refused"], Retry, "check that the peer"),
        ("Endorse", "ABORTED", FAILED, ["error in simulation: failed to execute transaction ab: chaincode stream "
         "terminated"], Retry, "tried again"),
        ("Endorse", "ABORTED", FAILED, ["failed to execute transaction ab: timeout expired while executing "
         "transaction"], Retry, "tried again"),
        ("Endorse", "ABORTED", FAILED, ["ProposalResponsePayloads do not match"], Conflict, "same block"),
        ("Endorse", "ABORTED", FAILED, ["make sure the chaincode scorecards has been successfully defined on channel "
         "glassbox and try again: chaincode scorecards not found"], Configuration, "names of channel and chaincode"),
        ("Endorse", "FAILED_PRECONDITION", "no combination of peers can be derived which satisfy the endorsement "
         "policy: no peer combination can satisfy the endorsement policy", [], Retry, "check that the peer"),
        ("Endorse", "FAILED_PRECONDITION", "no combination of peers can be derived which satisfy the endorsement "
         "policy: No metadata was found for chaincode scorecards in channel nowhere", [], Configuration, "names of"),
        ("Endorse", "FAILED_PRECONDITION", "failed to select a set of endorsers that satisfy the endorsement policy "
         "due to unavailability of peers: [peer0.org2]", [], Retry, "tried again"),
        ("Endorse", "DEADLINE_EXCEEDED", "endorsement timeout expired while collecting endorsements", [], Retry, ""),
        ("Endorse", "UNAVAILABLE", "failed to connect to all addresses", [], Retry, "failed to connect"),
        ("Endorse", "UNAVAILABLE", "failed to connect to all addresses; last error: UNKNOWN: Ssl handshake failed: "
         "CERTIFICATE_VERIFY_FAILED", [], Configuration, "TLS fails"),
        ("Endorse", "UNIMPLEMENTED", "unknown service gateway.Gateway", [], Configuration, "check"),
        ("Evaluate", "UNAVAILABLE", "failed to get config for channel [nowhere]: could not get last config", [],
         Configuration, "names of channel"),
        ("Evaluate", "FAILED_PRECONDITION", "no peers available to evaluate chaincode nothing in channel glassbox", [],
         Configuration, "names of channel"),
        ("Submit", "UNAVAILABLE", "no orderers could successfully process transaction", ["rpc error: code = "
         "Unavailable"], Retry, "orderer"),
        ("Submit", "DEADLINE_EXCEEDED", "Deadline Exceeded", [], Unknown, "outcome"),
        ("Submit", "ABORTED", "received unsuccessful response from orderer: status=FORBIDDEN, info=implicit policy "
         "evaluation failed: permission denied", [], Configuration, "does not let this identity"),
        ("Submit", "ABORTED", "received unsuccessful response from orderer: status=BAD_REQUEST, info=x", [],
         Configuration, "the orderer refuses"),
        ("CommitStatus", "DEADLINE_EXCEEDED", "Deadline Exceeded", [], Unknown, "outcome"),
        ("CommitStatus", "PERMISSION_DENIED", READERS, [], Configuration, "does not let this identity"),
        ("CommitStatus", "PERMISSION_DENIED", "Failed to get policy manager for channel [nowhere]", [], Configuration,
         "names of channel"),
        ("CommitStatus", "UNAVAILABLE", "", [], Retry, "no reason given"),
        ("ChaincodeEvents", "NOT_FOUND", "channel 'x' not found", [], Configuration, "check"),
        ("ChaincodeEvents", "ABORTED", "block iterator closed", [], Retry, "tried again"),
        ("Endorse", "RESOURCE_EXHAUSTED", "too many requests for /gateway.Gateway, exceeding concurrency limit (500)",
         [], Retry, "tried again"),
    ],
)  # fmt: skip
def test_a_failed_call_is_of_one_kind_and_says_where_and_what_to_do(
    step: Step, code: str, message: str, details: list[str], kind: type[GatewayError], said: str
) -> None:
    error = classify(step, PEER, code, message, details)
    assert type(error) is kind
    assert str(error).startswith(f"{step} at the Fabric peer {PEER}: ")
    assert code in str(error)
    assert said in str(error)


def test_a_chaincode_error_is_its_own_sentence() -> None:
    error = classify("Endorse", PEER, "ABORTED", FAILED, ["chaincode response 500, CONFLICT: sizes only grow, not 7"])
    assert error.reason == "CONFLICT: sizes only grow, not 7"


@given(st.text(), st.lists(st.text()), st.sampled_from(["ABORTED", "UNKNOWN", "UNAVAILABLE", "OK", "INTERNAL"]))
def test_any_text_is_of_some_kind_and_stays_short(message: str, details: list[str], code: str) -> None:
    error = classify("Endorse", PEER, code, message * 50, details)
    assert isinstance(error, Permanent | Retry | Unknown | Conflict | Configuration)
    assert len(str(error)) < 1_000


def test_details_come_from_the_trailer() -> None:
    packed = []
    for text in ("one", "two"):
        item = Any()
        item.Pack(gateway_pb2.ErrorDetail(address=PEER, msp_id="Org1MSP", message=text))
        packed.append(item)
    raw = Status(code=10, message="x", details=packed).SerializeToString()
    assert error_details(trailing_status([("other", b"x"), ("grpc-status-details-bin", raw)])) == ["one", "two"]
    assert error_details(trailing_status(None)) == []


@given(st.binary())
def test_a_trailer_that_cannot_be_read_says_nothing(raw: bytes) -> None:
    assert isinstance(error_details(raw), list)


@pytest.mark.parametrize("code", TxValidationCode.values())
def test_every_validation_code_asks_for_something(code: int) -> None:
    error = invalidity(PEER, "ab", code)
    name = TxValidationCode.Name(code)
    if name == "VALID":
        assert error is None
    elif name in ("MVCC_READ_CONFLICT", "PHANTOM_READ_CONFLICT", "CHAINCODE_VERSION_CONFLICT", "EXPIRED_CHAINCODE"):
        assert type(error) is Conflict
    elif name in ("DUPLICATE_TXID", "NOT_VALIDATED"):
        assert type(error) is Unknown
    else:
        assert type(error) is Invalid
        assert name in str(error)
    assert type(invalidity(PEER, "ab", 200)) is Invalid


def test_a_chaincode_that_is_down_reads_the_same_each_time() -> None:
    package = "scorecards_1:" + "0" * 64

    def said(tx_id: str) -> str:
        reason = (
            f"error in simulation: failed to execute transaction {tx_id}: could not launch chaincode {package}: "
            f"connection to {package} failed: error cannot create connection for {package}: error creating grpc "
            "connection to 127.0.0.1:9999: connection refused"
        )
        return classify("Endorse", "peer:7051", "ABORTED", FAILED, [reason]).reason

    assert said("ab" * 32) == said("cd" * 32)
    assert said("ab" * 32) == (
        "error in simulation: could not launch chaincode scorecards_1: connection to scorecards_1 failed: error cannot "
        "create connection for scorecards_1: error creating grpc connection to 127.0.0.1:9999: connection refused"
    )
