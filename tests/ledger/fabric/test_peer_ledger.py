"""What a Fabric network writes on its ledger, and how that is read again."""

import hashlib
import json
import threading

import pytest
from fabric_protos.common.common_pb2 import Block, Envelope, Payload
from fabric_protos.common.ledger_pb2 import BlockchainInfo
from fabric_protos.orderer.ab_pb2 import SeekPosition, SeekSpecified
from fabric_protos.peer.transaction_pb2 import ProcessedTransaction, TxValidationCode

from tests.ledger.fabric.either_network import START_TIMEOUT, client, connect, network, started
from tests.ledger.fabric.peer.blocks import header_hash, validation_codes
from tests.ledger.fabric.peer.transaction import UnpackedTransaction
from tests.ledger.fabric.peer.validation import read_write_sets
from tests.ledger.fabric.raw_client import RawClient, endorse_scorecards, new_id, refused
from tests.ledger.records import scorecard

__all__ = ["client", "connect", "network", "started"]

pytestmark = pytest.mark.timeout(START_TIMEOUT)


def test_the_read_write_set_has_the_definition_and_what_the_chaincode_read_and_wrote(client: RawClient) -> None:
    one = new_id()
    envelope = Envelope.FromString(endorse_scorecards(client, one).envelope)
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


def test_the_system_chaincode_gives_transactions_and_blocks(client: RawClient) -> None:
    prepared = endorse_scorecards(client, new_id())
    client.submit(prepared)
    _, number = client.commit_status(prepared.tx_id)
    processed = ProcessedTransaction.FromString(client.query_system("GetTransactionByID", prepared.tx_id))
    assert processed.transactionEnvelope.SerializeToString(deterministic=True) == prepared.envelope
    assert processed.validationCode == TxValidationCode.VALID
    block = Block.FromString(client.query_system("GetBlockByTxID", prepared.tx_id))
    assert block == client.block(number)
    assert block.header.data_hash == hashlib.sha256(b"".join(block.data.data)).digest()
    assert block.header.previous_hash == header_hash(client.block(number - 1).header)
    assert len(validation_codes(block)) == len(block.data.data)
    assert validation_codes(block)[list(block.data.data).index(prepared.envelope)] == TxValidationCode.VALID
    info = BlockchainInfo.FromString(client.query_system("GetChainInfo"))
    last = client.block(info.height - 1)
    assert (info.currentBlockHash, info.previousBlockHash) == (header_hash(last.header), last.header.previous_hash)


def test_an_invalid_transaction_can_be_looked_up_with_its_code(client: RawClient) -> None:
    one = new_id()
    stale = endorse_scorecards(client, one)
    client.commit(endorse_scorecards(client, one))
    client.commit(stale)
    processed = ProcessedTransaction.FromString(client.query_system("GetTransactionByID", stale.tx_id))
    assert processed.validationCode == TxValidationCode.MVCC_READ_CONFLICT


def test_what_the_system_chaincode_does_not_know(client: RawClient) -> None:
    unknown = "ab" * 32
    failures = [
        refused(client.query_system, "GetTransactionByID", unknown),
        refused(client.query_system, "GetBlockByTxID", unknown),
        refused(client.query_system, "GetBlockByNumber", "100000"),
        refused(client.query_system, "GetBlockByNumber", "x"),
        refused(client.query_system, "GetBlockByNumber"),
        refused(client.query_system, "GetNothing", "x"),
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
    stale, valid = endorse_scorecards(client, one), endorse_scorecards(client, one)
    assert client.commit(valid) == "VALID"
    assert client.commit(stale) == "MVCC_READ_CONFLICT"
    (entry,) = json.loads(client.evaluate("History", one))
    assert entry["tx_id"] == valid.tx_id


def test_a_list_is_read_page_by_page(client: RawClient) -> None:
    prefix = new_id()
    ids = [f"{prefix}-{n}" for n in range(5)]
    assert client.commit(endorse_scorecards(client, *reversed(ids))) == "VALID"
    pages, bookmark = [], ""
    while not pages or bookmark:
        page = json.loads(client.evaluate("ListByPrefix", prefix, "2", bookmark))
        pages.append([item["evaluation_id"] for item in page["items"]])
        bookmark = page["bookmark"]
    assert pages == [ids[:2], ids[2:4], ids[4:]]


def test_a_list_of_exactly_a_page_ends_there(client: RawClient) -> None:
    prefix = new_id()
    ids = [f"{prefix}-{n}" for n in range(2)]
    assert client.commit(endorse_scorecards(client, *ids)) == "VALID"
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
        prepared = endorse_scorecards(client, one)
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

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    ready.wait()
    submitted: list[str] = []
    while not received and len(submitted) < 20:  # the stream is open when the peer says so, which it does not
        prepared = endorse_scorecards(client, new_id())
        client.commit(prepared)
        submitted.append(prepared.tx_id)
    listener.join(10)
    assert received[0] in submitted


def test_a_conflict_alone_makes_no_event(client: RawClient) -> None:
    one = new_id()
    stale = endorse_scorecards(client, one)
    valid = endorse_scorecards(client, one)
    client.submit(valid)
    _, number = client.commit_status(valid.tx_id)
    client.commit(stale)
    last = endorse_scorecards(client, new_id())
    client.commit(last)
    stream = client.events(specified(number))
    assert [event.tx_id for _ in range(2) for event in next(stream).events] == [valid.tx_id, last.tx_id]
