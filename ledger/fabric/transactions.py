"""Transactions from the proposal to the block: several at once, each exactly once, whatever fails on the way.

A signed envelope is on disk before it is submitted. It may be submitted any number of times and counts once, so as
long as an outcome is unknown it is asked for, and the same envelope goes again. What has become stale meanwhile
(MVCC) is endorsed again with a new nonce; two transactions that create one record cannot both be valid.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ledger.fabric.errors import Configuration, Conflict, GatewayError, Invalid, Permanent, Unknown
from ledger.fabric.gateway import Gateway
from ledger.fabric.pending import Pending, PendingTransaction
from ledger.fabric.proposal import Prepared

T = TypeVar("T")

log = logging.getLogger(__name__)

_ENDORSEMENTS = 6
"""How often a call that others overtake is endorsed, before it is trouble."""


@dataclass(frozen=True)
class Call:
    """A function of the chaincode with its arguments, and the ids of the records that it writes."""

    function: str
    args: tuple[str, ...]
    evaluation_ids: tuple[str, ...]


@dataclass(frozen=True)
class Committed:
    """A valid transaction in its block."""

    tx_id: str
    block_number: int


@dataclass(frozen=True)
class Outcome:
    """What the chaincode answered; `committed` is None where there was nothing to write."""

    result: bytes
    committed: Committed | None


class Transactions:
    """Runs calls over a gateway, at most `in_flight` of them at once. Every method may raise GatewayError, and
    LedgerUnavailable for the pending file."""

    def __init__(self, gateway: Gateway, pending: Pending, in_flight: int) -> None:
        self._gateway, self._pending = gateway, pending
        self._room = asyncio.Semaphore(in_flight)
        self._left: list[PendingTransaction] | None = None
        self._settling = asyncio.Lock()

    async def run(self, calls: Sequence[Call], writes: Callable[[int, bytes], bool]) -> list[Outcome | Permanent]:
        """Endorse every call, then submit those whose answer has something to write, as `writes` (number of the
        call, answer) says. Permanent stands for a call that the chaincode refused.

        What `writes` raises goes through, with nothing submitted (but where a call is endorsed again, because others
        overtook it: then those beside it are in their blocks). One call that fails leaves the others standing.
        """
        await self._settle()
        outcomes: dict[int, Outcome | Permanent] = {}
        todo = list(enumerate(calls))
        overtaken: GatewayError | None = None
        for attempt in range(_ENDORSEMENTS):
            submitted = []
            prepared = await _together(self._endorse(call) for _, call in todo)
            for (n, call), endorsed in zip(todo, prepared, strict=True):
                if isinstance(endorsed, Permanent):
                    outcomes[n] = endorsed
                    continue
                outcomes[n] = Outcome(endorsed.result, None)
                if writes(n, endorsed.result):
                    submitted.append((n, call, endorsed))
            results = await self._commit([(call, p) for _, call, p in submitted])
            todo = []
            for (n, call, p), result in zip(submitted, results, strict=True):
                if isinstance(result, Committed):
                    outcomes[n] = Outcome(p.result, result)
                elif isinstance(result, Conflict):
                    todo.append((n, call))
                    overtaken = result
                else:
                    raise result
            if not todo:
                return [outcomes[n] for n in range(len(calls))]
            await _jitter(attempt)
        assert overtaken is not None
        raise overtaken

    async def _settle(self) -> None:
        """Bring what an earlier process or call left on its way to an end: ask for its status, and submit the same
        envelope again where no block has it."""
        async with self._settling:
            if self._left is None:
                self._left = await self._pending.all()
            left, self._left = self._left, []
            if not left:
                return
            log.info("asking for the outcome of %d transactions that were on their way", len(left))
            for result in await self._land_all(left, asked=True):
                if not _is_final(result) and isinstance(result, GatewayError):
                    raise result

    async def _endorse(self, call: Call) -> Prepared | Permanent:
        for attempt in range(_ENDORSEMENTS):
            try:
                async with self._room:
                    return await self._gateway.endorse(call.function, *call.args)
            except Permanent as error:
                return error
            except (Conflict, Unknown) as error:
                # The endorsers do not agree yet, or somebody committed under this nonce: a new one tells.
                if attempt + 1 == _ENDORSEMENTS:
                    raise
                log.info("%s", error)
            await _jitter(attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _commit(self, prepared: Sequence[tuple[Call, Prepared]]) -> list[Committed | GatewayError]:
        """Each transaction's block, or what became of it."""
        if not prepared:
            return []
        transactions = [PendingTransaction(p.tx_id, call.evaluation_ids, p.envelope) for call, p in prepared]
        await self._pending.add(transactions)
        return await self._land_all(transactions, asked=False)

    async def _land_all(
        self, transactions: Sequence[PendingTransaction], *, asked: bool
    ) -> list[Committed | GatewayError]:
        """The outcome of each. What is not known in the end, also because this was cancelled, is left for later."""
        results: dict[str, Committed | GatewayError] = {}

        async def landed(transaction: PendingTransaction) -> None:
            try:
                async with self._room:
                    block = await self._land(transaction, asked=asked)
                results[transaction.tx_id] = Committed(transaction.tx_id, block)
            except GatewayError as error:
                results[transaction.tx_id] = error

        try:
            await _together(landed(transaction) for transaction in transactions)
        finally:
            assert self._left is not None, "settled before"
            self._left += [t for t in transactions if not _is_final(results.get(t.tx_id))]
        await self._pending.remove([tx_id for tx_id, result in results.items() if _is_final(result)])
        return [results[transaction.tx_id] for transaction in transactions]

    async def _land(self, transaction: PendingTransaction, *, asked: bool) -> int:
        """Submit until the status comes, at most twice, and return the block's number. `asked`: ask for it first."""
        tx_id = transaction.tx_id
        for last in (False, True):
            if asked:
                try:
                    return await self._gateway.commit_status(tx_id, self._gateway.deadlines.known)
                except Unknown:
                    log.info("no block has the transaction %s yet: it is submitted again", tx_id)
            try:
                await self._gateway.submit(tx_id, transaction.envelope)
                return await self._gateway.commit_status(tx_id)
            except Unknown:
                if last:
                    raise
            asked = True
        raise AssertionError("the second time returns or raises")


def _is_final(result: Committed | GatewayError | None) -> bool:
    """Whether this envelope's fate is known: in a block, valid or not, or refused by the orderer for good."""
    refused = isinstance(result, Configuration) and (result.step, result.code) == ("Submit", "ABORTED")
    return isinstance(result, Committed | Conflict | Invalid) or refused


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all; the first exception, once all have ended, so that nothing goes on behind the caller."""
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def _jitter(attempt: int) -> None:
    await asyncio.sleep(random.uniform(0.5, 1) * min(0.05 * 2**attempt, 1.0))  # noqa: S311 — jitter, not a secret
