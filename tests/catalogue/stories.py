"""Messages of the topics as the pipeline writes them, for the tests of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from glassbox.catalogue.projection import Projection
from glassbox.contract.events import (
    Announced,
    Judged,
    PolicyRegistration,
    Receipt,
    Review,
    Scorecard,
    Source,
    reference_record,
    rfc3339,
)
from glassbox.contract.policy import load_policies
from glassbox.contract.record import record_digest
from glassbox.contract.request import Model
from glassbox.contract.verdict import KINDS, Failed, Scored
from streams.dead_letters import Reason, headers
from streams.ports import Record
from streams.redrive import Note
from streams.topics import DEAD_LETTERS, RECEIPTS, REQUESTS, RESULTS, SCORECARDS, Topic
from tests.contract.builders import announced, scorecard

POLICIES = load_policies("")
POLICY = POLICIES["default"]
PROJECTION = Projection(lambda request: f"derived-{request.query}", frozenset(POLICIES))
NOW = 1_767_225_600_123
SECRET = "the patient said"
"""Stands in every text; nothing of it may be in the catalogue."""


def message(topic: Topic, value: Any, *, at: int, offset: int = 0, partition: int = 0, **more: Any) -> Record:
    raw = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    return Record(topic.name, partition, offset, more.pop("key", None), raw, at, **more)


def request(name: str | None, tenant: str | None = "acme", at: int = NOW, **more: Any) -> Record:
    fields = {"query": f"{SECRET} q", "answer": f"{SECRET} a", "retrieved_passages": [f"{SECRET} p"]}
    named = {"evaluation_id": name, "tenant": tenant, "metadata": {SECRET: SECRET}}
    where = {key: more.pop(key) for key in ("offset", "partition") if key in more}
    return message(REQUESTS, {**fields, **named, **more}, at=at, **where)


def announcement(name: str, tenant: str | None = "acme", at: int = NOW + 10, **more: Any) -> Record:
    event: Announced = announced(POLICY, evaluation_id=name, tenant=tenant, **more)
    return message(RESULTS, event.model_dump(mode="json"), at=at, offset=at - NOW)


def judged(name: str, kind: str, at: int = NOW + 20, run: str = "run-1", *, failed: bool = False) -> Record:
    event = Judged(
        evaluation_id=name,
        request_digest="01" * 32,
        policy_digest=POLICY.digest,
        intake_run=run,
        kind=kind,
        verdicts=tuple(Failed(part=p, cause="timeout") if failed else Scored.of(p, 0.5) for p in KINDS[kind]),
        evidence_digest="ab" * 32,
    )
    return message(RESULTS, event.model_dump(mode="json"), at=at, offset=at - NOW)


def record(name: str, model: str | None = "gpt-x", at: int = NOW, **more: Any) -> dict[str, Any]:
    """A sound scorecard record; `more`: part -> score, and fields of the announcement under `changes`."""
    named = Model(provider="openai", name=model) if model else None
    changes = {"evaluation_id": name, "model": named, "requested_at": at, **more.pop("changes", {})}
    return scorecard(POLICY, changes=changes, **more)


def card(name: str, tenant: str | None = "acme", at: int = NOW + 30, **more: Any) -> Record:
    entry = Scorecard(tenant=tenant, record=record(name, **more))
    return message(SCORECARDS, entry.model_dump(mode="json"), at=at, offset=at - NOW)


def receipt(name: str, tenant: str | None = "acme", at: int = NOW + 40, size: int = 8, **more: Any) -> Record:
    standing = more.pop("standing", None) or record(name, **more)
    value = Receipt(
        evaluation_id=name,
        result="created",
        record=standing,
        record_digest=record_digest(standing),
        ledger="merkle",
        proof={"origin": "log", "index": 3, "tree_size": size, "path": [], "checkpoint": f"log\n{size}\n"},
        tenant=tenant,
    )
    return message(RECEIPTS, value.model_dump(mode="json"), at=at, offset=at - NOW)


def review(name: str, number: int = 0, tenant: str | None = "acme", at: int = NOW + 100, **more: Any) -> Record:
    """Of evaluation `name`. `more`: fields of the event."""
    fields = {"judge": "semantic_faithfulness", "part": "faithfulness", "agrees": True, "met": True}
    told = {**fields, "method_digest": "ab" * 32, "reviewer": f"{1:064x}", **more}
    entry = Review(tenant=tenant, record=_review_record(name, number, at), **told)
    return message(SCORECARDS, entry.model_dump(mode="json"), at=at, offset=at - NOW)


def review_receipt(name: str, number: int = 0, tenant: str | None = "acme", at: int = NOW + 100) -> Record:
    standing = _review_record(name, number, at)
    value = Receipt(
        evaluation_id=standing["evaluation_id"],
        result="created",
        record=standing,
        record_digest=record_digest(standing),
        ledger="merkle",
        proof={"origin": "log", "index": 4, "tree_size": 8, "path": [], "checkpoint": "log\n8\n"},
        tenant=tenant,
    )
    return message(RECEIPTS, value.model_dump(mode="json"), at=at + 9, offset=at - NOW)


def _review_record(name: str, number: int, at: int) -> dict[str, Any]:
    return reference_record("review", sha256(f"{name}/{number}".encode()).hexdigest(), at, name)


def policy() -> Record:
    made = PolicyRegistration(policy=POLICY.document, record=reference_record("policy", POLICY.digest, NOW))
    return message(SCORECARDS, made.model_dump(mode="json"), at=NOW - 5)


def letter(
    name: str | None,
    reason: str = "id_reused",
    tenant: str | None = "acme",
    at: int = NOW + 50,
    topic: Topic = REQUESTS,
    offset: int = 0,
    **more: str,
) -> Record:
    source = Source(topic=topic.name, partition=1, offset=7)
    named: Mapping[str, str] = headers(
        Reason(reason, **more),  # type: ignore[arg-type]
        source,
        NOW,
        name,
        tenant,
    )
    raw = {key: value.encode() for key, value in named.items()}
    return message(DEAD_LETTERS, f"{SECRET} original".encode(), at=at, offset=offset, headers=raw, key=b"x")


def note(offset: int, action: str = "redriven", at: int = NOW + 60) -> Record:
    made = Note(f"0/{offset}", action, rfc3339(at), "somebody")  # type: ignore[arg-type]
    raw = {key: value.encode() for key, value in made.headers().items()}
    return message(DEAD_LETTERS, None, at=at, offset=offset + 100, headers=raw, key=b"0/0")


def shifted(records: Iterable[Record], partition: int) -> list[Record]:
    return [replace(each, partition=partition) for each in records]
