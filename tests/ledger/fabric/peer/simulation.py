"""Simulation of one transaction: what the chaincode reads and writes becomes the read-write set.

Reads see the last block at the start of the simulation and never the transaction's own writes, as in Fabric.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fabric_protos.ledger.queryresult.kv_query_result_pb2 import KV, KeyModification
from fabric_protos.ledger.rwset.kvrwset.kv_rwset_pb2 import (
    KVRead,
    KVRWSet,
    KVWrite,
    RangeQueryInfo,
    Version,
)
from fabric_protos.ledger.rwset.rwset_pb2 import NsReadWriteSet, TxReadWriteSet
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

from tests.ledger.fabric.peer.ledger import LIFECYCLE, Ledger, definition_key
from tests.ledger.fabric.peer.state import Entry, Height, Write

RESULTS_A_MESSAGE = 100
"""Query results that travel to the chaincode at once."""


class SimulationError(Exception):
    """The peer refuses what the chaincode asks; the chaincode sees the message."""


@dataclass
class _RangeRead:
    """What a range query has seen so far. `end` is the last key seen until the range is exhausted."""

    start: str
    end: str
    reads: list[Entry] = field(default_factory=list)
    exhausted: bool = False

    def follow(self, entries: Iterator[Entry], end: str) -> Iterator[Entry]:
        for entry in entries:
            self.reads.append(entry)
            self.end = entry.key
            yield entry
        self.end, self.exhausted = end, True

    def info(self) -> RangeQueryInfo:
        made = RangeQueryInfo(start_key=self.start, end_key=self.end, itr_exhausted=self.exhausted)
        if self.reads:
            made.raw_reads.kv_reads.extend(_read(entry.key, entry.height) for entry in self.reads)
        return made


class Simulation:
    """Serves one chaincode invocation on a snapshot of the ledger."""

    def __init__(self, ledger: Ledger, namespace: str, transaction_id: str) -> None:
        self._ledger, self._namespace, self._transaction_id = ledger, namespace, transaction_id
        self._state = ledger.state(namespace)
        with ledger.snapshot() as last_block:
            self._at = last_block
        self._reads: dict[str, Height | None] = {}
        self._writes: dict[str, bytes] = {}
        self._ranges: list[_RangeRead] = []
        self._queries: dict[str, Iterator[bytes]] = {}
        self._paginated = False

    def handle(self, message: ChaincodeMessage) -> bytes:
        """The payload that answers a request of the chaincode; SimulationError where the peer refuses it."""
        kind = ChaincodeMessage.Type
        with self._ledger.changed:
            match message.type:
                case kind.GET_STATE:
                    return self._get(GetState.FromString(message.payload))
                case kind.PUT_STATE:
                    put = PutState.FromString(message.payload)
                    return self._write(put.key, put.value, put.collection)
                case kind.DEL_STATE:
                    delete = DelState.FromString(message.payload)
                    return self._write(delete.key, b"", delete.collection)
                case kind.GET_STATE_BY_RANGE:
                    return self._range(GetStateByRange.FromString(message.payload))
                case kind.GET_HISTORY_FOR_KEY:
                    return self._history(GetHistoryForKey.FromString(message.payload).key)
                case kind.QUERY_STATE_NEXT:
                    return self._next(QueryStateNext.FromString(message.payload).id)
                case kind.QUERY_STATE_CLOSE:
                    return self._close(QueryStateClose.FromString(message.payload).id)
        raise SimulationError("the test peer does not serve this request")

    def read_write_set(self) -> bytes:
        """TxReadWriteSet: the chaincode's own namespace, and the definition that a peer looks up beforehand."""
        sets = {LIFECYCLE: self._definition_read()}
        if self._reads or self._ranges or self._writes:
            sets[self._namespace] = KVRWSet(
                reads=[_read(key, height) for key, height in sorted(self._reads.items())],
                range_queries_info=[read.info() for read in self._ranges],
                writes=[
                    KVWrite(key=key, value=value, is_delete=not value) for key, value in sorted(self._writes.items())
                ],
            )
        return TxReadWriteSet(
            data_model=TxReadWriteSet.KV,
            ns_rwset=[
                NsReadWriteSet(namespace=name, rwset=one.SerializeToString()) for name, one in sorted(sets.items())
            ],
        ).SerializeToString()

    def _definition_read(self) -> KVRWSet:
        key = definition_key(self._namespace)
        standing = self._ledger.state(LIFECYCLE).get(key, self._at)
        return KVRWSet(reads=[_read(key, standing.height if standing else None)])

    def _get(self, query: GetState) -> bytes:
        _public(query.collection)
        entry = self._state.get(query.key, self._at)
        self._reads[query.key] = entry.height if entry else None
        return entry.value if entry else b""

    def _write(self, key: str, value: bytes, collection: str) -> bytes:
        _public(collection)
        if self._paginated:
            raise SimulationError(
                f"txid [{self._transaction_id}]: unsuppored transaction. Transaction has already performed a "
                "paginated query. Writes are not allowed"
            )
        self._writes[key] = value
        return b""

    def _range(self, query: GetStateByRange) -> bytes:
        _public(query.collection)
        page = QueryMetadata.FromString(query.metadata)
        if page.pageSize or page.bookmark:
            return self._page(page.bookmark or query.startKey, query.endKey, page.pageSize)
        read = _RangeRead(query.startKey, query.startKey)
        self._ranges.append(read)
        entries = read.follow(self._state.scan(query.startKey, query.endKey, self._at), query.endKey)
        return self._start(self._result(entry) for entry in entries)

    def _page(self, start: str, end: str, size: int) -> bytes:
        if self._writes:
            raise SimulationError(
                f"txid [{self._transaction_id}]: unsuppored transaction. Paginated queries are supported only in a "
                "read-only transaction"
            )
        self._paginated = True
        entries = list(self._state.scan(start, end, self._at))
        page = entries[:size] if size else entries
        exhausted = len(page) < size or not size
        self._ranges.append(_RangeRead(start, end if exhausted else page[-1].key, page, exhausted))
        metadata = QueryResponseMetadata(
            fetched_records_count=len(page), bookmark=entries[len(page)].key if len(page) < len(entries) else ""
        )
        response = QueryResponse(id=uuid.uuid4().hex, metadata=metadata.SerializeToString())
        for entry in page:
            response.results.add(resultBytes=self._result(entry))
        return response.SerializeToString()

    def _history(self, key: str) -> bytes:
        writes = self._state.history(key, self._at)
        return self._start(self._modification(write) for write in writes)

    def _modification(self, write: Write) -> bytes:
        transaction = self._ledger.committed[write.height.block][write.height.transaction]
        return KeyModification(
            tx_id=transaction.transaction_id,
            value=write.value or b"",
            timestamp=transaction.timestamp,
            is_delete=write.value is None,
        ).SerializeToString()

    def _result(self, entry: Entry) -> bytes:
        return KV(namespace=self._namespace, key=entry.key, value=entry.value).SerializeToString()

    def _start(self, results: Iterable[bytes]) -> bytes:
        query = uuid.uuid4().hex
        self._queries[query] = iter(results)
        return self._next(query)

    def _next(self, query: str) -> bytes:
        if query not in self._queries:
            raise SimulationError("query iterator not found")
        results = list(itertools.islice(self._queries[query], RESULTS_A_MESSAGE))
        following = next(self._queries[query], None)  # read ahead, as the peer does
        if following is None:
            del self._queries[query]
        else:
            self._queries[query] = itertools.chain([following], self._queries[query])
        response = QueryResponse(id=query, has_more=following is not None)
        for result in results:
            response.results.add(resultBytes=result)
        return response.SerializeToString()

    def _close(self, query: str) -> bytes:
        self._queries.pop(query, None)
        return QueryResponse(id=query).SerializeToString()


def _public(collection: str) -> None:
    if collection:
        raise SimulationError("the test peer keeps no private data")


def _read(key: str, height: Height | None) -> KVRead:
    version = Version(block_num=height.block, tx_num=height.transaction) if height else None
    return KVRead(key=key, version=version)
