"""The judge worker: one task in, one answer out, always (DESIGN §4.1 rules 5, 9 and 12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import ValidationError

from glassbox.contract.canonical import canonical
from glassbox.contract.events import Judged, JudgeTask, Usage
from glassbox.contract.request import JudgeInput
from glassbox.contract.spending import Spending, usage_of
from glassbox.contract.verdict import Failed, NotApplicable, Scored
from judges.port import Case, Judgement, ResponseCache
from ledger.port import (
    DocumentChanged,
    DocumentMissing,
    Documents,
    StoredRequest,
    StoreError,
    StoreUnavailable,
    Tombstone,
    Vault,
)
from streams import metrics
from streams.acks import Token
from streams.clock import BrokerClock, monotonic
from streams.dead_letters import Reason, bury
from streams.ports import Outbox, Record, TooLarge
from streams.room import NoRoom, Room
from streams.store import patiently
from streams.topics import RESULTS
from streams.tracing import about

_MARGIN = 0.1
"""Share of the remaining time kept for storing the evidence and sending the answer, at most `_MARGIN_S`."""
_MARGIN_S = 5.0

ROOM = 256 * 1024 * 1024

Verdicts = tuple[Scored | NotApplicable | Failed, ...]


class _Answer(NamedTuple):
    """`evidence`: its digest, None where none could be stored. `usage`: what judging took, whatever came of it."""

    verdicts: Verdicts
    evidence: str | None = None
    usage: tuple[Usage, ...] = ()


@dataclass(frozen=True)
class Worker:
    """`answer` judges a case and never raises (judges.run.answer bound to this kind's judge). `documents`: the texts
    that requests refer to; None: none is at hand. `room`: what the documents of all tasks under way may take.
    `spending`: what tokens cost."""

    kind: str
    answer: Callable[[Case], Awaitable[Judgement]]
    outbox: Outbox
    vault: Vault
    documents: Documents | None = None
    room: Room = field(default_factory=lambda: Room(ROOM))
    spending: Spending = field(default_factory=Spending)
    clock: BrokerClock = field(default_factory=BrokerClock)

    async def handle(self, record: Record, token: Token) -> None:
        """Answer one task. Returning means that it may be acknowledged; raising means that it must not."""
        self.clock.observe(record.timestamp)
        task = await self._parse(record)
        if task is None:
            return
        about(task.evaluation_id)
        waited = max(0.0, (self.clock.now() - record.timestamp) / 1000)
        metrics.TASK_WAIT_SECONDS.labels(kind=self.kind).observe(waited)
        left = task.deadline_s - waited
        if left <= 0:
            await self._send(task, _Answer(_all_failed(task, "expired")))
            return
        until = monotonic() + left - min(_MARGIN_S, left * _MARGIN)
        answer = await self._judge(task, until)
        if token.live():
            await self._send(task, answer)

    async def give_up(self, record: Record, token: Token) -> None:
        """Answer a task that has killed its workers, unrun."""
        task = await self._parse(record)
        if task is not None:
            await self._send(task, _Answer(_all_failed(task, "crashed")))

    async def _parse(self, record: Record) -> JudgeTask | None:
        """The task, or None where the message became a dead letter."""
        try:
            return JudgeTask.model_validate_json(record.value or b"", extra="ignore")
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            await bury(self.outbox, record, Reason("bad_task", where, first["type"]))
            return None

    async def _judge(self, task: JudgeTask, until: float) -> _Answer:
        try:
            stands = await patiently(lambda: self.vault.request(task.evaluation_id), until)
        except StoreUnavailable:
            return _Answer(_all_failed(task, "store_unavailable"))
        if isinstance(stands, Tombstone):
            return _Answer(_all_failed(task, "erased"))
        if stands is None or stands.digest != task.request_digest:
            return _Answer(_all_failed(task, "request_lost"))
        documents = sum(reference.size for reference in task.input.references())
        try:
            async with self.room.taken(documents, max(0.0, until - monotonic())):
                return await self._answer(task, stands, until)
        except NoRoom:
            return _Answer(_all_failed(task, "expired"))

    async def _answer(self, task: JudgeTask, stands: StoredRequest, until: float) -> _Answer:
        try:
            given = await self._read(task, until)
        except DocumentMissing:
            return _Answer(_all_failed(task, "document_missing"))
        except DocumentChanged:
            return _Answer(_all_failed(task, "document_changed"))
        except StoreUnavailable:
            return _Answer(_all_failed(task, "store_unavailable"))
        cache = _Cache(self.vault.cache(task.evaluation_id, stands.salt))
        started = monotonic()
        judgement = await self.answer(Case(task.evaluation_id, given, task.settings, until, cache))
        metrics.JUDGEMENT_SECONDS.labels(kind=self.kind).observe(monotonic() - started)
        usage = usage_of(judgement.evidence)
        try:
            digest = await patiently(lambda: self._store(task, judgement, stands.salt), monotonic() + _MARGIN_S)
        except StoreUnavailable:
            return _Answer(_all_failed(task, "store_unavailable"), None, usage)
        return _Answer(judgement.verdicts, digest, usage)

    async def _read(self, task: JudgeTask, until: float) -> JudgeInput:
        documents = self.documents
        if not task.input.references():
            return task.input.read({})
        if documents is None:
            raise DocumentMissing("this worker reads no documents")
        return await patiently(lambda: documents.read(task.input), until)

    async def _store(self, task: JudgeTask, judgement: Judgement, salt: bytes) -> str:
        """Evidence is in the store before the answer is in the log. Returns the digest that the record will cite."""
        for output in judgement.raw:
            await self.vault.put_raw(task.evaluation_id, output, salt)
        verdicts = [verdict.model_dump(mode="json") for verdict in judgement.verdicts]
        evidence = canonical({"kind": self.kind, "verdicts": verdicts, "evidence": judgement.evidence})
        return await self.vault.put_evidence(task.evaluation_id, self.kind, evidence, salt)

    async def _send(self, task: JudgeTask, answer: _Answer) -> None:
        judged = Judged(
            evaluation_id=task.evaluation_id,
            request_digest=task.request_digest,
            policy_digest=task.policy_digest,
            intake_run=task.intake_run,
            kind=self.kind,
            verdicts=answer.verdicts,
            evidence_digest=answer.evidence,
            usage=answer.usage,
        )
        sent = monotonic()
        try:
            appended_at = await self.outbox.send(RESULTS, task.evaluation_id, judged.model_dump_json().encode())
        except TooLarge:
            # verdicts are small unless a judge runs wild: its answer is then a crash, never silence
            judged = judged.model_copy(update={"verdicts": _all_failed(task, "crashed"), "evidence_digest": None})
            sent = monotonic()
            appended_at = await self.outbox.send(RESULTS, task.evaluation_id, judged.model_dump_json().encode())
        self.clock.acknowledged(appended_at, sent)
        metrics.COST.labels(kind=self.kind).inc(float(self.spending.cost(answer.usage) or 0))
        for verdict in judged.verdicts:
            cause = "" if isinstance(verdict, Scored) else verdict.cause
            metrics.VERDICTS.labels(part=verdict.part, state=verdict.state, cause=cause).inc()


@dataclass(frozen=True)
class _Cache:
    """The evaluation's sealed cache, whose trouble costs a call and never a verdict."""

    sealed: ResponseCache

    async def get(self, key: str) -> bytes | None:
        try:
            return await self.sealed.get(key)
        except StoreError:
            metrics.STORE_TROUBLE.inc()
            return None

    async def put(self, key: str, value: bytes) -> None:
        try:
            await self.sealed.put(key, value)
        except StoreError:
            metrics.STORE_TROUBLE.inc()


def _all_failed(task: JudgeTask, cause: str) -> Verdicts:
    return tuple(Failed(part=part, cause=cause) for part in task.settings)
