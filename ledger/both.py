"""Two ledgers at once: what stands in the first also stands in the second, and neither may say otherwise.

The first decides: it creates, refuses and answers, and its receipts are published. What it holds is then put into
the second, with whatever that cites and the second does not have yet. So a crash between the two is mended when the
same records are appended again, and a second ledger that was added later fills as it is needed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from glassbox.contract.record import record_digest
from ledger.port import (
    AppendResult,
    Ledger,
    LedgerUnavailable,
    Receipt,
    Record,
    Refused,
    UnknownPolicy,
    UnknownReference,
)


class LedgersDiffer(LedgerUnavailable):
    """The two ledgers contradict each other about a record.

    Trouble, and never a refusal: the record may be right, and a receipt of the one would deny what the other says.
    So the committer waits and says so until somebody has found out which ledger was changed, and by whom.
    """

    def __init__(self, evaluation_id: str, difference: str) -> None:
        self.evaluation_id = evaluation_id
        super().__init__(
            f"the ledgers differ about {evaluation_id}: {difference}; nothing more is committed: find out which was "
            "changed, or who else writes there (glassbox proof with GLASSBOX_LEDGER set to one of them)"
        )


class Both:
    """A ledger made of two. Its methods may be called from one event loop.

    Where others write to one of them too, that one is to be the first: it then says which record came first.
    """

    def __init__(self, first: Ledger, second: Ledger) -> None:
        self._first, self._second = first, second
        self.name = f"{first.name},{second.name}"

    @property
    def place(self) -> str:
        return f"{self._first.place} and {self._second.place}"

    async def append(self, records: Sequence[Record]) -> list[AppendResult]:
        results = await self._first.append(records)
        standing = {result.evaluation_id: result.record for result in results if isinstance(result, Receipt)}
        await self._copy(list(standing.values()))
        return results

    async def read(self, evaluation_id: str) -> dict[str, Any] | None:
        first, second = await asyncio.gather(self._first.read(evaluation_id), self._second.read(evaluation_id))
        self._compare(first, second)
        return second if first is None else first

    async def prove(self, evaluation_id: str) -> Receipt | None:
        """The first ledger's receipt; the second's for what stands there alone."""
        receipt, second = await asyncio.gather(self._first.prove(evaluation_id), self._second.read(evaluation_id))
        self._compare(None if receipt is None else receipt.record, second)
        return receipt or await self._second.prove(evaluation_id)

    async def find(self, prefix: str, limit: int) -> list[str]:
        found = await asyncio.gather(self._first.find(prefix, limit), self._second.find(prefix, limit))
        return sorted({name for names in found for name in names})[:limit]

    async def register_policy(self, policy: Mapping[str, Any], created_at: str) -> Receipt:
        receipt = await self._first.register_policy(policy, created_at)
        await self._second.register_policy(policy, str(receipt.record["created_at"]))
        return receipt

    async def policy(self, digest: str) -> dict[str, Any] | None:
        found = await self._first.policy(digest)
        return await self._second.policy(digest) if found is None else found

    async def close(self) -> None:
        async with AsyncExitStack() as stack:  # the one, whatever happens to the other
            stack.push_async_callback(self._first.close)
            stack.push_async_callback(self._second.close)

    async def _copy(self, records: list[Record]) -> None:
        """Put into the second what stands in the first, and before it what it cites."""
        waiting, copied = [records], set[str]()
        while waiting:
            trouble: LedgerUnavailable
            try:
                results = await self._second.append(waiting[-1])
            except UnknownPolicy as error:
                cited, trouble = f"policy:{error.digest}", error
            except UnknownReference as error:
                cited, trouble = error.reference, error
            else:
                for record, result in zip(waiting.pop(), results, strict=True):
                    self._agree(record, result)
                continue
            standing = None if cited in copied else await self._first.read(cited)
            if standing is None:
                raise trouble
            copied.add(cited)
            if standing["kind"] == "policy":
                policy = await self._first.policy(standing["digest"])
                assert policy is not None  # its record stands
                await self._second.register_policy(policy, standing["created_at"])
            else:
                waiting.append([standing])

    def _agree(self, record: Record, result: AppendResult) -> None:
        if isinstance(result, Refused):
            raise LedgersDiffer(
                str(record["evaluation_id"]),
                f"it stands in {self._first.name}, and {self._second.name} refuses it ({result.field}: {result.rule})",
            )
        self._compare(record, result.record)

    def _compare(self, first: Record | None, second: Record | None) -> None:
        """A policy's record is left out: each ledger says when it was registered there, and its id is its content."""
        if first is None or second is None or first["kind"] == "policy":
            return
        one, other = record_digest(first), record_digest(second)
        if one != other:
            raise LedgersDiffer(
                str(first["evaluation_id"]),
                f"{self._first.name} has the record {one[:12]}…, {self._second.name} has {other[:12]}…",
            )
