"""A ledger in a channel: the port over calls of the chaincode, with records in batches and receipts by transaction.

What the chaincode refuses, and what stands, is decided there (docs/chaincode.md); here records are shared out over
transactions, and each answer is turned into the receipt of the record that stands.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.contract.record import RecordError, check_policy, check_shape, record_bytes, reference_record
from ledger import checkpoint
from ledger.checkpoint import CheckpointError
from ledger.fabric.batches import BATCH, Answer, Batch, Item, Result, answers, split, standing, waves
from ledger.fabric.errors import GatewayError, Permanent
from ledger.fabric.gateway import Event
from ledger.fabric.profile import Profile
from ledger.fabric.proposal import Position
from ledger.fabric.transactions import Call, Committed, Outcome
from ledger.port import (
    AppendResult,
    LedgerRefused,
    LedgerUnavailable,
    Receipt,
    Record,
    Refused,
    UnknownPolicy,
    check_appendable,
)

_QUERY_CHAINCODE = "qscc"
"""The system chaincode through which a peer hands out transactions as they stand in its blocks."""

_READ = 100
"""Records of one ReadRecords."""

_PAGE = 1000
"""Items of one page of a list."""

_READS = 16
"""Reads at once where there are many."""

CATCHING_UP = (0.1, 0.3, 1.0, 0.0)
"""Seconds between reads of what another peer has already."""

_BLOCKS_KEPT = 10_000

_Answered = tuple[Item, Answer, Committed | None]
"""A record, what the chaincode said of it, and its transaction, where that wrote something."""


@dataclass(frozen=True)
class Written:
    """A valid transaction of the chaincode that wrote something: records, or a checkpoint (then without ids).

    `position`: what `events` goes on behind.
    """

    position: Position
    function: str
    evaluation_ids: tuple[str, ...]


class Network(Protocol):
    """What calls the chaincode. Every method may raise GatewayError, and LedgerUnavailable."""

    async def evaluate(self, function: str, *args: str, chaincode: str | None = None) -> bytes: ...

    async def commit_status(self, tx_id: str) -> int: ...

    def events(self, after: Position | None = None) -> AsyncGenerator[Event, None]: ...

    async def close(self) -> None: ...


class Commits(Protocol):
    """What has calls committed (`Transactions`)."""

    async def run(
        self, calls: Sequence[Call], writes: Callable[[int, bytes], bool]
    ) -> Sequence[Outcome | Permanent]: ...


class ChannelLedger:
    """A ledger in a channel, whatever client reaches it. Its methods may be called from one event loop, also side by
    side. `batch`: most scorecards of a transaction, up to 200."""

    name = "fabric"

    def __init__(self, profile: Profile, network: Network, transactions: Commits, batch: int = BATCH) -> None:
        self._profile = profile
        self._network = network
        self._transactions = transactions
        self._batch = batch
        self._reading = asyncio.Semaphore(_READS)
        self._busy: dict[str, asyncio.Future[None]] = {}
        self._blocks: dict[str, int] = {}
        self._policies: dict[str, dict[str, Any]] = {}

    @property
    def place(self) -> str:
        return f"chaincode {self._profile.chaincode} of channel {self._profile.channel}"

    async def append(self, records: Sequence[Record]) -> list[AppendResult]:
        results: dict[int, AppendResult] = {}
        items = []
        for number, record in enumerate(records):
            try:
                items.append(_item(number, record))
            except (RecordError, CanonicalError) as error:
                results[number] = Refused.because(record, error)
        todo = waves(items)
        with _trouble():
            async with self._alone({item.evaluation_id for item in items}):
                # A wave's own answers come too late for those before it.
                for digest in {item.record.get("policy_digest") for wave in todo[1:] for item in wave} - {None}:
                    if await self.policy(str(digest)) is None:
                        raise UnknownPolicy(str(digest))
                done = [answered for wave in todo for answered in await self._write(wave)]
            results.update(await self._receipts(done))
        return [results[number] for number in range(len(records))]

    async def read(self, evaluation_id: str) -> dict[str, Any] | None:
        with _trouble():
            found = await self._standing([evaluation_id])
        return found[evaluation_id][0] if found else None

    async def prove(self, evaluation_id: str) -> Receipt | None:
        """A receipt (result *exists*) whose proof has the processed transaction too, base64: what `glassbox verify`
        needs."""
        with _trouble():
            found = await self._standing([evaluation_id])
            if not found:
                return None
            record, tx_id = found[evaluation_id]
            block = await self._block(tx_id)  # first: it waits for a peer that is a block behind
            raw = await self._transaction(tx_id)
            proof = {**self._proof(Committed(tx_id, block)), "transaction": base64.b64encode(raw).decode()}
            return self._receipt("exists", record, proof)

    async def find(self, prefix: str, limit: int) -> list[str]:
        """The first `limit` evaluation ids that begin with `prefix`."""
        found: list[str] = []
        bookmark = ""
        with _trouble():
            while len(found) < limit:
                size = str(min(limit - len(found), _PAGE))
                try:
                    page = await self._ask("ListByPrefix", prefix, size, bookmark)
                except Permanent as error:
                    if _coded(error)[0] != "INVALID_ARGUMENT":
                        raise
                    break  # no id begins so
                found += [str(item["evaluation_id"]) for item in page["items"]]
                bookmark = str(page["bookmark"])
                if not bookmark:
                    break
        return found

    async def register_policy(self, policy: Mapping[str, Any], created_at: str) -> Receipt:
        try:
            check_policy(policy)
            raw = canonical(dict(policy))
            record = reference_record("policy", sha256_hex(raw), created_at)
            check_shape(record)
        except RecordError as error:
            raise LedgerRefused(error.field, error.rule) from None
        evaluation_id = str(record["evaluation_id"])
        call = Call("RegisterPolicy", (raw.decode(), created_at), (evaluation_id,))
        with _trouble():
            async with self._alone({evaluation_id}):
                try:
                    result, committed = await self._one(call)
                except Permanent as error:
                    raise _refused_policy(error) from None
            if committed is not None:
                return self._receipt(result, record, self._proof(committed))
            found, tx_id = (await self._surely([evaluation_id]))[evaluation_id]
            return self._receipt(result, found, self._proof(Committed(tx_id, await self._block(tx_id))))

    async def policy(self, digest: str) -> dict[str, Any] | None:
        if digest not in self._policies:
            with _trouble():
                found = await self._ask("ReadPolicy", digest)
            if found is None:
                return None
            self._policies[digest] = found
        return self._policies[digest]

    async def anchor(self, note: str) -> Result:
        """Put a log's signed checkpoint on the ledger. Raises LedgerRefused for what is none, and where the ledger
        has a larger one of this log, or another root of this size; LedgerUnavailable where this identity may not
        anchor it, by its role or because another organisation anchored the log first: that is set right outside."""
        try:
            signed = checkpoint.parse(note)
        except CheckpointError as error:
            raise LedgerRefused("checkpoint", str(error)) from None
        head, signatures = signed.checkpoint, note.rpartition("\n\n")[2].rstrip("\n")
        if signed.text != head.text():
            raise LedgerRefused("checkpoint", "three lines: origin, tree size and root")
        _, size, root, *_ = head.text().split("\n")
        call = Call("AnchorCheckpoint", (head.origin, size, root, signatures), ())
        with _trouble():
            async with self._alone({f"checkpoint {head.origin}"}):
                try:
                    result, _ = await self._one(call)
                except Permanent as error:
                    code, sentence = _coded(error)
                    if code not in ("CONFLICT", "INVALID_ARGUMENT"):
                        raise
                    raise LedgerRefused("checkpoint", sentence) from None
        return result

    async def anchored(self, origin: str) -> str | None:
        """The newest checkpoint of a log that is on the ledger, as the signed note that it was."""
        with _trouble():
            found = await self._ask("ReadCheckpoint", origin)
        if found is None:
            return None
        return f"{found['origin']}\n{found['size']}\n{found['root']}\n\n{found['signature']}\n"

    async def events(self, after: Position | None = None) -> AsyncGenerator[Written, None]:
        """What is written from here on, without end, one event a transaction, in the order of the blocks: behind
        `after`, the position of the last event that was dealt with, or from the first block.

        LedgerUnavailable: no peer goes on; ask again behind the last event received.
        """
        with _trouble():
            async with aclosing(self._network.events(after)) as events:
                async for event in events:
                    yield Written(event.position, event.name, _written(event.payload))

    async def close(self) -> None:
        await self._network.close()

    async def _write(self, wave: Sequence[Item]) -> list[_Answered]:
        done: list[_Answered] = []
        todo = split(wave, self._batch)
        while todo:
            batches, todo = todo, []
            for batch, outcome in zip(batches, await self._run(batches), strict=True):
                if isinstance(outcome, Outcome):
                    said = zip(batch.items, answers(batch, outcome.result), strict=True)
                    done += [(item, answer, outcome.committed) for item, answer in said]
                    continue
                code, sentence = _coded(outcome)
                if code not in ("INVALID_BATCH", "INVALID_RECORD"):
                    raise outcome
                if len(batch.items) > 1:  # one of them spoils it: the others are not to wait for that one
                    todo += split(batch.items, len(batch.items) // 2)
                else:
                    (item,) = batch.items
                    done.append((item, Refused(item.evaluation_id, "record", sentence), None))
        return done

    async def _run(self, batches: Sequence[Batch]) -> Sequence[Outcome | Permanent]:
        return await self._transactions.run(
            [batch.call() for batch in batches], lambda n, result: "created" in answers(batches[n], result)
        )

    async def _one(self, call: Call) -> tuple[Result, Committed | None]:
        """The answer of a function that answers one object, and the transaction where there was something to write."""
        (outcome,) = await self._transactions.run([call], lambda _, result: _result(result) == "created")
        if isinstance(outcome, Permanent):
            raise outcome
        return _result(outcome.result), outcome.committed

    async def _receipts(self, done: Sequence[_Answered]) -> dict[int, AppendResult]:
        """By the records' places in the append."""
        there = dict.fromkeys(item.evaluation_id for item, answer, _ in done if answer in ("exists", "conflict"))
        found = await self._surely(list(there))
        tx_ids = list(dict.fromkeys(tx_id for _, tx_id in found.values()))
        blocks = dict(zip(tx_ids, await asyncio.gather(*map(self._block, tx_ids)), strict=True))
        results: dict[int, AppendResult] = {}
        for item, answer, committed in done:
            if isinstance(answer, Refused):
                results[item.number] = answer
                continue
            record, raw, where = dict(item.record), item.raw, committed
            if answer != "created" or where is None:
                kept, tx_id = found[item.evaluation_id]
                where = Committed(tx_id, blocks[tx_id])
                if answer == "conflict":
                    record, raw = kept, record_bytes(kept)
            results[item.number] = Receipt(answer, record, sha256_hex(raw), self.name, self._proof(where))
        return results

    def _receipt(self, result: Result, record: Mapping[str, Any], proof: Mapping[str, Any]) -> Receipt:
        return Receipt(result, record, sha256_hex(record_bytes(record)), self.name, proof)

    def _proof(self, committed: Committed) -> dict[str, Any]:
        return {
            "channel": self._profile.channel,
            "chaincode": self._profile.chaincode,
            "tx_id": committed.tx_id,
            "block_number": committed.block_number,
        }

    async def _standing(self, ids: Sequence[str]) -> dict[str, tuple[dict[str, Any], str]]:
        """id -> (record, id of its transaction) of those that stand."""
        found: dict[str, tuple[dict[str, Any], str]] = {}
        for start in range(0, len(ids), _READ):
            some = ids[start : start + _READ]
            found.update(standing(some, await self._network.evaluate("ReadRecords", canonical(list(some)).decode())))
        return found

    async def _surely(self, ids: Sequence[str]) -> dict[str, tuple[dict[str, Any], str]]:
        """As `_standing`, of records that stand by an endorser's word: the peer that is asked may be a block behind."""
        for pause in CATCHING_UP:
            found = await self._standing(ids)
            if len(found) == len(ids):
                return found
            await asyncio.sleep(pause)
        raise LedgerUnavailable(
            "a Fabric peer does not have records yet that another one has: wait until it has caught up"
        )

    async def _block(self, tx_id: str) -> int:
        """The number of the block of a valid transaction; blocks do not change."""
        if tx_id not in self._blocks:
            async with self._reading:
                number = await self._network.commit_status(tx_id)
            if len(self._blocks) >= _BLOCKS_KEPT:
                self._blocks.clear()
            self._blocks[tx_id] = number
        return self._blocks[tx_id]

    async def _transaction(self, tx_id: str) -> bytes:
        """A peer.ProcessedTransaction: the envelope as it stands in its block, and the validation code."""
        return await self._network.evaluate(
            "GetTransactionByID", self._profile.channel, tx_id, chaincode=_QUERY_CHAINCODE
        )

    async def _ask(self, function: str, *args: str) -> Any:
        try:
            return strict_loads(await self._network.evaluate(function, *args))
        except CanonicalError as error:
            raise LedgerUnavailable(
                f"the chaincode answered {function} with something else than JSON ({error.reason}): check its name"
            ) from None

    @asynccontextmanager
    async def _alone(self, ids: set[str]) -> AsyncIterator[None]:
        """Nobody else here has a transaction in flight with one of these."""
        while others := {self._busy[name] for name in ids & self._busy.keys()}:
            await asyncio.wait(others)
        done = asyncio.get_running_loop().create_future()
        self._busy.update(dict.fromkeys(ids, done))
        try:
            yield
        finally:
            for name in ids:
                del self._busy[name]
            done.set_result(None)


def _item(number: int, record: Record) -> Item:
    """Raises RecordError or CanonicalError for what is not in the form of a record. It is not sent: a transaction keeps
    its input for ever, what is refused too, and an unknown field may hold text. The chaincode looks at the rest."""
    raw = record_bytes(record)
    check_appendable(record)
    return Item(number, record, raw)


def _result(raw: bytes) -> Result:
    """Of the answer to RegisterPolicy and AnchorCheckpoint."""
    result = strict_loads(raw)["result"]
    assert result in ("created", "exists")
    return "created" if result == "created" else "exists"


def _written(payload: bytes) -> tuple[str, ...]:
    return tuple(map(str, strict_loads(payload).get("evaluation_ids", ())))


def _coded(error: Permanent) -> tuple[str, str]:
    """(code, sentence) of what the chaincode said."""
    code, _, sentence = error.reason.partition(": ")
    return code, sentence


def _refused_policy(error: Permanent) -> Exception:
    code, sentence = _coded(error)
    if code != "INVALID_POLICY":
        return error
    name, _, rule = sentence.partition(": ")
    return LedgerRefused(name, rule)


@contextmanager
def _trouble() -> Iterator[None]:
    """What the network could not do, as LedgerUnavailable: wait, and say so. No record is refused for it."""
    try:
        yield
    except GatewayError as error:
        raise LedgerUnavailable(str(error)) from error
