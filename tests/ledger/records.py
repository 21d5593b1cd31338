"""Records that keep every rule, for tests that need some."""

from typing import Any

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.contract.composite import compose
from glassbox.contract.policy import Policy
from glassbox.contract.record import evidence_digest

POLICY = Policy(name="default")
CREATED_AT = "2026-01-31T09:00:00.000Z"


def scorecard(evaluation_id: str, *, score: str = "0.912345", **changes: Any) -> dict[str, Any]:
    """A scorecard under POLICY with one figure for every part; `changes` replace fields that need no arithmetic."""
    parts = [
        {
            "judge": "",
            "part": part,
            "state": "scored",
            "score": score,
            "low": score,
            "high": score,
            "cause": None,
            "meets_target": None,
            "method_digest": sha256_hex(part.encode()),
        }
        for part in POLICY.parts()
    ]
    return {
        "kind": "scorecard",
        "schema_version": "1",
        "evaluation_id": evaluation_id,
        "request_digest": sha256_hex(evaluation_id.encode()),
        "evidence_digest": evidence_digest({}),
        "session": None,
        "policy_digest": POLICY.digest,
        "model": {"provider": "acme", "name": "model-1"},
        "requested_at": "2026-01-31T09:30:00.000Z",
        "closed_at": "2026-01-31T09:30:01.250Z",
        "supersedes": None,
        **compose(parts, POLICY.document),
        **changes,
    }


def salted_digest(salt: bytes, content: Any) -> str:
    return sha256_hex(salt + canonical(content))
