"""Record v1: each rule refuses, naming the field; no figure stands that does not follow from the parts."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from glassbox.contract.canonical import canonical, sha256_hex, strict_loads
from glassbox.contract.events import reference_record
from glassbox.contract.record import (
    REFERENCE_FIELDS,
    SCORECARD_FIELDS,
    RecordError,
    check_policy,
    check_record,
    evidence_digest,
    policy_digest,
    record_bytes,
    record_digest,
)
from tests.contract.builders import DIGEST, POLICIES, scorecard

POLICY = POLICIES["default"].document
SOUND = scorecard(entities="0.500000", relations="no_pairs", terminology="timeout", llm_relevance="0.100000")
REFERENCE = reference_record("run", DIGEST, 1_767_225_600_000, refers_to="evaluation-1")
Path = tuple[str | int, ...]


def shown(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict | list) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path


def objects(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from objects(item, (*path, key))


def at(record: dict[str, Any], path: Path) -> Any:
    for step in path:
        record = record[step]  # type: ignore[index]
    return record


def changed(record: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(record)
    at(made, path[:-1])[path[-1]] = value
    return made


def refused(record: Any, policy: Any = POLICY) -> RecordError:
    with pytest.raises(RecordError) as caught:
        check_record(record, policy)
    return caught.value


def test_sound_records_pass() -> None:
    check_record(SOUND, POLICY)
    for kind in ("run", "review", "policy"):
        check_record(reference_record(kind, DIGEST, 0), None)
    for name, policy in POLICIES.items():
        check_record(scorecard(policy), policy.document)
        assert name


def test_bytes_are_canonical_and_come_back() -> None:
    assert record_bytes(SOUND) == canonical(dict(reversed(SOUND.items())))
    assert strict_loads(record_bytes(SOUND)) == SOUND
    assert record_digest(SOUND) == sha256_hex(record_bytes(SOUND))
    check_record(strict_loads(record_bytes(SOUND)), strict_loads(canonical(POLICY)))


def test_fields() -> None:
    assert tuple(SOUND) == SCORECARD_FIELDS
    assert tuple(REFERENCE) == REFERENCE_FIELDS


def test_evidence_digest() -> None:
    assert evidence_digest({"b": "2", "a": "1"}) == sha256_hex(b'{"a":"1","b":"2"}')
    assert evidence_digest({}) == sha256_hex(b"{}")


@pytest.mark.parametrize("path", list(leaves(SOUND)), ids=shown)
def test_no_field_takes_another_type(path: Path) -> None:
    values: list[Any] = [0.5, 7, "", [None], {}]
    for value in values:
        assert refused(changed(SOUND, path, value)).field.startswith(shown(path))


@pytest.mark.parametrize("path", [p for p in leaves(SOUND) if at(SOUND, p) is not None], ids=shown)
def test_null_only_where_there_may_be_nothing(path: Path) -> None:
    record = changed(SOUND, path, None)
    if path[0] in ("session", "supersedes") or path[-1] == "method_digest":
        check_record(record, POLICY)
    else:
        assert shown(path[:2]) in refused(record).field or path[0] == refused(record).field


@pytest.mark.parametrize("path", list(objects(SOUND)), ids=lambda path: shown(path) or "record")
def test_every_key_is_there_and_no_other(path: Path) -> None:
    for key in at(SOUND, path):
        record = copy.deepcopy(SOUND)
        del at(record, path)[key]
        assert refused(record).field == shown((*path, key))
    error = refused(changed(SOUND, (*path, "note"), "x"))
    assert error.field == shown((*path, "note"))
    assert "no such field" in error.rule


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("kind",), "claim"),
        (("kind",), "run"),
        (("schema_version",), "2"),
        (("evaluation_id",), ""),
        (("evaluation_id",), "x" * 129),
        (("evaluation_id",), "run:1"),
        (("evaluation_id",), "policy:1"),
        (("evaluation_id",), "é"),
        (("request_digest",), "AB" * 32),
        (("request_digest",), "ab" * 31),
        (("evidence_digest",), "ab" * 32 + "\n"),
        (("session",), ""),
        (("policy_digest",), "ab" * 32),
        (("model", "name"), ""),
        (("model", "name"), "x" * 257),
        (("model", "name"), "\ud800"),
        (("requested_at",), "2026-01-01T00:00:00Z"),
        (("requested_at",), "2026-01-01 00:00:00.000Z"),
        (("requested_at",), "2026-01-01T00:00:00.000+00:00"),
        (("requested_at",), "2026-02-30T00:00:00.000Z"),
        (("requested_at",), "2026-01-01T24:00:00.000Z"),
        (("closed_at",), "2026-01-01T00:00:60.000Z"),
        (("closed_at",), "0000-01-01T00:00:00.000Z"),
        (("closed_at",), "２０２６-01-01T00:00:00.000Z"),
        (("parts", 0, "part"), "LLM"),
        (("parts", 0, "state"), "unknown"),
        (("parts", 0, "score"), "0.1"),
        (("parts", 0, "score"), "1.000001"),
        (("parts", 0, "score"), "-0.000000"),
        (("parts", 0, "score"), ".500000"),
        (("parts", 0, "meets_target"), 1),
        (("parts", 0, "cause"), "Timed out"),
        (("trust",), 0.8),
        (("coverage",), "00.500000"),
        (("outcome",), "PASS"),
        (("reasons", 0), "veto:a:b"),
        (("reasons", 0), "a reason"),
        (("missed_targets", 0), "x" * 65),
        (("supersedes",), "a b"),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_formats(path: Path, value: Any) -> None:
    field = refused(changed(SOUND, path, value)).field
    assert field == shown(path) or (path == ("kind",) and value == "run")


def test_text_is_counted_in_characters() -> None:
    check_record(changed(SOUND, ("model", "name"), "😀" * 256), POLICY)
    assert refused(changed(SOUND, ("model", "name"), "😀" * 257)).field == "model.name"


@pytest.mark.parametrize("name", ["parts", "judges", "reasons", "missed_targets"])
def test_lists_are_sorted_and_hold_each_once(name: str) -> None:
    assert len(SOUND[name]) > 1
    assert refused(changed(SOUND, (name,), SOUND[name][::-1])).field == name
    assert refused(changed(SOUND, (name,), [*SOUND[name], SOUND[name][-1]])).field == name


@pytest.mark.parametrize("name", ["parts", "judges", "reasons", "missed_targets"])
def test_a_row_less_is_noticed(name: str) -> None:
    assert refused(changed(SOUND, (name,), SOUND[name][:-1])).field == name


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("judges", 0, "score"), "0.999999"),
        (("judges", 1, "score"), None),
        (("judges", 2, "coverage"), "1.000000"),
        (("trust",), "0.900000"),
        (("trust",), None),
        (("trust_low",), "0.000000"),
        (("trust_high",), "1.000000"),
        (("coverage",), "1.000000"),
        (("outcome",), "pass"),
        (("outcome",), "review"),
        (("reasons",), []),
        (("reasons",), ["failed:terminology"]),
        (("missed_targets",), []),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_arithmetic_that_does_not_follow_names_its_key(path: Path, value: Any) -> None:
    error = refused(changed(SOUND, path, value))
    assert error.field == path[0]
    assert "by arithmetic" in error.rule


def test_a_changed_score_does_not_follow() -> None:
    record = copy.deepcopy(SOUND)
    record["parts"][0].update(dict.fromkeys(("score", "low", "high"), "0.100001"))
    assert refused(record).field == "judges"
    record["parts"][0].update(score="0.100000", low="0.090000", high="0.100000")
    assert refused(record).field == "trust_low"


@pytest.mark.parametrize("n", range(7))
def test_meets_target_follows_from_score_and_policy(n: int) -> None:
    for value in {True, False, None} - {SOUND["parts"][n]["meets_target"]}:
        error = refused(changed(SOUND, ("parts", n, "meets_target"), value))
        assert error.field == f"parts[{n}].meets_target"


def test_a_part_stands_under_its_own_judge() -> None:
    record = copy.deepcopy(SOUND)
    record["parts"][0]["judge"] = "contextual_accuracy"
    assert refused(record).field == "parts[0].judge"


def test_parts_are_the_policy_s() -> None:
    record = scorecard(POLICIES["direct"])
    assert refused({**record, "policy_digest": policy_digest(POLICY)}).field == "parts"


@pytest.mark.parametrize("name", ["score", "low", "high"])
def test_figures_stand_exactly_where_a_part_is_scored(name: str) -> None:
    for n, part in enumerate(SOUND["parts"]):
        value = None if part["state"] == "scored" else "0.500000"
        assert refused(changed(SOUND, ("parts", n, name), value)).field == f"parts[{n}].{name}"


def test_a_cause_stands_exactly_where_a_part_is_not_scored() -> None:
    for n, part in enumerate(SOUND["parts"]):
        value = "timeout" if part["state"] == "scored" else None
        assert refused(changed(SOUND, ("parts", n, "cause"), value)).field == f"parts[{n}].cause"


def test_bounds_hold_the_score() -> None:
    assert refused(changed(SOUND, ("parts", 0, "low"), "0.100001")).field == "parts[0].low"
    assert refused(changed(SOUND, ("parts", 0, "high"), "0.099999")).field == "parts[0].low"


def test_the_policy_is_the_one_cited() -> None:
    for policy in (None, POLICIES["rag"].document, {**POLICY, "threshold": "0.100000"}):
        assert refused(SOUND, policy).field == "policy_digest"


@pytest.mark.parametrize("record", [None, [], "record", 3])
def test_a_record_is_an_object(record: Any) -> None:
    assert refused(record).field == "record"


@pytest.mark.parametrize("path", list(leaves(REFERENCE)), ids=shown)
def test_reference_records_are_held_to_their_rules(path: Path) -> None:
    values: list[Any] = [0.5, "no such value!", "", [], {}]
    for value in values:
        assert refused(changed(REFERENCE, path, value), None).field == shown(path)
    record = copy.deepcopy(REFERENCE)
    del record[str(path[0])]
    assert refused(record, None).field == path[0]
    if path != ("refers_to",):
        assert refused(changed(REFERENCE, path, None), None).field == path[0]


def test_a_reference_is_named_by_its_digest() -> None:
    for value in (f"review:{DIGEST}", "run:" + "cd" * 32, DIGEST):
        assert refused(changed(REFERENCE, ("evaluation_id",), value), None).field == "evaluation_id"
    assert refused({**REFERENCE, "trust": None}, None).field == "trust"
    check_record({**REFERENCE, "refers_to": None}, None)


JUDGE: Path = ("judges", "structural_fidelity")


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("threshold",), "1/0", "policy.threshold"),
        (("threshold",), "1e999999999", "policy.threshold"),
        (("threshold",), 0.8, "policy.threshold"),
        (("min_coverage",), None, "policy.min_coverage"),
        (("abstention",), "x", "policy.abstention"),
        (("vetoes",), "faithfulness", "policy.vetoes"),
        (("review_on",), [[]], "policy.review_on[0]"),
        (("judges",), [], "policy.judges"),
        (JUDGE, None, "policy.judges.structural_fidelity"),
        ((*JUDGE, "enabled"), 1, "policy.judges.structural_fidelity.enabled"),
        ((*JUDGE, "weight"), "-1.000000", "policy.judges.structural_fidelity.weight"),
        ((*JUDGE, "weight"), "1e999999", "policy.judges.structural_fidelity.weight"),
        ((*JUDGE, "parts"), {"entities": {}}, "policy.judges.structural_fidelity.parts.entities.enabled"),
        ((*JUDGE, "parts", "entities", "target"), "NaN", "policy.judges.structural_fidelity.parts.entities.target"),
        (
            (*JUDGE, "parts", "faithfulness"),
            POLICY["judges"]["structural_fidelity"]["parts"]["entities"],
            "policy.judges",
        ),
        (("name",), "\ud800", "policy"),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_a_hostile_policy_is_refused_before_it_is_reckoned_with(path: Path, value: Any, field: str) -> None:
    """An auditor is handed the policy with the record: nobody vouches for it."""
    policy = changed(POLICY, path, value)
    with pytest.raises(RecordError) as caught:
        check_policy(policy)
    assert caught.value.field == field
    assert refused(SOUND, policy).field == field


def test_a_policy_without_a_key_is_refused() -> None:
    for name in ("threshold", "judges", "vetoes"):
        with pytest.raises(RecordError) as caught:
            check_policy({key: value for key, value in POLICY.items() if key != name})
        assert caught.value.field == f"policy.{name}"
    with pytest.raises(RecordError, match="policy: an object"):
        check_policy([])
