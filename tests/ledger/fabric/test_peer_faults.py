"""What a test can make go wrong on the test network, and that it goes wrong as it would on a real one."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from fabric_protos.peer.transaction_pb2 import TxValidationCode

from ledger.fabric.proposal import EnvelopeError
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.peer.blocks import validation_codes
from tests.ledger.fabric.peer.faults import Call, Tamper
from tests.ledger.fabric.raw_client import RawClient, endorse_scorecards, refused, register_policy


@pytest.fixture
def client(fabric: TestNetwork) -> Iterator[RawClient]:
    yield from connected(fabric)


@pytest.fixture
def client_of_two(fabric_of_two: TestNetwork) -> Iterator[RawClient]:
    yield from connected(fabric_of_two)


def connected(network: TestNetwork) -> Iterator[RawClient]:
    """A client of a network on which the policy of its scorecards is registered."""
    register_policy(network.profile("Admin"))
    client = RawClient(network.profile())
    yield client
    client.close()


def stands(client: RawClient, one: str) -> bool:
    return json.loads(client.evaluate("ReadRecords", json.dumps([one]))) != [None]


@pytest.mark.parametrize("fault", ["unavailable", "lost_replies"])
def test_a_call_fails_before_or_after_its_work(fabric: TestNetwork, client: RawClient, fault: str) -> None:
    prepared = endorse_scorecards(client, "e-1")
    calls: dict[Call, Callable[[], object]] = {
        Call.EVALUATE: lambda: client.evaluate("ReadRecords", '["e-1"]'),
        Call.ENDORSE: lambda: endorse_scorecards(client, "e-2"),
        Call.SUBMIT: lambda: client.submit(prepared),
        Call.COMMIT_STATUS: lambda: client.commit_status(prepared.tx_id),
        Call.CHAINCODE_EVENTS: lambda: next(client.events()),
    }
    for call, attempt in calls.items():
        switched = getattr(fabric.faults, fault)
        switched.add(call)
        assert refused(attempt).code == "UNAVAILABLE"
        switched.clear()
        if call is Call.SUBMIT:
            assert stands(client, "e-1") is (fault == "lost_replies")
            client.submit(prepared)  # the same again does no harm
    assert client.commit_status(prepared.tx_id)[0] == "VALID"


def test_a_silent_peer_is_left_at_the_deadline(fabric: TestNetwork, client: RawClient) -> None:
    fabric.faults.silent.add(Call.COMMIT_STATUS)
    assert refused(client.commit_status, "ab" * 32, 0.3).code == "DEADLINE_EXCEEDED"


def test_commits_can_be_held_up(fabric: TestNetwork, client: RawClient) -> None:
    fabric.orderer_faults.commits.clear()
    prepared = endorse_scorecards(client, "e-1")
    client.submit(prepared)
    assert refused(client.commit_status, prepared.tx_id, 0.3).code == "DEADLINE_EXCEEDED"
    assert not stands(client, "e-1")
    fabric.orderer_faults.commits.set()
    assert client.commit_status(prepared.tx_id)[0] == "VALID"


def test_commits_can_be_slow(fabric: TestNetwork, client: RawClient) -> None:
    fabric.orderer_faults.delay = 0.4
    started = time.monotonic()
    assert client.commit(endorse_scorecards(client, "e-1")) == "VALID"
    assert time.monotonic() - started >= 0.4


def test_the_orderer_can_be_down(fabric: TestNetwork, client: RawClient) -> None:
    fabric.orderer_faults.down = True
    prepared = endorse_scorecards(client, "e-1")
    failure = refused(client.submit, prepared)
    assert (failure.code, failure.message) == ("UNAVAILABLE", "no orderers could successfully process transaction")
    assert "connection refused" in failure.details[0]
    fabric.orderer_faults.down = False
    fabric.orderer_faults.leaderless = True
    failure = refused(client.submit, prepared)
    assert (failure.code, failure.message) == ("UNAVAILABLE", "no orderers could successfully process transaction")
    fabric.orderer_faults.leaderless = False
    assert client.commit(prepared) == "VALID"


def test_an_envelope_can_be_ordered_twice(fabric: TestNetwork, client: RawClient) -> None:
    fabric.orderer_faults.order_twice = True
    prepared = endorse_scorecards(client, "e-1")
    client.submit(prepared)
    assert client.commit_status(prepared.tx_id)[0] == "VALID"
    client.commit(endorse_scorecards(client, "e-2"))
    codes = b"".join(validation_codes(block) for block in fabric.channel.ledger.blocks)
    assert TxValidationCode.DUPLICATE_TXID in codes
    assert client.commit_status(prepared.tx_id)[0] == "VALID"


def test_conflicts_can_be_forced(fabric: TestNetwork, client: RawClient) -> None:
    fabric.orderer_faults.conflicts = 1
    assert client.commit(endorse_scorecards(client, "e-1")) == "MVCC_READ_CONFLICT"
    assert not stands(client, "e-1")
    assert client.commit(endorse_scorecards(client, "e-1")) == "VALID"


def test_writes_can_be_tampered_with_after_endorsement(fabric: TestNetwork, client: RawClient) -> None:
    fabric.faults.tamper = Tamper.WRITES
    assert client.commit(endorse_scorecards(client, "e-1")) == "ENDORSEMENT_POLICY_FAILURE"
    assert not stands(client, "e-1")


def test_another_transaction_can_be_handed_out_to_be_signed(fabric: TestNetwork, client: RawClient) -> None:
    fabric.faults.tamper = Tamper.TRANSACTION_ID
    with pytest.raises(EnvelopeError, match=f"it is the transaction {'0' * 64}"):
        endorse_scorecards(client, "e-1")


def test_the_chaincode_can_be_killed_and_started_again(fabric: TestNetwork, client: RawClient) -> None:
    prepared = endorse_scorecards(client, "e-1")
    fabric.chaincode.kill()
    failure = refused(endorse_scorecards, client, "e-2")
    assert (failure.code, failure.message) == (
        "ABORTED",
        "failed to endorse transaction, see attached details for more info",
    )
    assert "could not launch chaincode" in failure.details[0] or "chaincode stream terminated" in failure.details[0]
    evaluate = refused(stands, client, "e-1")
    assert (evaluate.code, evaluate.message) == (
        "ABORTED",
        "failed to evaluate transaction, see attached details for more info",
    )
    assert client.commit(prepared) == "VALID"  # what is endorsed needs no chaincode any more
    fabric.chaincode.start()
    assert client.commit(endorse_scorecards(client, "e-2")) == "VALID"
    assert stands(client, "e-1")


def test_the_peer_can_be_stopped_and_keeps_its_ledger(fabric: TestNetwork, client: RawClient) -> None:
    assert client.commit(endorse_scorecards(client, "e-1")) == "VALID"
    endpoint = fabric.endpoint
    fabric.peers[0].stop()
    assert refused(stands, client, "e-1").code == "UNAVAILABLE"
    fabric.peers[0].start()
    assert fabric.endpoint == endpoint
    grpc.channel_ready_future(client.connection).result(10)
    assert stands(client, "e-1")


def test_a_call_that_waits_ends_with_the_peer(fabric: TestNetwork, client: RawClient) -> None:
    stream = client.events()
    fabric.orderer_faults.commits.clear()
    fabric.peers[0].stop()
    assert refused(next, stream).code in ("UNAVAILABLE", "CANCELLED")
    fabric.peers[0].start()


def test_one_endorser_of_two_is_down(fabric_of_two: TestNetwork, client_of_two: RawClient) -> None:
    assert client_of_two.commit(endorse_scorecards(client_of_two, "e-1")) == "VALID"
    fabric_of_two.peers[1].stop()
    failure = refused(endorse_scorecards, client_of_two, "e-2")
    assert failure.code == "ABORTED"
    assert failure.message == ("failed to collect enough transaction endorsements, see attached details for more info")
    assert "connection refused" in failure.details[0]
    assert stands(client_of_two, "e-1")
    fabric_of_two.peers[1].stop(missed=True)
    failure = refused(endorse_scorecards, client_of_two, "e-2")
    assert failure.code == "FAILED_PRECONDITION"
    assert failure.message.endswith("no peer combination can satisfy the endorsement policy")
    fabric_of_two.peers[1].start()
    assert client_of_two.commit(endorse_scorecards(client_of_two, "e-2")) == "VALID"


def test_a_policy_of_any_needs_one_endorsement(chaincode_binary: Path, tmp_path: Path) -> None:
    with TestNetwork(chaincode_binary, tmp_path, orgs=2, policy="any") as network:
        network.peers[1].stop()
        for client in connected(network):
            assert client.commit(endorse_scorecards(client, "e-1")) == "VALID"


def test_a_client_must_show_a_certificate_where_tls_is_mutual(chaincode_binary: Path, tmp_path: Path) -> None:
    with TestNetwork(chaincode_binary, tmp_path, mutual_tls=True) as network:
        for client in connected(network):
            assert client.commit(endorse_scorecards(client, "e-1")) == "VALID"
        profile = network.profile()
        bare = grpc.secure_channel(profile.peers[0].endpoint, grpc.ssl_channel_credentials(profile.peers[0].tls_ca))
        with pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(bare).result(1)
        bare.close()


def test_a_fresh_network_is_empty_and_without_faults(fabric: TestNetwork, client: RawClient) -> None:
    assert client.commit(endorse_scorecards(client, "e-1")) == "VALID"
    fabric.faults.unavailable.add(Call.EVALUATE)
    fabric.orderer_faults.down = True
    fabric.chaincode.kill()
    fabric.peers[0].stop()
    fabric.fresh()
    grpc.channel_ready_future(client.connection).result(10)
    assert not stands(client, "e-1")
    for anew in connected(fabric):
        assert anew.commit(endorse_scorecards(anew, "e-1")) == "VALID"


def test_nothing_of_a_network_is_left_behind(chaincode_binary: Path, tmp_path: Path) -> None:
    with TestNetwork(chaincode_binary, tmp_path) as network:
        address, endpoint = network.chaincode.address, network.endpoint
    for one in (address, endpoint):
        with pytest.raises(grpc.FutureTimeoutError):
            grpc.channel_ready_future(grpc.insecure_channel(one)).result(0.2)
