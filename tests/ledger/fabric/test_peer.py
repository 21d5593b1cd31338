"""The rules of a Fabric network, written once: the test peer keeps them, and a real one says that they are the rules.

The real network runs where GLASSBOX_FABRIC_BIN names Fabric's tools.
"""

import hashlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fabric_protos.common.common_pb2 import Block, Envelope, Payload
from fabric_protos.common.ledger_pb2 import BlockchainInfo
from fabric_protos.orderer.ab_pb2 import SeekPosition, SeekSpecified
from fabric_protos.peer.transaction_pb2 import ProcessedTransaction, Transaction, TxValidationCode

from ledger.fabric.identity import FileSigner, Signer
from ledger.fabric.proposal import Prepared
from tests.ledger.fabric.native import BIN, TO_SET, NativeNetwork
from tests.ledger.fabric.network import TestNetwork
from tests.ledger.fabric.peer.blocks import header_hash, validation_codes
from tests.ledger.fabric.peer.certificates import Authority
from tests.ledger.fabric.peer.faults import Tamper
from tests.ledger.fabric.peer.tamper import tampered
from tests.ledger.fabric.peer.transaction import UnpackedTransaction
from tests.ledger.fabric.peer.validation import read_write_sets
from tests.ledger.fabric.raw_client import CallFailed, EditHeaders, HighS, OfOtherBytes, RawClient
from tests.ledger.records import CREATED_AT, POLICY, scorecard

Network = TestNetwork | NativeNetwork
NETWORKS: dict[str, Callable[[Path, Path, int], AbstractContextManager[Network]]] = {
    "test": lambda binary, folder, orgs: TestNetwork(binary, folder, orgs=orgs),
    "native": lambda binary, folder, orgs: NativeNetwork(binary, folder, orgs=orgs),
}
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


pytestmark = pytest.mark.timeout(240)  # a real network takes its time to start


@pytest.fixture(scope="module", params=NETWORKS)
def started(
    request: pytest.FixtureRequest, chaincode_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[int], Network]]:
    """Starts a network of so many organisations, or gives the one that runs already."""
    if request.param == "native" and not os.environ.get(BIN):
        pytest.skip(TO_SET)
    running: dict[int, Network] = {}
    with ExitStack() as cleanup:

        def start(orgs: int) -> Network:
            if orgs not in running:
                while running:  # two real networks are more than a small machine bears
                    running.popitem()
                    cleanup.pop_all().close()
                made = NETWORKS[request.param](chaincode_binary, tmp_path_factory.mktemp("network"), orgs)
                running[orgs] = cleanup.enter_context(made)
                register(running[orgs])
            return running[orgs]

        yield start


def register(network: Network) -> None:
    admin = RawClient(network.profile("Admin"))
    assert admin.commit(admin.endorse("RegisterPolicy", json.dumps(POLICY.document), CREATED_AT)) == "VALID"
    admin.close()


@pytest.fixture
def network(started: Callable[[int], Network]) -> Network:
    return started(1)


Connect = Callable[..., RawClient]


@pytest.fixture
def connect(network: Network) -> Iterator[Connect]:
    with ExitStack() as cleanup:

        def make(
            user: str = "User1",
            sign_as: Callable[[Signer], Signer] = lambda signer: signer,
            edit: EditHeaders | None = None,
            **changes: Any,
        ) -> RawClient:
            profile = network.profile(user)
            made = RawClient(replace(profile, signer=sign_as(profile.signer), **changes), edit)
            cleanup.callback(made.close)
            return made

        yield make


@pytest.fixture
def client(connect: Connect) -> RawClient:
    return connect()


def new_id() -> str:
    return f"e-{uuid.uuid4().hex}"


def commit_scorecards(client: RawClient, *ids: str) -> Prepared:
    return client.endorse("CommitScorecards", json.dumps([scorecard(one) for one in ids]))


def refused(call: Callable[..., object], *arguments: Any) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        call(*arguments)
    return caught.value


def test_what_is_endorsed_and_submitted_is_committed(client: RawClient) -> None:
    one = new_id()
    prepared = commit_scorecards(client, one)
    assert json.loads(prepared.result) == [{"evaluation_id": one, "result": "created"}]
    client.submit(prepared)
    code, block = client.commit_status(prepared.tx_id)
    assert (code, block > 0) == ("VALID", True)
    assert json.loads(client.evaluate("ReadRecords", json.dumps([one]))) == [
        {"record": scorecard(one), "tx_id": prepared.tx_id}
    ]


def test_what_is_only_endorsed_is_not_on_the_ledger(client: RawClient) -> None:
    one = new_id()
    commit_scorecards(client, one)
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
    failure = refused(commit_scorecards, client, new_id())
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
    failure = refused(commit_scorecards, connect(edit=edit), new_id())
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
    failure = refused(commit_scorecards, connect(sign_as=who), new_id())
    assert (failure.code, failure.message, failure.details) == ("ABORTED", ENDORSE_FAILED, [MALFORMED])


def test_an_expired_certificate_is_not_served(network: Network, connect: Connect) -> None:
    client = connect(network.enrol("Expired", expired=True))
    failure = refused(commit_scorecards, client, new_id())
    assert (failure.code, failure.message, failure.details) == ("ABORTED", ENDORSE_FAILED, [MALFORMED])
    failure = refused(client.commit_status, "ab" * 32)
    assert (failure.code, failure.message) == ("PERMISSION_DENIED", denied_by("Readers"))


def test_a_reader_cannot_write(network: Network, connect: Connect) -> None:
    reader = connect(network.enrol("Reader", "peer"))
    failure = refused(commit_scorecards, reader, new_id())
    assert (failure.code, failure.message, failure.details) == ("ABORTED", ENDORSE_FAILED, [denied_by("Writers")])
    assert BlockchainInfo.FromString(reader.evaluate("GetChainInfo", "glassbox", chaincode="qscc")).height > 1


def test_a_certificate_without_a_role_is_not_served(network: Network, connect: Connect) -> None:
    failure = refused(commit_scorecards, connect(network.enrol("Nobody", None)), new_id())
    assert failure.details == [DENIED]


def test_a_channel_that_is_not_there(connect: Connect) -> None:
    client = connect(channel="elsewhere")
    endorse = refused(commit_scorecards, client, new_id())
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
    endorse = refused(commit_scorecards, client, new_id())
    assert endorse.code == "FAILED_PRECONDITION"
    assert endorse.message.endswith("No metadata was found for chaincode nothing in channel glassbox")
    evaluate = refused(client.evaluate, "ReadRecords", "[]")
    assert evaluate.code == "FAILED_PRECONDITION"
    assert evaluate.message == "no peers available to evaluate chaincode nothing in channel glassbox"


def test_the_status_of_an_unknown_transaction_is_waited_for(client: RawClient) -> None:
    assert refused(client.commit_status, "ab" * 32, 0.5).code == "DEADLINE_EXCEEDED"


def test_an_envelope_must_be_signed_by_its_creator(connect: Connect) -> None:
    client = connect()
    prepared = commit_scorecards(client, new_id())
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
    later = commit_scorecards(client, new_id())
    assert client.commit(later) == "VALID"
    assert client.commit_status(prepared.tx_id) == standing == ("VALID", standing[1])
    blocks = (block_of(client, number) for number in range(standing[1] + 1, client.commit_status(later.tx_id)[1] + 1))
    assert TxValidationCode.DUPLICATE_TXID in b"".join(validation_codes(block) for block in blocks)
    failure = refused(lambda: client.endorse("CommitScorecards", batch, nonce=nonce))
    assert failure.message == ENDORSE_FAILED
    assert failure.details[0].startswith(f"duplicate transaction found [{prepared.tx_id}]. Creator [")


def test_of_two_that_read_the_same_one_is_valid(client: RawClient) -> None:
    one = new_id()
    first, second = commit_scorecards(client, one), commit_scorecards(client, one)
    client.submit(first)
    client.submit(second)
    assert client.commit_status(first.tx_id)[0] == "VALID"
    assert client.commit_status(second.tx_id)[0] == "MVCC_READ_CONFLICT"
    (again,) = json.loads(commit_scorecards(client, one).result)
    assert again["result"] == "exists"


def test_what_was_read_must_still_hold_blocks_later(client: RawClient) -> None:
    one = new_id()
    stale = commit_scorecards(client, one)
    assert client.commit(commit_scorecards(client, one)) == "VALID"
    assert client.commit(stale) == "MVCC_READ_CONFLICT"


def test_a_key_that_appears_in_a_range_that_was_read_is_a_phantom(client: RawClient) -> None:
    prefix = new_id()
    listed = client.endorse("ListByPrefix", prefix, "10", "")
    assert client.commit(commit_scorecards(client, f"{prefix}-1")) == "VALID"
    assert client.commit(listed) == "PHANTOM_READ_CONFLICT"


def resigned(client: RawClient, payload: bytes) -> Envelope:
    return Envelope(payload=payload, signature=client.profile.signer.sign(payload))


def test_an_altered_write_set_is_covered_by_no_endorsement(client: RawClient) -> None:
    one = new_id()
    prepared = commit_scorecards(client, one)
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
    prepared = commit_scorecards(client, new_id())
    bare = with_endorsements(Envelope.FromString(prepared.envelope), lambda endorsements: [])
    client.submit_envelope(prepared.tx_id, resigned(client, bare))
    assert client.commit_status(prepared.tx_id)[0] == "ENDORSEMENT_POLICY_FAILURE"


def test_the_read_write_set_has_the_definition_and_what_the_chaincode_read_and_wrote(client: RawClient) -> None:
    one = new_id()
    envelope = Envelope.FromString(commit_scorecards(client, one).envelope)
    transaction = UnpackedTransaction.of(Payload.FromString(envelope.payload))
    sets = read_write_sets(transaction.action.results)
    name = client.profile.chaincode
    assert [namespace for namespace, _ in sets] == ["_lifecycle", name]
    (_, lifecycle), (_, own) = sets
    assert [read.key for read in lifecycle.reads] == [f"namespaces/fields/{name}/Sequence"]
    assert f"record/{one}" in [read.key for read in own.reads if not read.HasField("version")]
    writes = {write.key: write for write in own.writes}
    assert json.loads(writes[f"record/{one}"].value) == scorecard(one)
    assert list(writes) == sorted(writes)
    assert not any(write.is_delete for write in writes.values())
    assert transaction.action.chaincode_id.name == name
    assert transaction.action.response.status == 200


def query_system(client: RawClient, function: str, *arguments: str) -> bytes:
    return client.evaluate(function, client.profile.channel, *arguments, chaincode="qscc")


def block_of(client: RawClient, number: int) -> Block:
    return Block.FromString(query_system(client, "GetBlockByNumber", str(number)))


def test_the_system_chaincode_gives_transactions_and_blocks(client: RawClient) -> None:
    prepared = commit_scorecards(client, new_id())
    client.submit(prepared)
    _, number = client.commit_status(prepared.tx_id)
    processed = ProcessedTransaction.FromString(query_system(client, "GetTransactionByID", prepared.tx_id))
    assert processed.transactionEnvelope.SerializeToString(deterministic=True) == prepared.envelope
    assert processed.validationCode == TxValidationCode.VALID
    block = Block.FromString(query_system(client, "GetBlockByTxID", prepared.tx_id))
    assert block == block_of(client, number)
    assert block.header.data_hash == hashlib.sha256(b"".join(block.data.data)).digest()
    assert block.header.previous_hash == header_hash(block_of(client, number - 1).header)
    assert len(validation_codes(block)) == len(block.data.data)
    assert validation_codes(block)[list(block.data.data).index(prepared.envelope)] == TxValidationCode.VALID
    info = BlockchainInfo.FromString(query_system(client, "GetChainInfo"))
    last = block_of(client, info.height - 1)
    assert (info.currentBlockHash, info.previousBlockHash) == (header_hash(last.header), last.header.previous_hash)


def test_an_invalid_transaction_can_be_looked_up_with_its_code(client: RawClient) -> None:
    one = new_id()
    stale = commit_scorecards(client, one)
    client.commit(commit_scorecards(client, one))
    client.commit(stale)
    processed = ProcessedTransaction.FromString(query_system(client, "GetTransactionByID", stale.tx_id))
    assert processed.validationCode == TxValidationCode.MVCC_READ_CONFLICT


def test_what_the_system_chaincode_does_not_know(client: RawClient) -> None:
    unknown = "ab" * 32
    failures = [
        refused(query_system, client, "GetTransactionByID", unknown),
        refused(query_system, client, "GetBlockByTxID", unknown),
        refused(query_system, client, "GetBlockByNumber", "100000"),
        refused(query_system, client, "GetBlockByNumber", "x"),
        refused(query_system, client, "GetBlockByNumber"),
        refused(query_system, client, "GetNothing", "x"),
        refused(lambda: client.evaluate("GetChainInfo", "elsewhere", chaincode="qscc")),
    ]
    assert {failure.code for failure in failures} == {"UNKNOWN"}
    reasons = [failure.details[0].removeprefix("chaincode response 500, ") for failure in failures]
    no_transaction = f"no such transaction ID [{unknown}] in index"
    assert reasons == [
        f"Failed to get transaction with id {unknown}, error {no_transaction}",
        f"Failed to get block for txID {unknown}, error {no_transaction}",
        "Failed to get block number 100000, error no such block number [100000] in index",
        'Failed to parse block number with error strconv.ParseUint: parsing "x": invalid syntax',
        "missing 3rd argument for GetBlockByNumber",
        "access denied for [GetNothing][glassbox]: [Unmapped policy for qscc/GetNothing]",
        "Invalid chain ID, elsewhere",
    ]


def test_history_has_valid_writes_alone(client: RawClient) -> None:
    one = new_id()
    stale, valid = commit_scorecards(client, one), commit_scorecards(client, one)
    assert client.commit(valid) == "VALID"
    assert client.commit(stale) == "MVCC_READ_CONFLICT"
    (entry,) = json.loads(client.evaluate("History", one))
    assert entry["tx_id"] == valid.tx_id


def test_a_list_is_read_page_by_page(client: RawClient) -> None:
    prefix = new_id()
    ids = [f"{prefix}-{n}" for n in range(5)]
    assert client.commit(commit_scorecards(client, *reversed(ids))) == "VALID"
    pages, bookmark = [], ""
    while not pages or bookmark:
        page = json.loads(client.evaluate("ListByPrefix", prefix, "2", bookmark))
        pages.append([item["evaluation_id"] for item in page["items"]])
        bookmark = page["bookmark"]
    assert pages == [ids[:2], ids[2:4], ids[4:]]


def test_a_list_of_exactly_a_page_ends_there(client: RawClient) -> None:
    prefix = new_id()
    ids = [f"{prefix}-{n}" for n in range(2)]
    assert client.commit(commit_scorecards(client, *ids)) == "VALID"
    page = json.loads(client.evaluate("ListByPrefix", prefix, "2", ""))
    assert [item["evaluation_id"] for item in page["items"]] == ids
    rest = json.loads(client.evaluate("ListByPrefix", prefix, "2", page["bookmark"])) if page["bookmark"] else None
    assert rest is None or rest == {"items": [], "bookmark": ""}


def specified(number: int) -> SeekPosition:
    return SeekPosition(specified=SeekSpecified(number=number))


def test_events_are_read_from_a_block_on_and_behind_a_transaction(client: RawClient) -> None:
    committed, numbers = [], []
    for _ in range(3):
        one = new_id()
        prepared = commit_scorecards(client, one)
        client.submit(prepared)
        numbers.append(client.commit_status(prepared.tx_id)[1])
        committed.append((prepared.tx_id, one))
    stream = client.events(specified(numbers[0]))
    seen = [next(stream) for _ in range(3)]
    assert [response.block_number for response in seen] == numbers
    events = [event for response in seen for event in response.events]
    assert [(event.tx_id, json.loads(event.payload)["evaluation_ids"]) for event in events] == [
        (tx_id, [one]) for tx_id, one in committed
    ]
    assert {(event.chaincode_id, event.event_name) for event in events} == {
        (client.profile.chaincode, "CommitScorecards")
    }
    resumed = client.events(specified(0), after=committed[1][0])
    assert [event.tx_id for event in next(resumed).events] == [committed[2][0]]


def test_events_begin_with_the_next_block_where_nothing_is_said(client: RawClient) -> None:
    received: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        stream = client.events()
        ready.set()
        received.append(next(stream).events[0].tx_id)

    listener = threading.Thread(target=listen)
    listener.start()
    ready.wait()
    submitted: list[str] = []
    while not received and len(submitted) < 20:  # the stream is open when the peer says so, which it does not
        prepared = commit_scorecards(client, new_id())
        client.commit(prepared)
        submitted.append(prepared.tx_id)
    listener.join()
    assert received[0] in submitted


def test_a_conflict_alone_makes_no_event(client: RawClient) -> None:
    one = new_id()
    stale = commit_scorecards(client, one)
    valid = commit_scorecards(client, one)
    client.submit(valid)
    _, number = client.commit_status(valid.tx_id)
    client.commit(stale)
    last = commit_scorecards(client, new_id())
    client.commit(last)
    stream = client.events(specified(number))
    assert [event.tx_id for _ in range(2) for event in next(stream).events] == [valid.tx_id, last.tx_id]


def test_two_organisations_endorse_the_same_result(started: Callable[[int], Network]) -> None:
    client = RawClient(started(2).profile())
    prepared = commit_scorecards(client, new_id())
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
    prepared = commit_scorecards(client, new_id())
    fewer = with_endorsements(Envelope.FromString(prepared.envelope), choose)
    client.submit_envelope(prepared.tx_id, resigned(client, fewer))
    assert client.commit_status(prepared.tx_id)[0] == "ENDORSEMENT_POLICY_FAILURE"
    client.close()


def test_a_client_of_the_other_organisation_is_served_too(started: Callable[[int], Network]) -> None:
    client = RawClient(started(2).profile(org=2))
    assert client.commit(commit_scorecards(client, new_id())) == "VALID"
    client.close()
