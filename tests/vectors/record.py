"""Vectors of Record v1: bytes and digests of sound records, and edits that must be refused."""

import copy
import hashlib
from typing import Any

from tests.vectors.composite import DEFAULT, N_A, POLICIES, parts
from tests.vectors.reference import DIGEST, JSON, canonical, digest, reference


def scorecard(policy: JSON, rows: list[JSON], **changes: Any) -> JSON:
    rows = [{**row, "method_digest": None if row["score"] is None else DIGEST} for row in rows]
    return {
        "kind": "scorecard",
        "schema_version": "1",
        "evaluation_id": "golden-1",
        "request_digest": hashlib.sha256(b"request").hexdigest(),
        "evidence_digest": digest({"grounding": DIGEST, "structure": DIGEST}),
        "session": hashlib.sha256(b"session").hexdigest(),
        "policy_digest": digest(policy),
        "model": {"provider": "openai", "name": "gpt-x"},
        "requested_at": "2026-01-31T09:30:00.000Z",
        "closed_at": "2026-01-31T09:30:04.217Z",
        "supersedes": None,
        **reference(policy, rows),
        **changes,
    }


def reference_record(kind: str, refers_to: str | None = None) -> JSON:
    return {
        "kind": kind,
        "schema_version": "1",
        "evaluation_id": f"{kind}:{DIGEST}",
        "digest": DIGEST,
        "refers_to": refers_to,
        "created_at": "2026-01-31T10:00:00.000Z",
    }


def records() -> dict[str, tuple[str | None, JSON]]:
    direct = POLICIES["direct"]
    mixed = {"entities": "0.500000", "relations": "no_pairs", "terminology": "timeout", "llm_relevance": "0.100000"}
    return {
        "pass": ("default", scorecard(DEFAULT, parts(DEFAULT))),
        "mixed": ("default", scorecard(DEFAULT, parts(DEFAULT, **mixed))),
        "nothing applies": ("default", scorecard(DEFAULT, parts(DEFAULT, N_A), session=None, model=None)),
        "not judged at all": (
            "default",
            scorecard(DEFAULT, parts(DEFAULT, "budget_spent"), evidence_digest=digest({}), session=None),
        ),
        "a judge disabled": ("direct", scorecard(direct, parts(direct), supersedes="golden-0")),
        "text beyond ASCII": (
            "default",
            scorecard(
                DEFAULT, parts(DEFAULT), model={"provider": "\u00e9\u20ac\U0001f600", "name": 'q"\\\u0007\u2028'}
            ),
        ),
        "longest id": ("default", scorecard(DEFAULT, parts(DEFAULT), evaluation_id="A-Z.a_z:" * 16)),
        "longest text": (
            "default",
            scorecard(DEFAULT, parts(DEFAULT), model={"provider": "\U0001f600" * 256, "name": "x"}),
        ),
        "run": (None, reference_record("run")),
        "review": (None, reference_record("review", "golden-1")),
        "policy": (None, reference_record("policy")),
    }


def _judges_swapped() -> list[JSON]:
    """Rows in good order and with the right parts, two of which name each other's judge."""
    rows = scorecard(DEFAULT, parts(DEFAULT, N_A))["parts"]
    rows[0]["judge"], rows[2]["judge"] = rows[2]["judge"], rows[0]["judge"]
    return sorted(rows, key=lambda row: (row["judge"], row["part"]))


ABSENT = object()
EDITS: list[tuple[str, tuple[str | int, ...], Any, str]] = [  # (base, where, what it becomes, field of the refusal)
    *((base, (name,), ABSENT, name) for base, names in (
        ("mixed", ("kind", "evaluation_id", "request_digest", "session", "model", "parts", "trust", "reasons")),
        ("run", ("schema_version", "digest", "refers_to", "created_at")),
    ) for name in names),
    ("mixed", ("supersedes",), ABSENT, "supersedes"),
    ("mixed", ("note",), "x", "note"),
    ("run", ("trust",), None, "trust"),
    ("mixed", ("parts", 0, "note"), None, "parts[0].note"),
    ("mixed", ("parts", 2, "cause"), ABSENT, "parts[2].cause"),
    ("mixed", ("judges", 1, "coverage"), ABSENT, "judges[1].coverage"),
    ("mixed", ("model", "version"), "1", "model.version"),
    ("mixed", ("kind",), "scorecards", "kind"),
    ("mixed", ("kind",), None, "kind"),
    ("mixed", ("schema_version",), "2", "schema_version"),
    ("mixed", ("schema_version",), 1, "schema_version"),
    ("mixed", ("evaluation_id",), "", "evaluation_id"),
    ("mixed", ("evaluation_id",), "x" * 129, "evaluation_id"),
    ("mixed", ("evaluation_id",), "a b", "evaluation_id"),
    ("mixed", ("evaluation_id",), "golden-1\n", "evaluation_id"),
    ("mixed", ("evaluation_id",), "run:1", "evaluation_id"),
    ("mixed", ("request_digest",), DIGEST.upper(), "request_digest"),
    ("mixed", ("evidence_digest",), DIGEST[1:], "evidence_digest"),
    ("mixed", ("session",), "", "session"),
    ("mixed", ("policy_digest",), DIGEST, "policy_digest"),
    ("mixed", ("model",), "openai", "model"),
    ("mixed", ("model",), {}, "model.provider"),
    ("mixed", ("model", "name"), "", "model.name"),
    ("mixed", ("model", "name"), "\U0001f600" * 257, "model.name"),
    ("mixed", ("requested_at",), "2026-01-31T09:30:00Z", "requested_at"),
    ("mixed", ("requested_at",), "2026-01-31T09:30:00.000+00:00", "requested_at"),
    ("mixed", ("requested_at",), "2026-02-30T09:30:00.000Z", "requested_at"),
    ("mixed", ("requested_at",), "2026-01-31T24:00:00.000Z", "requested_at"),
    ("mixed", ("closed_at",), "2026-01-31T23:59:60.000Z", "closed_at"),
    ("mixed", ("closed_at",), "0000-01-31T09:30:00.000Z", "closed_at"),
    ("mixed", ("closed_at",), 1767225600000, "closed_at"),
    ("mixed", ("parts",), {}, "parts"),
    ("mixed", ("parts",), [], "parts"),
    ("mixed", ("parts", 0), None, "parts[0]"),
    ("mixed", ("parts", 0, "judge"), "contextual_accuracy", "parts[0].judge"),
    ("mixed", ("parts", 0, "part"), "Relevance", "parts[0].part"),
    ("mixed", ("parts", 0, "state"), "ok", "parts[0].state"),
    ("mixed", ("parts", 0, "score"), 0.1, "parts[0].score"),
    ("mixed", ("parts", 0, "score"), "0.1", "parts[0].score"),
    ("mixed", ("parts", 0, "score"), "1.000001", "parts[0].score"),
    ("mixed", ("parts", 0, "score"), "-0.000000", "parts[0].score"),
    ("mixed", ("parts", 0, "score"), None, "parts[0].score"),
    ("mixed", ("parts", 0, "low"), "0.100001", "parts[0].low"),
    ("mixed", ("parts", 0, "high"), "0.099999", "parts[0].low"),
    ("mixed", ("parts", 0, "cause"), "timeout", "parts[0].cause"),
    ("mixed", ("parts", 0, "meets_target"), True, "parts[0].meets_target"),
    ("mixed", ("parts", 0, "meets_target"), 0, "parts[0].meets_target"),
    ("mixed", ("parts", 1, "meets_target"), False, "parts[1].meets_target"),
    ("mixed", ("parts", 6, "cause"), None, "parts[6].cause"),
    ("mixed", ("parts", 6, "cause"), "Timed out", "parts[6].cause"),
    ("mixed", ("parts", 0, "method_digest"), "", "parts[0].method_digest"),
    ("mixed", ("parts", 0, "part"), "relevance", "parts"),
    ("mixed", ("parts", 1, "part"), "llm_relevance", "parts"),
    ("nothing applies", ("parts",), _judges_swapped(), "parts[0].judge"),
    ("mixed", ("judges",), [], "judges"),
    ("mixed", ("judges", 0), [], "judges[0]"),
    ("mixed", ("judges", 0, "score"), "0.999999", "judges"),
    ("mixed", ("judges", 0, "judge"), "z", "judges"),
    ("mixed", ("trust",), None, "trust"),
    ("mixed", ("trust",), "0.900000", "trust"),
    ("mixed", ("trust",), 0.9, "trust"),
    ("mixed", ("trust_low",), "0.000000", "trust_low"),
    ("mixed", ("trust_high",), "1.000000", "trust_high"),
    ("mixed", ("coverage",), "1.000000", "coverage"),
    ("mixed", ("coverage",), None, "coverage"),
    ("mixed", ("outcome",), "pass", "outcome"),
    ("mixed", ("outcome",), "unknown", "outcome"),
    ("pass", ("outcome",), "review", "outcome"),
    ("mixed", ("reasons",), [], "reasons"),
    ("mixed", ("reasons",), ["review:llm_relevance", "review:entities", "failed:terminology"], "reasons"),
    ("mixed", ("reasons", 0), "failed:terminology:x", "reasons[0]"),
    ("mixed", ("missed_targets",), ["entities", "entities", "llm_relevance"], "missed_targets"),
    ("mixed", ("missed_targets",), ["entities"], "missed_targets"),
    ("mixed", ("supersedes",), "", "supersedes"),
    ("mixed", ("supersedes",), "golden-1", "supersedes"),
    ("mixed", ("missed_targets", 0), None, "missed_targets[0]"),
    ("run", ("kind",), "scorecard", "request_digest"),
    ("run", ("kind",), "review", "evaluation_id"),
    ("run", ("schema_version",), "1.0", "schema_version"),
    ("run", ("evaluation_id",), f"review:{DIGEST}", "evaluation_id"),
    ("run", ("digest",), hashlib.sha256(b"other").hexdigest(), "evaluation_id"),
    ("run", ("refers_to",), "a b", "refers_to"),
    ("run", ("refers_to",), f"run:{DIGEST}", "refers_to"),
    ("review", ("refers_to",), f"review:{DIGEST}", "refers_to"),
    ("run", ("created_at",), None, "created_at"),
]  # fmt: skip


def record_vectors() -> JSON:
    made = records()
    return {
        "policies": {name: POLICIES[name] for name in ("default", "direct")},
        "accepted": [
            {"name": name, "policy": policy, "record": record, "bytes": canonical(record), "digest": digest(record)}
            for name, (policy, record) in made.items()
        ],
        "refused": [edit(base, at, value, field) for base, at, value, field in EDITS],
        "evidence": [
            {"by_kind": by_kind, "digest": digest(by_kind)}
            for by_kind in (
                {},
                {"grounding": DIGEST},
                {"structure": DIGEST, "grounding": hashlib.sha256(b"other").hexdigest()},
            )
        ],
    }


def edit(base: str, at: tuple[str | int, ...], value: Any, field: str) -> JSON:
    return {"base": base, "at": list(at), **({} if value is ABSENT else {"set": value}), "field": field}


def edited(record: JSON, edit: JSON) -> JSON:
    """A refused record: `record` with the value at path `at` set to `set`, or removed where there is no `set`."""
    made = copy.deepcopy(record)
    inner: Any = made
    for step in edit["at"][:-1]:
        inner = inner[step]
    if "set" in edit:
        inner[edit["at"][-1]] = edit["set"]
    else:
        del inner[edit["at"][-1]]
    return made
