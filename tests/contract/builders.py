"""Sound events, rows and records for the tests of the contract."""

from typing import Any

from glassbox.contract.events import (
    Announced,
    Claim,
    DeadlinePassed,
    Judged,
    JudgeTask,
    PolicyRegistration,
    Receipt,
    Reference,
    Review,
    Scorecard,
    Source,
    reference_record,
    scorecard_record,
)
from glassbox.contract.policy import Policy, load_policies
from glassbox.contract.record import evidence_digest, record_digest
from glassbox.contract.request import GivenDocument, GivenPassage, Model, TaskInput
from glassbox.contract.verdict import Method, NotApplicable, Scored

POLICIES = load_policies("")
DIGEST = "ab" * 32


def row(
    part: str, score: str | None = "1.000000", *, low: str | None = None, cause: str | None = None
) -> dict[str, Any]:
    """A part as `part_row` makes it: scored by default, `no_*` and the like not_applicable, other causes failed."""
    state = "scored" if cause is None else "failed" if cause in ("timeout", "crashed") else "not_applicable"
    figures = {"score": score, "low": low or score, "high": score} if cause is None else dict.fromkeys(FIGURES)
    return {"part": part, "state": state, **figures, "cause": cause, "method_digest": DIGEST}


FIGURES = ("score", "low", "high")


def rows(policy: Policy, **scores: str | None) -> list[dict[str, Any]]:
    """A row for every enabled part: 1.000000 unless `scores` says another figure, or a cause in place of one."""
    made = []
    for part in policy.parts():
        given = scores.get(part, "1.000000")
        assert given is not None
        made.append(row(part, given) if given[0].isdigit() else row(part, cause=given))
    return made


def announced(policy: Policy, **changes: Any) -> Announced:
    fields: dict[str, Any] = {
        "evaluation_id": "evaluation-1",
        "request_digest": "01" * 32,
        "intake_run": "run-1",
        "requested_at": 1_767_225_600_123,
        "model": Model(provider="openai", name="gpt-x"),
        "session": "02" * 32,
        "tenant": "acme",
        "supersedes": None,
        "source": Source(topic="glassbox.requests", partition=3, offset=41),
        "kinds": policy.kinds(),
        "deadline_s": 300.0,
        "policy": policy.document,
        "policy_digest": policy.digest,
    }
    return Announced(**{**fields, **changes})


def scorecard(
    policy: Policy = POLICIES["default"], *, changes: dict[str, Any] | None = None, **scores: str
) -> dict[str, Any]:
    """A sound Record v1."""
    evidence = evidence_digest({"grounding": DIGEST})
    return scorecard_record(announced(policy, **(changes or {})), rows(policy, **scores), evidence, 1_767_225_603_456)


SOURCE = Source(topic="glassbox.requests", partition=0, offset=7)
METHOD = Method(name="m", family="rules", library="glassbox", version="1")
JUDGED = Judged(
    evaluation_id="e",
    request_digest=DIGEST,
    policy_digest=DIGEST,
    intake_run="r",
    kind="grounding",
    verdicts=(
        Scored.of("faithfulness", 1 / 3, low=0.1, method=METHOD),
        NotApplicable(part="answer_relevancy", cause="noncommittal"),
    ),
    evidence_digest=DIGEST,
)
RESULTS = [
    announced(POLICIES["default"]),
    announced(POLICIES["default"], model=None, session=None, tenant=None),
    JUDGED,
    DeadlinePassed(evaluation_id="e"),
]
ENTRIES = [
    Scorecard(tenant="acme", record=scorecard()),
    Claim(evaluation_id="e", request_digest=DIGEST, source=SOURCE, tenant=None),
    Reference(tenant=None, record=reference_record("run", DIGEST, 0)),
    Review(
        tenant="acme",
        record=reference_record("review", DIGEST, 0, "e"),
        judge="semantic_faithfulness",
        part="faithfulness",
        agrees=False,
        met=True,
        method_digest=DIGEST,
        reviewer=DIGEST,
    ),
    PolicyRegistration(
        policy=POLICIES["default"].document, record=reference_record("policy", POLICIES["default"].digest, 0)
    ),
]
TASK = JudgeTask(
    evaluation_id="e",
    request_digest=DIGEST,
    policy_digest=POLICIES["default"].digest,
    intake_run="r",
    deadline_s=300.0,
    settings=POLICIES["default"].kind_settings("grounding"),
    input=TaskInput(
        query="q",
        retrieved_passages=[GivenPassage(text="a", score=1.0, id="p")],
        source_documents=[GivenDocument(text="b")],
        chunk_scores=[1.0],
    ),
)
RECEIPT = Receipt(
    evaluation_id="evaluation-1",
    result="created",
    record=scorecard(),
    record_digest=record_digest(scorecard()),
    ledger="merkle",
    proof={"leaf_index": 0},
)
