"""Vectors of policies: those shipped, others that the arithmetic can be done by, and edits that must be refused."""

from typing import Any

from tests.vectors.composite import OFF, OWN_PART, POLICIES
from tests.vectors.record import ABSENT, edit
from tests.vectors.reference import JSON, canonical, digest

OTHERS: dict[str, JSON] = {  # canonical policies that nobody vouches for
    "no judge": {**POLICIES["default"], "judges": {}},
    "more than the arithmetic reads": {
        **POLICIES["default"],
        "note": {"\u20ac": [0.1, 1e21, True], "\U0001f600": -0.0, "\ufb33": "\u2028"},
    },
    "bare": {
        "threshold": "1.000000",
        "min_coverage": "0.000000",
        "abstention": "ignore",
        "vetoes": ["unheard_of"],
        "review_on": ["b", "a", "a"],
        "judges": {"j": {"enabled": False, "weight": "9999.999999", "parts": {}}},
    },
}

_JUDGE = ("judges", "structural_fidelity")
_PART = (*_JUDGE, "parts", "entities")
_AT_PART = "policy.judges.structural_fidelity.parts.entities"
EDITS: list[tuple[tuple[str | int, ...], Any, str]] = [  # (where in the default policy, what it becomes, field)
    *(((name,), ABSENT, f"policy.{name}") for name in (
        "threshold", "min_coverage", "abstention", "vetoes", "review_on", "judges"
    )),
    (("threshold",), "0.8", "policy.threshold"),
    (("threshold",), 0.8, "policy.threshold"),
    (("threshold",), "1.000001", "policy.threshold"),
    (("min_coverage",), None, "policy.min_coverage"),
    (("min_coverage",), "-0.500000", "policy.min_coverage"),
    (("abstention",), "Ignore", "policy.abstention"),
    (("abstention",), False, "policy.abstention"),
    (("vetoes",), "faithfulness", "policy.vetoes"),
    (("vetoes", 0), 1, "policy.vetoes[0]"),
    (("review_on", 1), "Entities", "policy.review_on[1]"),
    (("judges",), [], "policy.judges"),
    (("judges", "Own"), OFF, "policy.judges"),
    (("judges", "x" * 65), OFF, "policy.judges"),
    (("judges", ""), OFF, "policy.judges"),
    (_JUDGE, None, "policy.judges.structural_fidelity"),
    ((*_JUDGE, "enabled"), ABSENT, "policy.judges.structural_fidelity.enabled"),
    ((*_JUDGE, "enabled"), 1, "policy.judges.structural_fidelity.enabled"),
    ((*_JUDGE, "enabled"), "true", "policy.judges.structural_fidelity.enabled"),
    ((*_JUDGE, "weight"), "10000.000000", "policy.judges.structural_fidelity.weight"),
    ((*_JUDGE, "weight"), "-1.000000", "policy.judges.structural_fidelity.weight"),
    ((*_JUDGE, "weight"), "0.3", "policy.judges.structural_fidelity.weight"),
    ((*_JUDGE, "weight"), "\u0661.000000", "policy.judges.structural_fidelity.weight"),
    ((*_JUDGE, "parts"), None, "policy.judges.structural_fidelity.parts"),
    ((*_JUDGE, "parts", "a b"), OWN_PART, "policy.judges.structural_fidelity.parts"),
    ((*_JUDGE, "parts", "faithfulness"), OWN_PART, "policy.judges"),
    (_PART, [], _AT_PART),
    ((*_PART, "enabled"), None, f"{_AT_PART}.enabled"),
    ((*_PART, "weight"), ABSENT, f"{_AT_PART}.weight"),
    ((*_PART, "weight"), "1e3", f"{_AT_PART}.weight"),
    ((*_PART, "target"), ABSENT, f"{_AT_PART}.target"),
    ((*_PART, "target"), "0.95", f"{_AT_PART}.target"),
    ((*_PART, "target"), "2.000000", f"{_AT_PART}.target"),
]  # fmt: skip


def policy_vectors() -> JSON:
    return {
        "shipped": [_cited(name, document) for name, document in POLICIES.items()],
        "accepted": [_cited(name, document) for name, document in OTHERS.items()],
        "refused": [edit("default", at, value, field) for at, value, field in EDITS],
    }


def _cited(name: str, document: JSON) -> JSON:
    return {"name": name, "bytes": canonical(document), "digest": digest(document)}
