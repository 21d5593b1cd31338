"""What the gateway answers, as JSON; the OpenAPI document is made from these."""

from __future__ import annotations

import json
import time
from typing import Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from glassbox.catalogue.reading import Detail, Row, State, Summary
from glassbox.contract.events import rfc3339

Outcome = Literal["pass", "fail", "review", "incomplete"]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Accepted(_Answer):
    """The broker has the request: it will end in a record or in a dead letter."""

    evaluation_id: str
    state: Literal["accepted"] = "accepted"
    status_url: str


class Weakest(_Answer):
    """The part of a scorecard that needs a look first: one that failed, else one that missed its target, else the one
    that cost most trust."""

    judge: str
    part: str
    state: Literal["scored", "not_applicable", "failed"]
    score: str | None
    meets_target: bool | None
    cause: str | None


class EvaluationSummary(_Answer):
    """An evaluation in a list. Figures are decimal strings with 6 places, null where there is none (yet)."""

    evaluation_id: str
    tenant: str | None
    state: State
    requested_at: str
    closed_at: str | None
    outcome: Outcome | None
    trust: str | None
    coverage: str | None
    weakest: Weakest | None
    threshold: str | None = Field(description="Of the trust score, by its policy.")
    policy: str | None = Field(description="Its name.")
    model: dict[str, str | None] | None
    session: str | None = Field(description="Keyed digest of the session id, as on the record.")
    policy_digest: str | None
    supersedes: str | None
    judge_score: str | None = Field(None, description="With the filter `judge`: that judge's score.")


class EvaluationPage(_Answer):
    """`next`: the cursor of the next page; null where this is the last."""

    items: list[EvaluationSummary]
    next: str | None


class Waiting(_Answer):
    """A kind of judge that has not answered yet."""

    kind: str
    waiting_s: float


class DeadLetter(_Answer):
    """Why a request, or a message about it, was refused. `letter`: as `glassbox dead-letters` names it."""

    letter: str
    reason: str
    field: str
    detail: str
    source_topic: str
    attempt: int
    first_seen: str


class CallbackState(_Answer):
    """How far a callback is that a request has asked for; its address is not shown. `result`: of the last attempt, the
    status that was answered or what came before one."""

    host: str
    event: str | None = Field(description="What it tells; null while the request has not come to its end.")
    state: Literal["waiting", "pending", "delivered", "failed"]
    attempts: int
    result: str | None
    next_attempt_at: str | None


class Receipt(_Answer):
    """Where the record stands, with its proof as the ledger gave it."""

    record_digest: str
    ledger: str
    proof: dict[str, Any]


class EvaluationStatus(_Answer):
    """What has become of an evaluation. `scorecard` is the record (Record v1); it stands for good once `state` is
    committed and `receipt` is there."""

    evaluation_id: str
    tenant: str | None
    state: State
    requested_at: str | None
    announced_at: str | None = None
    deadline_at: str | None = None
    waiting_for: list[Waiting] = Field(default_factory=list)
    scorecard: dict[str, Any] | None = None
    receipt: Receipt | None = None
    dead_letters: list[DeadLetter] = Field(default_factory=list)


class Evaluation(EvaluationStatus):
    """All that is known of an evaluation. `callbacks`: who waits to be told, the newest first."""

    callbacks: list[CallbackState] = Field(default_factory=list)


class LineOutcome(_Answer):
    """What became of one line of a batch: accepted (202), or the problem. `line`: its place in the body, from 1; blank
    lines are counted and have no outcome."""

    line: int
    status: int
    evaluation_id: str | None = None
    status_url: str | None = None
    problem: dict[str, Any] | None = None


def status_url(evaluation_id: str, tenant: str | None, below: str = "") -> str:
    """Where an evaluation is read, or what lies `below` it. `tenant`: as its reader must name it; None: need not."""
    return f"/v1/evaluations/{evaluation_id}{below}" + ("" if not tenant else f"?tenant={quote(tenant, safe='')}")


def figure(millionths: int | None) -> str | None:
    """A decimal string with 6 places."""
    return None if millionths is None else f"{millionths // 1_000_000}.{millionths % 1_000_000:06d}"


def of_summary(item: Summary) -> EvaluationSummary:
    row, policy = item.row, item.policy or {}
    return EvaluationSummary(
        evaluation_id=row["evaluation_id"],
        tenant=row["tenant"] or None,
        state=item.state,
        requested_at=rfc3339(row["requested_at"]),
        closed_at=None if row["closed_at"] is None else rfc3339(row["closed_at"]),
        outcome=row["outcome"],
        trust=figure(row["trust"]),
        coverage=figure(row["coverage"]),
        weakest=item.weakest and Weakest(**{name: item.weakest[name] for name in Weakest.model_fields}),
        threshold=policy.get("threshold"),
        policy=policy.get("name"),
        model={"provider": row["provider"], "name": row["model"]} if row["model"] is not None else None,
        session=row["session"],
        policy_digest=row["policy_digest"],
        supersedes=row["supersedes"],
        judge_score=figure(item.score),
    )


def evaluation(tenant: str, evaluation_id: str, found: Detail) -> Evaluation:
    asked = list(map(_callback, found.callbacks))
    return Evaluation(**dict(status(tenant, evaluation_id, found)), callbacks=asked)


def status(tenant: str, evaluation_id: str, found: Detail) -> EvaluationStatus:
    announced, deadline, card = found.announced_at, found.deadline_ms, found.card
    now = time.time_ns() // 1_000_000
    waiting = max(0, now - announced) / 1000 if announced is not None else 0.0
    receipt = None
    if card is not None and card["proof"] is not None:
        receipt = Receipt(record_digest=card["record_digest"], ledger=card["ledger"], proof=json.loads(card["proof"]))
    return EvaluationStatus(
        evaluation_id=evaluation_id,
        tenant=tenant or None,
        state=found.state,
        requested_at=None if found.row is None else rfc3339(found.row["requested_at"]),
        announced_at=None if announced is None else rfc3339(announced),
        deadline_at=None if announced is None or deadline is None else rfc3339(announced + deadline),
        waiting_for=[Waiting(kind=kind, waiting_s=waiting) for kind in found.missing]
        if found.state == "judging"
        else [],
        scorecard=None if card is None else json.loads(card["record"]),
        receipt=receipt,
        dead_letters=[
            DeadLetter(
                letter=f"{letter['partition']}/{letter['position']}",
                reason=letter["reason"],
                field=letter["field"],
                detail=letter["detail"],
                source_topic=letter["source_topic"],
                attempt=letter["attempt"],
                first_seen=rfc3339(letter["first_seen"]),
            )
            for letter in found.letters
        ],
    )


def _callback(row: Row) -> CallbackState:
    ended: Literal["delivered", "failed"] = "delivered" if row["delivered"] else "failed"
    due = row["due_at"]
    return CallbackState(
        host=row["host"],
        event=row["event"],
        state="waiting" if row["event"] is None else "pending" if due is not None else ended,
        attempts=row["attempts"],
        result=row["result"],
        next_attempt_at=None if due is None else rfc3339(due),
    )


def just_accepted(tenant: str, evaluation_id: str, at: int) -> Evaluation:
    """Accepted a moment ago, and not in the catalogue yet. `at`: ms."""
    return Evaluation(evaluation_id=evaluation_id, tenant=tenant or None, state="accepted", requested_at=rfc3339(at))
