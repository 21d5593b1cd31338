"""What a chaincode may ask of the test peer beyond what ours asks, and the state behind it."""

from collections.abc import Sequence

import pytest
from fabric_protos.ledger.queryresult.kv_query_result_pb2 import KV, KeyModification
from fabric_protos.peer.chaincode_shim_pb2 import (
    ChaincodeMessage,
    DelState,
    GetHistoryForKey,
    GetState,
    GetStateByRange,
    PutState,
    QueryMetadata,
    QueryResponse,
    QueryResponseMetadata,
    QueryStateClose,
    QueryStateNext,
)
from fabric_protos.peer.transaction_pb2 import TxValidationCode
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.fabric.peer.ledger import Committed, Ledger
from tests.ledger.fabric.peer.simulation import RESULTS_A_MESSAGE, Simulation, SimulationError
from tests.ledger.fabric.peer.state import Height, VersionedState
from tests.ledger.fabric.peer.validation import read_write_sets

Kind = ChaincodeMessage.Type
NAME = "scorecards"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger("glassbox", NAME)


def write(ledger: Ledger, *keys: str, value: bytes | None = b"v") -> None:
    """A block with one valid transaction that writes the keys."""

    def validate(envelope: bytes, height: Height) -> Committed:
        for key in keys:
            ledger.state(NAME).put(key, height, value)
        return Committed(f"tx-{height.block}", TxValidationCode.VALID, None, Timestamp(seconds=height.block))

    ledger.commit([b""], validate)


def ask(simulation: Simulation, kind: int, request: Message) -> bytes:
    return simulation.handle(ChaincodeMessage(type=kind, payload=request.SerializeToString()))


def query(simulation: Simulation, kind: int, request: Message) -> QueryResponse:
    return QueryResponse.FromString(ask(simulation, kind, request))


def keys(responses: Sequence[QueryResponse]) -> list[str]:
    return [KV.FromString(result.resultBytes).key for response in responses for result in response.results]


def begin(ledger: Ledger) -> Simulation:
    return Simulation(ledger, NAME, "tx")


def test_a_long_range_travels_in_several_messages(ledger: Ledger) -> None:
    expected = [f"k{n:04}" for n in range(2 * RESULTS_A_MESSAGE + 1)]
    write(ledger, *expected)
    simulation = begin(ledger)
    responses = [query(simulation, Kind.GET_STATE_BY_RANGE, GetStateByRange(startKey="k", endKey="l"))]
    while responses[-1].has_more:
        responses.append(query(simulation, Kind.QUERY_STATE_NEXT, QueryStateNext(id=responses[0].id)))
    assert [len(response.results) for response in responses] == [RESULTS_A_MESSAGE, RESULTS_A_MESSAGE, 1]
    assert keys(responses) == expected
    (read,) = read_write_sets(simulation.read_write_set())[1][1].range_queries_info
    assert (read.start_key, read.end_key, read.itr_exhausted) == ("k", "l", True)
    assert [one.key for one in read.raw_reads.kv_reads] == expected


def test_a_range_left_early_was_read_to_its_last_key_alone(ledger: Ledger) -> None:
    write(ledger, *(f"k{n:04}" for n in range(3 * RESULTS_A_MESSAGE)))
    simulation = begin(ledger)
    first = query(simulation, Kind.GET_STATE_BY_RANGE, GetStateByRange(startKey="k", endKey="l"))
    query(simulation, Kind.QUERY_STATE_CLOSE, QueryStateClose(id=first.id))
    (read,) = read_write_sets(simulation.read_write_set())[1][1].range_queries_info
    assert (read.end_key, read.itr_exhausted) == (f"k{RESULTS_A_MESSAGE:04}", False)
    with pytest.raises(SimulationError, match="query iterator not found"):
        query(simulation, Kind.QUERY_STATE_NEXT, QueryStateNext(id=first.id))


def test_a_page_says_where_the_next_begins(ledger: Ledger) -> None:
    write(ledger, "a", "b", "c")
    metadata = QueryMetadata(pageSize=2).SerializeToString()
    page = query(begin(ledger), Kind.GET_STATE_BY_RANGE, GetStateByRange(startKey="a", endKey="", metadata=metadata))
    assert keys([page]) == ["a", "b"]
    assert QueryResponseMetadata.FromString(page.metadata) == QueryResponseMetadata(
        fetched_records_count=2, bookmark="c"
    )
    metadata = QueryMetadata(pageSize=2, bookmark="c").SerializeToString()
    last = query(begin(ledger), Kind.GET_STATE_BY_RANGE, GetStateByRange(startKey="a", endKey="", metadata=metadata))
    assert keys([last]) == ["c"]
    assert QueryResponseMetadata.FromString(last.metadata).bookmark == ""


def test_pages_and_writes_do_not_go_together(ledger: Ledger) -> None:
    page = GetStateByRange(startKey="a", endKey="z", metadata=QueryMetadata(pageSize=1).SerializeToString())
    put = PutState(key="k", value=b"v")
    writer = begin(ledger)
    ask(writer, Kind.PUT_STATE, put)
    with pytest.raises(SimulationError, match="Paginated queries are supported only in a read-only transaction"):
        ask(writer, Kind.GET_STATE_BY_RANGE, page)
    reader = begin(ledger)
    ask(reader, Kind.GET_STATE_BY_RANGE, page)
    with pytest.raises(SimulationError, match="already performed a paginated query"):
        ask(reader, Kind.PUT_STATE, put)


def test_a_transaction_sees_neither_its_own_writes_nor_later_blocks(ledger: Ledger) -> None:
    write(ledger, "k", value=b"old")
    simulation = begin(ledger)
    ask(simulation, Kind.PUT_STATE, PutState(key="k", value=b"mine"))
    write(ledger, "k", value=b"later")
    assert ask(simulation, Kind.GET_STATE, GetState(key="k")) == b"old"
    ((_, _), (_, own)) = read_write_sets(simulation.read_write_set())
    (read,) = own.reads
    assert (read.version.block_num, read.version.tx_num) == (1, 0)
    assert [(one.key, one.value) for one in own.writes] == [("k", b"mine")]


def test_a_deleted_key_is_gone_but_in_its_history(ledger: Ledger) -> None:
    write(ledger, "k")
    write(ledger, "k", value=None)
    simulation = begin(ledger)
    assert ask(simulation, Kind.GET_STATE, GetState(key="k")) == b""
    assert keys([query(simulation, Kind.GET_STATE_BY_RANGE, GetStateByRange(startKey="k", endKey="l"))]) == []
    response = query(simulation, Kind.GET_HISTORY_FOR_KEY, GetHistoryForKey(key="k"))
    history = [KeyModification.FromString(result.resultBytes) for result in response.results]
    assert [(one.tx_id, one.is_delete, one.timestamp.seconds) for one in history] == [
        ("tx-2", True, 2),
        ("tx-1", False, 1),
    ]


def test_a_deletion_is_a_write(ledger: Ledger) -> None:
    simulation = begin(ledger)
    ask(simulation, Kind.DEL_STATE, DelState(key="k"))
    ((_, _), (_, own)) = read_write_sets(simulation.read_write_set())
    assert [(one.key, one.is_delete, one.value) for one in own.writes] == [("k", True, b"")]


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        (Kind.GET_STATE, GetState(key="k", collection="private")),
        (Kind.PUT_STATE, PutState(key="k", collection="private")),
        (Kind.GET_QUERY_RESULT, GetState(key="k")),
        (Kind.INVOKE_CHAINCODE, GetState(key="k")),
    ],
)
def test_what_the_test_peer_does_not_serve_is_said(ledger: Ledger, kind: int, request_: Message) -> None:
    with pytest.raises(SimulationError, match="the test peer"):
        ask(begin(ledger), kind, request_)


short = st.text("ab\u00e9\U0001f600", max_size=3)


@given(st.lists(st.tuples(short, st.none() | st.binary(min_size=1, max_size=2)), max_size=20), short, short)
def test_state_is_a_dictionary_that_remembers(writes: list[tuple[str, bytes | None]], start: str, end: str) -> None:
    state, snapshots, current = VersionedState(), [], {}
    for block, (key, value) in enumerate(writes):
        state.put(key, Height(block, 0), value)
        current = {**current, key: value}
        snapshots.append({key: value for key, value in current.items() if value is not None})
    for block, snapshot in enumerate(snapshots):
        expected = sorted(snapshot, key=str.encode)
        seen = {key: entry.value for key in current if (entry := state.get(key, block)) is not None}
        assert seen == snapshot
        in_range = [key for key in expected if start <= key and (not end or key.encode() < end.encode())]
        assert [entry.key for entry in state.scan(start, end, block)] == in_range
    for key in current:
        assert [write.value for write in state.history(key)] == [value for k, value in reversed(writes) if k == key]
