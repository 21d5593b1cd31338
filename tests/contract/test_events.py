"""Messages come back from JSON as they were, and the record that they make keeps every rule."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from glassbox.contract.canonical import canonical
from glassbox.contract.events import (
    ENTRY,
    RESULT,
    reference_record,
    rfc3339,
    scorecard_record,
)
from glassbox.contract.policy import Policy
from glassbox.contract.record import check_record, evidence_digest
from glassbox.contract.verdict import FAILED, NOT_APPLICABLE, Failed, NotApplicable, Scored, part_row
from tests.contract.builders import (
    DIGEST,
    ENTRIES,
    JUDGED,
    METHOD,
    POLICIES,
    RECEIPT,
    RESULTS,
    SOURCE,
    TASK,
    announced,
    rows,
    scorecard,
)

POLICY = POLICIES["default"]


@pytest.mark.parametrize("event", RESULTS, ids=lambda event: event.type)
def test_results_come_back(event: Any) -> None:
    assert RESULT.validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.type)
def test_entries_come_back(entry: Any) -> None:
    assert ENTRY.validate_json(entry.model_dump_json()) == entry


@pytest.mark.parametrize("message", [TASK, RECEIPT], ids=lambda message: type(message).__name__)
def test_tasks_and_receipts_come_back(message: BaseModel) -> None:
    assert type(message).model_validate_json(message.model_dump_json()) == message


@pytest.mark.parametrize("message", [*RESULTS, *ENTRIES, TASK, RECEIPT], ids=lambda message: type(message).__name__)
def test_a_message_does_not_change_and_takes_no_other_field(message: BaseModel) -> None:
    name = next(iter(type(message).model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(message, name, "x")
    document = {**json.loads(message.model_dump_json()), "note": "x"}
    with pytest.raises(ValidationError, match="Extra inputs"):
        type(message).model_validate(document)


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"[]", b'{"type":"judged"}', b'{"type":"other"}', b"\xff", b'{"type":"claim"}']
)
def test_anything_else_is_a_validation_error(raw: bytes) -> None:
    for union in (RESULT, ENTRY):
        with pytest.raises(ValidationError):
            union.validate_json(raw)


def test_failed_is_seen() -> None:
    assert not JUDGED.failed
    crashed = (*JUDGED.verdicts, Failed(part="answer_relevancy", cause="crashed"))
    assert JUDGED.model_copy(update={"verdicts": crashed}).failed


@pytest.mark.parametrize(
    ("milliseconds", "written"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
        (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_rfc3339(milliseconds: int, written: str) -> None:
    assert rfc3339(milliseconds) == written


@pytest.mark.parametrize("milliseconds", [-1, 253_402_300_800_000])
def test_a_time_that_no_record_can_hold_is_refused_when_announced(milliseconds: int) -> None:
    with pytest.raises(ValidationError, match="requested_at"):
        announced(POLICY, requested_at=milliseconds)


shares = st.floats(0, 1)
verdict_makers = st.one_of(
    st.tuples(shares, shares, shares)
    .map(sorted)
    .map(lambda v: lambda p: Scored.of(p, v[1], low=v[0], high=v[2], method=METHOD)),
    st.sampled_from(sorted(NOT_APPLICABLE)).map(lambda cause: lambda p: NotApplicable(part=p, cause=cause)),
    st.sampled_from(sorted(FAILED)).map(lambda cause: lambda p: Failed(part=p, cause=cause)),
)


@settings(max_examples=50)
@given(
    st.sampled_from(sorted(POLICIES)),
    st.lists(verdict_makers, min_size=7, max_size=7),
    st.integers(0, 253_402_300_799_999),
    st.booleans(),
)
def test_a_record_of_any_verdicts_keeps_every_rule(name: str, makers: list[Any], closed_at: int, bare: bool) -> None:
    policy = POLICIES[name]
    changes: dict[str, Any] = {"model": None, "session": None, "supersedes": "e0"} if bare else {}
    verdicts = [make(part) for make, part in zip(makers, policy.parts(), strict=False)]
    record = scorecard_record(
        announced(policy, **changes), [part_row(v) for v in verdicts], evidence_digest({}), closed_at
    )
    check_record(record, policy.document)
    assert json.loads(canonical(record)) == record


def test_the_record_is_a_function_of_the_logged_events() -> None:
    """Another tenant, intake run or source position changes no byte; the order of the verdicts neither."""
    plain = canonical(scorecard())
    other = announced(POLICY, tenant="other", intake_run="r2", source=SOURCE, deadline_s=1.0, kinds=())
    evidence = evidence_digest({"grounding": DIGEST})
    assert canonical(scorecard_record(other, rows(POLICY)[::-1], evidence, 1_767_225_603_456)) == plain
    again = Policy.from_document(POLICY.document)
    assert canonical(scorecard(again)) == plain


def test_the_record_says_what_was_announced() -> None:
    record = scorecard()
    announcement = announced(POLICY)
    assert record["requested_at"] == "2026-01-01T00:00:00.123Z"
    assert record["closed_at"] == "2026-01-01T00:00:03.456Z"
    assert record["model"] == {"provider": "openai", "name": "gpt-x"}
    for name in ("evaluation_id", "request_digest", "policy_digest", "session", "supersedes"):
        assert record[name] == getattr(announcement, name)
    assert record["evidence_digest"] == evidence_digest({"grounding": DIGEST})


@pytest.mark.parametrize("kind", ["run", "review", "policy"])
def test_reference_records_keep_every_rule(kind: str) -> None:
    record = reference_record(kind, DIGEST, 5, refers_to="e")
    check_record(record, None)
    assert record["evaluation_id"] == f"{kind}:{DIGEST}"
