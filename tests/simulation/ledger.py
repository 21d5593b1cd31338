"""A ledger behind the product's port, as strict as the real ones and as slow and absent as the plan says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glassbox.contract.record import RecordError, check_shape, record_digest
from ledger.port import AppendResult, LedgerUnavailable, Receipt, Record, Refused, UnknownPolicy

if TYPE_CHECKING:
    from tests.simulation.world import World


class SimLedger:
    """`ledger.port.Ledger`. Like a Fabric transaction, a batch does not read its own writes."""

    name = "simulated"

    def __init__(self, world: World, policies: Sequence[str]) -> None:
        self._world = world
        self.records: dict[str, dict[str, Any]] = {}
        self.digests: dict[str, str] = {}
        self.policies, self.register_at = frozenset(policies), 0.0
        self.written: list[Callable[[dict[str, Any], bool], None]] = []

    async def append(self, records: Sequence[Record]) -> list[AppendResult]:
        return await self._do(lambda: self._append(records))

    async def read(self, evaluation_id: str) -> dict[str, Any] | None:
        return await self._do(lambda: self.records.get(evaluation_id))

    async def prove(self, evaluation_id: str) -> Receipt | None:
        return await self._do(lambda: self._receipt("exists", evaluation_id))

    async def register_policy(self, policy: Mapping[str, Any], created_at: str) -> Receipt:
        raise NotImplementedError("the policies of a simulation are known from the start")

    async def policy(self, digest: str) -> dict[str, Any] | None:
        raise NotImplementedError("nobody asks in a simulation")

    async def close(self) -> None: ...

    def _append(self, records: Sequence[Record]) -> list[AppendResult]:
        for record in records:
            if record.get("policy_digest") not in self.policies or self._world.loop.time() < self.register_at:
                raise UnknownPolicy(str(record.get("policy_digest")))
        before, results = dict(self.records), list[AppendResult]()
        for record in records:
            results.append(self._write(dict(record), before))
        return results

    def _write(self, record: dict[str, Any], before: Mapping[str, Any]) -> AppendResult:
        evaluation_id = record["evaluation_id"]
        standing = before.get(evaluation_id)
        if standing != record:
            try:
                check_shape(record)
            except RecordError as error:
                return Refused(evaluation_id, error.field, error.rule)
        if standing is not None:
            receipt = self._receipt("exists" if standing == record else "conflict", evaluation_id)
            assert receipt is not None
            return receipt
        again = evaluation_id in self.records
        self.records[evaluation_id] = record
        self.digests[evaluation_id] = record_digest(record)
        for hear in self.written:
            hear(record, again)
        receipt = self._receipt("created", evaluation_id)
        assert receipt is not None
        return receipt

    def _receipt(self, result: Any, evaluation_id: str) -> Receipt | None:
        record = self.records.get(evaluation_id)
        return record and Receipt(result, record, self.digests[evaluation_id], self.name, {})  # type: ignore[return-value]

    async def _do(self, operation: Callable[[], Any]) -> Any:
        world, answer = self._world, asyncio.get_running_loop().create_future()
        caller = world.caller()

        def arrive() -> None:
            if not caller.alive and world.chance(0.5):
                return
            if world.fault("ledger_down", 0.3):
                world.fail(0.5, answer, LedgerUnavailable("down"))
                return
            try:
                result = operation()
            except LedgerUnavailable as error:
                world.fail(world.latency(), answer, error)
                return
            if world.fault("ledger_lost_answers", 0.15):
                world.note("ledger answer lost")
                world.fail(world.latency(), answer, LedgerUnavailable("no answer"))
            else:
                world.answer(world.latency(), answer, result)

        world.after(world.latency(), arrive)
        return await answer
