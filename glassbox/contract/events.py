"""The messages between the roles: one model each, JSON on the topics (DESIGN: the pipeline).

None carries text of the evaluation except `JudgeTask`, whose topics are kept for days only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from glassbox.contract.composite import compose
from glassbox.contract.record import SCHEMA_VERSION, SCORECARD_FIELDS
from glassbox.contract.record import reference_record as dated_reference
from glassbox.contract.request import Model, TaskInput
from glassbox.contract.verdict import Failed, Frozen, Verdict

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Code = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Identifier = Annotated[str, Field(min_length=1, max_length=128)]
LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: later moments cannot be written in RFC 3339."""
Timestamp = Annotated[int, Field(ge=0, le=LATEST)]
"""Milliseconds since 1970 by the broker (or, on the embedded broker, by our own producer), up to the year 9999."""


def rfc3339(milliseconds: int) -> str:
    """RFC 3339 in UTC with milliseconds: how broker timestamps stand on the record."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


class Source(Frozen):
    """Where a request stands in the log."""

    topic: str
    partition: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)]


class JudgeTask(Frozen):
    """intake -> one worker kind. `deadline_s` counts from the task's append to its topic."""

    evaluation_id: Identifier
    request_digest: Digest
    policy_digest: Digest
    intake_run: str
    deadline_s: float
    settings: dict[str, dict[str, Any]]
    input: TaskInput


class Announced(Frozen):
    """intake -> join: an evaluation is open, its tasks are in the log. `deadline_s` counts from this event's append.

    `policy` is the canonical policy, whole, so that a policy change in mid-flight mixes nothing. `skipped`: why nothing
    is judged; `kinds` is then empty, and this event closes the evaluation that it opens.
    """

    type: Literal["announced"] = "announced"
    evaluation_id: Identifier
    request_digest: Digest
    intake_run: str
    requested_at: Timestamp
    model: Model | None
    session: Digest | None
    tenant: str | None
    supersedes: str | None
    source: Source
    kinds: tuple[str, ...]
    deadline_s: float
    policy: dict[str, Any]
    policy_digest: Digest
    skipped: Literal["sampled_out", "budget_spent"] | None = None


class Usage(Frozen):
    """What a model, by the name that it was asked under, took: calls, and tokens as its endpoint reported them or as
    they were estimated."""

    model: str
    calls: Annotated[int, Field(ge=0)]
    prompt_tokens: Annotated[int, Field(ge=0)]
    completion_tokens: Annotated[int, Field(ge=0)]

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Judged(Frozen):
    """worker -> join: one kind's verdicts for one task. `evidence_digest` is null where none could be stored; `usage`:
    what judging it took."""

    type: Literal["judged"] = "judged"
    evaluation_id: Identifier
    request_digest: Digest
    policy_digest: Digest
    intake_run: str
    kind: str
    verdicts: tuple[Verdict, ...]
    evidence_digest: Digest | None = None
    usage: tuple[Usage, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether any part failed: such an answer counts only for the intake run that was announced."""
        return any(isinstance(verdict, Failed) for verdict in self.verdicts)


class DeadlinePassed(Frozen):
    """deadline timer -> join: close what is open, if the log's own time agrees."""

    type: Literal["deadline_passed"] = "deadline_passed"
    evaluation_id: Identifier


Result = Annotated[Announced | Judged | DeadlinePassed, Field(discriminator="type")]
RESULT: TypeAdapter[Announced | Judged | DeadlinePassed] = TypeAdapter(Result)


class Scorecard(Frozen):
    """join -> committer, catalogue: Record v1 and the tenant. The committer checks the record's own rules."""

    type: Literal["scorecard"] = "scorecard"
    tenant: str | None
    record: dict[str, Any]


class Claim(Frozen):
    """join -> committer: another announcement came under an id that has its scorecard; the ledger decides."""

    type: Literal["claim"] = "claim"
    evaluation_id: Identifier
    request_digest: Digest
    source: Source
    tenant: str | None


class Reference(Frozen):
    """A run to be put on the ledger: its record."""

    type: Literal["run"] = "run"
    tenant: str | None
    record: dict[str, Any]


class Review(Frozen):
    """gateway -> committer, catalogue: whether a person agrees with one part of a scorecard, and the record of that,
    which points at the scorecard's. What the person wrote is in the evidence store, where it can be erased.

    `met`: what the scorecard says of the part's target. `reviewer`: keyed digest of who it was.
    """

    type: Literal["review"] = "review"
    tenant: str | None
    record: dict[str, Any]
    judge: Code
    part: Code
    agrees: bool
    met: bool | None
    method_digest: Digest | None
    reviewer: Digest


class PolicyRegistration(Frozen):
    """A policy to be registered: its canonical form and its record."""

    type: Literal["policy"] = "policy"
    policy: dict[str, Any]
    record: dict[str, Any]


Entry = Scorecard | Claim | Reference | Review | PolicyRegistration
ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="type")])


class Receipt(Frozen):
    """committer, intake -> catalogue: the record that stands under an id, its digest, where it is and its proof.

    `result`: created, exists, or duplicate (the same request was judged before; this is the record that stands).
    `proof` is the ledger backend's own.
    """

    evaluation_id: Identifier
    result: Literal["created", "exists", "duplicate"]
    record: dict[str, Any]
    record_digest: Digest
    ledger: str
    proof: dict[str, Any]
    tenant: str | None = None


def scorecard_record(announced: Announced, rows: list[dict[str, Any]], evidence: str, closed_at: int) -> dict[str, Any]:
    """Record v1 of an evaluation: a pure function of logged events.

    `rows`: one `verdict.part_row` an enabled part; `evidence`: the evidence digest; `closed_at`: the closing
    event's broker timestamp in milliseconds.
    """
    fields = {
        "kind": "scorecard",
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": announced.evaluation_id,
        "request_digest": announced.request_digest,
        "evidence_digest": evidence,
        "session": announced.session,
        "policy_digest": announced.policy_digest,
        "model": announced.model.model_dump() if announced.model else None,
        "requested_at": rfc3339(announced.requested_at),
        "closed_at": rfc3339(closed_at),
        "supersedes": announced.supersedes,
        **compose(rows, announced.policy),
    }
    return {name: fields[name] for name in SCORECARD_FIELDS}


def reference_record(kind: str, digest: str, created_at: int, refers_to: str | None = None) -> dict[str, Any]:
    """The record of a run, review or policy; `created_at` in milliseconds by the broker or our own clock."""
    return dated_reference(kind, digest, rfc3339(created_at), refers_to)
