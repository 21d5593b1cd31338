"""Record v1: what stands on the ledger, its bytes, and every rule it must keep.

Works on plain dicts with the standard library alone, because the offline verifier carries this file. The table of
fields for people is `docs/ledger-schema.md`; the golden vectors are `tests/vectors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex
from glassbox.contract.composite import OUTCOMES, compose

SCHEMA_VERSION = "1"
KINDS = ("scorecard", "run", "review", "policy")
RESERVED_PREFIXES = ("run:", "review:", "policy:")
"""Evaluation ids of records that are not scorecards; no request may use them."""

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FIGURE = re.compile(r"(0\.[0-9]{6}|1\.000000)")
_WEIGHT = re.compile(r"[0-9]{1,4}\.[0-9]{6}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z")
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_REASON = re.compile(r"[a-z][a-z0-9_]{0,63}(:[a-z][a-z0-9_]{0,63})?")
_STATES = ("scored", "not_applicable", "failed")


class RecordError(ValueError):
    """A record that breaks a rule. `field` is a path such as `parts[3].score`; `rule` says what must hold."""

    def __init__(self, field: str, rule: str) -> None:
        self.field, self.rule = field, rule
        super().__init__(f"{field}: {rule}")


def record_bytes(record: Mapping[str, Any]) -> bytes:
    """The bytes that the ledger keeps: RFC 8785 of the record."""
    return canonical(dict(record))


def record_digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of `record_bytes`, hexadecimal."""
    return sha256_hex(record_bytes(record))


def policy_digest(policy: Mapping[str, Any]) -> str:
    """SHA-256 of a canonical policy's bytes, hexadecimal."""
    return sha256_hex(canonical(dict(policy)))


def evidence_digest(by_kind: Mapping[str, str]) -> str:
    """What a record cites: SHA-256 of the RFC 8785 object {worker kind: digest of that kind's evidence}."""
    return sha256_hex(canonical(dict(by_kind)))


def reference_record(kind: str, digest: str, created_at: str, refers_to: str | None = None) -> dict[str, Any]:
    """The record of a run, review or policy, by the digest of its content. `created_at`: RFC 3339 UTC with
    milliseconds."""
    return {
        "kind": kind,
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{kind}:{digest}",
        "digest": digest,
        "refers_to": refers_to,
        "created_at": created_at,
    }


def check_record(record: Any, policy: Mapping[str, Any] | None) -> None:
    """Raise `RecordError` unless `record` is a whole Record v1 whose arithmetic follows from its parts.

    `policy` is the canonical policy that the record cites: needed for a scorecard, ignored for other kinds. Nobody
    need vouch for it: it is checked too.
    """
    check_shape(record)
    if record["kind"] != "scorecard":
        return
    if policy is None:
        raise RecordError("policy_digest", "the digest of the policy at hand, and there is none")
    check_policy(policy)
    check_scorecard(record, policy, policy_digest(policy))


def check_shape(record: Any) -> None:
    """Raise `RecordError` unless every key is there and none besides, and types, ranges, formats and orders hold."""
    if not isinstance(record, dict):
        raise RecordError("record", "an object")
    kind = record.get("kind")
    if kind not in KINDS:
        raise RecordError("kind", f"one of {', '.join(KINDS)}")
    _shape(record, _SCORECARD if kind == "scorecard" else _REFERENCE, "")
    if kind != "scorecard":
        if record["evaluation_id"] != f"{kind}:{record['digest']}":
            raise RecordError("evaluation_id", f"`{kind}:` followed by the digest")
        _of_another(record, "refers_to")
        return
    if record["evaluation_id"].startswith(RESERVED_PREFIXES):
        raise RecordError("evaluation_id", f"not beginning {', '.join(RESERVED_PREFIXES)}")
    for name, key in (("parts", ("judge", "part")), ("judges", ("judge",))):
        rows = [tuple(row[k] for k in key) for row in record[name]]
        if rows != sorted(set(rows)):
            raise RecordError(name, f"sorted by {', '.join(key)}, each once")
    for name in ("reasons", "missed_targets"):
        if record[name] != sorted(set(record[name])):
            raise RecordError(name, "sorted, each once")
    _of_another(record, "supersedes")


def check_scorecard(record: Mapping[str, Any], policy: Mapping[str, Any], digest: str) -> None:
    """Raise `RecordError` unless a scorecard of the right shape cites the policy with this digest, and its
    meets_target, judges, trust, bounds, coverage, outcome, reasons and missed targets follow from its parts.

    `policy` has passed `check_policy` before: a ledger checks one policy once and many records against it.
    """
    if record["policy_digest"] != digest:
        raise RecordError("policy_digest", "the digest of the policy at hand")
    _arithmetic(record, policy)


def check_policy(policy: Any) -> None:
    """Raise `RecordError` unless the arithmetic can be done by `policy`, a canonical policy that nobody vouches for.

    Checked is what `compose` reads, so that an auditor handed a hostile one gets a sentence; the policy's own rules
    are `glassbox.contract.policy`'s.
    """
    if not isinstance(policy, Mapping):
        raise RecordError("policy", "an object")
    for name, check in _POLICY.items():
        if name not in policy:
            raise RecordError(f"policy.{name}", "present")
        check(policy[name], f"policy.{name}")
    parts = [part for judge in policy["judges"].values() for part in judge["parts"]]
    if len(parts) != len(set(parts)):
        raise RecordError("policy.judges", "each part named once")
    try:
        canonical(dict(policy))
    except CanonicalError as error:
        raise RecordError("policy", error.reason) from None


def _arithmetic(record: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
    try:
        want = compose(record["parts"], policy)
    except ValueError as error:
        raise RecordError("parts", f"the enabled parts of the policy ({error})") from None
    by_part = {row["part"]: row for row in want["parts"]}  # by name: a false judge moves its row in the order
    for n, row in enumerate(record["parts"]):
        for key in ("judge", "meets_target"):
            if row[key] != (wanted := by_part[row["part"]][key]):
                raise RecordError(f"parts[{n}].{key}", f"{wanted!r} by the policy, not {row[key]!r}")
    for key in (
        "judges",
        "trust",
        "trust_low",
        "trust_high",
        "coverage",
        "outcome",
        "reasons",
        "missed_targets",
    ):
        if record[key] != want[key]:
            raise RecordError(key, f"{want[key]!r} by arithmetic, not {record[key]!r}")


def _of_another(record: Mapping[str, Any], name: str) -> None:
    if record[name] == record["evaluation_id"]:
        raise RecordError(name, "another record")


_Check = Callable[[Any, str], None]


def _matches(pattern: re.Pattern[str], rule: str) -> _Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise RecordError(path, rule)

    return check


def _one_of(*values: Any) -> _Check:
    def check(value: Any, path: str) -> None:
        if not any(value is v or (isinstance(v, str) and value == v) for v in values):
            raise RecordError(path, f"one of {', '.join(map(str, values))}")

    return check


def _or_null(inner: _Check) -> _Check:
    return lambda value, path: None if value is None else inner(value, path)


def _each(inner: _Check) -> _Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise RecordError(path, "a list")
        for n, item in enumerate(value):
            inner(item, f"{path}[{n}]")

    return check


def _object(fields: Mapping[str, _Check]) -> _Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise RecordError(path, "an object")
        _shape(value, fields, f"{path}.")

    return check


def _table(fields: Mapping[str, _Check]) -> _Check:
    """An object of objects, each with at least these fields."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise RecordError(path, "an object")
        for key, inner in value.items():
            _code(key, path)
            if not isinstance(inner, dict):
                raise RecordError(f"{path}.{key}", "an object")
            for name, rule in fields.items():
                if name not in inner:
                    raise RecordError(f"{path}.{key}.{name}", "present")
                rule(inner[name], f"{path}.{key}.{name}")

    return check


def _shape(value: Mapping[str, Any], fields: Mapping[str, _Check], prefix: str) -> None:
    for name in fields:
        if name not in value:
            raise RecordError(f"{prefix}{name}", "present (null where there is nothing)")
    for name in sorted(value):
        if name not in fields:
            raise RecordError(f"{prefix}{name[:80]}", "no such field in Record v1")
    for name, check in fields.items():
        check(value[name], f"{prefix}{name}")


def _part(value: Any, path: str) -> None:
    _object(_PART)(value, path)
    scored = value["state"] == "scored"
    for name in ("score", "low", "high"):
        if (value[name] is not None) != scored:
            raise RecordError(f"{path}.{name}", "a figure exactly where the part is scored")
    if scored and not value["low"] <= value["score"] <= value["high"]:
        raise RecordError(f"{path}.low", "low <= score <= high")
    if (value["cause"] is None) != scored:
        raise RecordError(f"{path}.cause", "a code exactly where the part is not scored")


def _time(value: Any, path: str) -> None:
    _matches(_TIME, "RFC 3339 UTC with milliseconds, such as 2026-01-31T09:30:00.000Z")(value, path)
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise RecordError(path, "a time that exists") from None


def _text(value: Any, path: str) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= 256:
        raise RecordError(path, "text of 1 to 256 characters")
    try:
        canonical(value)
    except CanonicalError as error:
        raise RecordError(path, error.reason) from None


_id = _matches(_ID, "1 to 128 of A-Z a-z 0-9 . _ : -")
_digest = _matches(_DIGEST, "64 lower-case hexadecimal digits")
_figure = _matches(_FIGURE, "a decimal string from 0.000000 to 1.000000 with 6 places")
_code = _matches(_CODE, "a code of lower-case letters, digits and _")
_version = _one_of(SCHEMA_VERSION)

_flag = _one_of(True, False)
_weight = _matches(_WEIGHT, "a decimal string from 0.000000 to 9999.999999 with 6 places")

_POLICY: dict[str, _Check] = {
    "threshold": _figure,
    "min_coverage": _figure,
    "abstention": _one_of("incomplete", "ignore"),
    "vetoes": _each(_code),
    "review_on": _each(_code),
    "judges": _table(
        {
            "enabled": _flag,
            "weight": _weight,
            "parts": _table({"enabled": _flag, "weight": _weight, "target": _or_null(_figure)}),
        }
    ),
}
_PART: dict[str, _Check] = {
    "judge": _code,
    "part": _code,
    "state": _one_of(*_STATES),
    "score": _or_null(_figure),
    "low": _or_null(_figure),
    "high": _or_null(_figure),
    "cause": _or_null(_code),
    "meets_target": _one_of(True, False, None),
    "method_digest": _or_null(_digest),
}
_SCORECARD: dict[str, _Check] = {
    "kind": _one_of("scorecard"),
    "schema_version": _version,
    "evaluation_id": _id,
    "request_digest": _digest,
    "evidence_digest": _digest,
    "session": _or_null(_digest),
    "policy_digest": _digest,
    "model": _or_null(_object({"provider": _text, "name": _text})),
    "requested_at": _time,
    "closed_at": _time,
    "parts": _each(_part),
    "judges": _each(_object({"judge": _code, "score": _or_null(_figure), "coverage": _figure})),
    "trust": _or_null(_figure),
    "trust_low": _or_null(_figure),
    "trust_high": _or_null(_figure),
    "coverage": _figure,
    "outcome": _one_of(*OUTCOMES),
    "reasons": _each(_matches(_REASON, "CODE or CODE:part")),
    "missed_targets": _each(_code),
    "supersedes": _or_null(_id),
}
_REFERENCE: dict[str, _Check] = {
    "kind": _one_of("run", "review", "policy"),
    "schema_version": _version,
    "evaluation_id": _id,
    "digest": _digest,
    "refers_to": _or_null(_id),
    "created_at": _time,
}
SCORECARD_FIELDS = tuple(_SCORECARD)
"""The keys of a scorecard record, in the order of the schema's table."""
REFERENCE_FIELDS = tuple(_REFERENCE)
"""The keys of a run, review or policy record."""
