"""Intake: request -> evidence store -> judge tasks -> announcement (DESIGN §4.1 rules 3 to 5).

What stands in the evidence store under an id decides, never an earlier read: two intakes may meet the same id.

A request beyond its tenant's share goes on in the bulk lane: it is moved to that lane's own topic of requests, where
it may wait for the judges, no clock running, without anybody else waiting behind it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from glassbox.contract.canonical import CanonicalError
from glassbox.contract.documents import DocumentRules
from glassbox.contract.events import Announced, JudgeTask, Receipt, Source
from glassbox.contract.policy import Policy
from glassbox.contract.request import ContractError, EvaluationRequest, keyed_digest, parse_request
from ledger.port import StoredRequest, Tombstone, Vault
from streams import metrics
from streams.acks import Token
from streams.admission import Admission
from streams.clock import monotonic
from streams.dead_letters import Reason, bury
from streams.ports import Outbox, Record, TooLarge
from streams.shares import Shares
from streams.spending import Gate
from streams.store import patiently
from streams.topics import BULK_REQUESTS, MESSAGE_MAX, RECEIPTS, REQUESTS, RESULTS, judge_topic
from streams.tracing import about

_MOVED = "moved_from"
"""Header of a request that intake moved to the bulk lane: its PARTITION/OFFSET on `glassbox.requests`."""
_OVERHEAD = 256 * 1024
"""More than settings, policy, metadata and headers can add to a request's own bytes in a task or announcement."""


@dataclass(frozen=True)
class Intake:
    """`needs`: worker kind -> the `JudgeInput` fields that its judge reads. `default_policy` judges requests that
    name none. `id_key`: the secret under which ids are derived and session ids are hidden. `admission`: when requests
    wait for the judges. `shares`: which requests stay in the main lane. `documents`: which texts requests may refer
    to. `gate`: which requests are judged."""

    outbox: Outbox
    vault: Vault
    policies: Mapping[str, Policy]
    default_policy: str
    needs: Mapping[str, frozenset[str]]
    id_key: bytes
    admission: Admission
    shares: Shares
    documents: DocumentRules = field(default_factory=DocumentRules)
    gate: Gate = field(default_factory=Gate)
    _turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    async def handle(self, record: Record, token: Token) -> None:
        """Finish one request. Returning means that it may be acknowledged; raising means that it must not."""
        self.admission.clock.observe(record.timestamp)
        request: EvaluationRequest | None = None
        try:
            parsed = parse_request(record.value, self.policies)
            metrics.UNKNOWN_FIELDS.inc(len(parsed.unknown))
            request = parsed.request
            self.documents.check(request)
            content = request.canonical()
        except (ContractError, CanonicalError) as error:
            await self._refuse(record, Reason("contract", error.field, error.reason), request)
            return
        evaluation_id = request.evaluation_id or keyed_digest(self.id_key, content)
        if len(content) + _OVERHEAD > MESSAGE_MAX:
            await self._refuse(record, Reason("too_large", "body", f"{len(content)} bytes in canonical form"), request)
            return
        if request.supersedes and await patiently(lambda: self.vault.receipt(request.supersedes or "")) is None:
            await self._refuse(record, Reason("contract", "supersedes", "an evaluation with a record"), request)
            return
        about(evaluation_id)
        async with self._turn(record.topic, evaluation_id):
            await self._go_on(record, token, request, evaluation_id, content)

    def _turn(self, topic: str, evaluation_id: str) -> asyncio.Lock:
        """Requests under one id take turns in the order of the log, so that the first of them is the one that
        stands. Between processes the partition keeps that order for producers that use the id as key."""
        return self._turns.setdefault((topic, evaluation_id), asyncio.Lock())

    async def _go_on(
        self, record: Record, token: Token, request: EvaluationRequest, evaluation_id: str, content: bytes
    ) -> None:
        bulk = record.topic == BULK_REQUESTS.name
        stays = bulk or self.shares.within(request.tenant, record.partition, record.timestamp)
        stands = await self._look(record, request, evaluation_id, content)
        if stands is not None and not stays:
            await self._move(record)  # after the look: the first request under an id is the first here
            return
        deadline_s = float(self._policy(request).deadline_s)
        if stands is not None and await self.admission.wait(deadline_s, token.live, bulk=bulk):
            stands = await self._look(record, request, evaluation_id, content)  # that took a while
        if stands is not None and token.live():
            await self._announce(record, token, request, evaluation_id, stands)

    async def _look(
        self, record: Record, request: EvaluationRequest, evaluation_id: str, content: bytes
    ) -> StoredRequest | None:
        """What stands under the id, if it is to be judged; None where the request has come to its end here."""
        # the put decides: the object that stands after it is ours, or what was there
        stands = await patiently(lambda: self.vault.put_request(evaluation_id, content, record.timestamp))
        if isinstance(stands, Tombstone):
            reason, source = Reason("erased"), source_of(record)
            named = {"evaluation_id": evaluation_id, "tenant": request.tenant}
            await bury(self.outbox, record, reason, **named, source=source, with_content=False)
            metrics.REQUESTS.labels(result="erased").inc()
            return None
        receipt = await patiently(lambda: self.vault.receipt(evaluation_id))
        if receipt is not None and receipt["record"]["request_digest"] != stands.digest:
            lost = "the ledger has a record of another request than the evidence store"
            await self._refuse(record, Reason("request_lost", "", lost), request, evaluation_id)
        elif stands.request != content:
            reused = "this id was used before, for another content"
            await self._refuse(record, Reason("id_reused", "evaluation_id", reused), request, evaluation_id)
        elif receipt is not None:
            again = Receipt.model_validate({**receipt, "result": "duplicate"})
            await self.outbox.send(RECEIPTS, evaluation_id, again.model_dump_json().encode())
            metrics.REQUESTS.labels(result="answered").inc()
        else:
            return stands
        return None

    async def _move(self, record: Record) -> None:
        """To the bulk lane, as it is. What it becomes there still says where the producer put it."""
        headers = {_MOVED: f"{record.partition}/{record.offset}"}
        for name in ("tenant", "attempt", "original"):  # the last two of a request that was redriven
            if name in record.headers:
                headers[name] = record.headers[name].decode("utf-8", "replace")
        await self.outbox.send(BULK_REQUESTS, record.key, record.value, headers=headers, partition=record.partition)
        metrics.REQUESTS.labels(result="bulk").inc()

    def _policy(self, request: EvaluationRequest) -> Policy:
        return self.policies[request.policy or self.default_policy]

    async def _announce(
        self, record: Record, token: Token, request: EvaluationRequest, evaluation_id: str, stands: StoredRequest
    ) -> None:
        policy, bulk = self._policy(request), record.topic == BULK_REQUESTS.name
        run = secrets.token_hex(8)
        skipped = await self.gate.skips(request, evaluation_id, self.admission.clock.now())
        if not token.live():
            return
        tasks = {
            kind: JudgeTask(
                evaluation_id=evaluation_id,
                request_digest=stands.digest,
                policy_digest=policy.digest,
                intake_run=run,
                deadline_s=float(policy.deadline_s),
                settings=policy.kind_settings(kind),
                input=request.judge_input(self.needs[kind]),
            )
            for kind in (policy.kinds() if skipped is None else ())
        }
        announced = Announced(
            evaluation_id=evaluation_id,
            request_digest=stands.digest,
            intake_run=run,
            requested_at=stands.requested_at,
            model=request.model,
            session=keyed_digest(self.id_key, request.session_id.encode()) if request.session_id else None,
            tenant=request.tenant,
            supersedes=request.supersedes,
            source=source_of(record),
            kinds=tuple(tasks),
            deadline_s=float(policy.deadline_s),
            policy=policy.document,
            policy_digest=policy.digest,
            skipped=skipped,
        )
        try:
            async with asyncio.TaskGroup() as group:  # every task is in the log before the announcement is
                for kind, task in tasks.items():
                    value = task.model_dump_json(exclude_none=True).encode()
                    group.create_task(self.outbox.send(judge_topic(kind, bulk=bulk), evaluation_id, value))
            sent = monotonic()
            appended_at = await self.outbox.send(RESULTS, evaluation_id, announced.model_dump_json().encode())
        except* TooLarge as errors:
            reason = Reason("too_large", "body", str(errors.exceptions[0]))
            await self._refuse(record, reason, request, evaluation_id)
        else:
            self.admission.clock.acknowledged(appended_at, sent)
            metrics.REQUESTS.labels(result=skipped or "announced").inc()

    async def _refuse(
        self,
        record: Record,
        reason: Reason,
        request: EvaluationRequest | None = None,
        evaluation_id: str | None = None,
    ) -> None:
        # one that cannot be read is still its tenant's, where the gateway has said whose it is
        said = record.headers.get("tenant", b"").decode("utf-8", "replace")
        tenant = request.tenant if request else said or None
        await bury(self.outbox, record, reason, evaluation_id=evaluation_id, tenant=tenant, source=source_of(record))
        metrics.REQUESTS.labels(result=reason.code).inc()


def source_of(record: Record) -> Source:
    """Where the producer put a request, also when intake has moved it since."""
    moved = re.fullmatch(rb"([0-9]{1,9})/([0-9]{1,18})", record.headers.get(_MOVED, b""))
    if record.topic == BULK_REQUESTS.name and moved:
        return Source(topic=REQUESTS.name, partition=int(moved[1]), offset=int(moved[2]))
    return Source(topic=record.topic, partition=record.partition, offset=record.offset)
