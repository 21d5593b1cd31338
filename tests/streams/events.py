"""Events of an evaluation, for the tests of the roles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from glassbox.contract.events import Announced, Judged, Source
from glassbox.contract.policy import Policy, load_policies
from glassbox.contract.verdict import KINDS, Failed, Scored

POLICIES = load_policies("")
POLICY = POLICIES["offline"]
DIGEST, OTHER = "a" * 64, "b" * 64


def announced(
    evaluation_id: str = "e1",
    digest: str = DIGEST,
    run: str = "run1",
    policy: Policy = POLICY,
    offset: int = 0,
    deadline_s: float = 300.0,
) -> Announced:
    return Announced(
        evaluation_id=evaluation_id,
        request_digest=digest,
        intake_run=run,
        requested_at=1_700_000_000_000,
        model=None,
        session=None,
        tenant=None,
        supersedes=None,
        source=Source(topic="glassbox.requests", partition=0, offset=offset),
        kinds=policy.kinds(),
        deadline_s=deadline_s,
        policy=policy.document,
        policy_digest=policy.digest,
    )


def judged(
    kind: str,
    score: float | None = 0.9,
    evaluation_id: str = "e1",
    digest: str = DIGEST,
    run: str = "run1",
    policy_digest: str = POLICY.digest,
) -> Judged:
    """A kind's answer: every part with this score, or failed where it is None."""
    verdicts: Iterable[Scored | Failed] = (
        Failed(part=part, cause="timeout") if score is None else Scored.of(part, score) for part in KINDS[kind]
    )
    return Judged(
        evaluation_id=evaluation_id,
        request_digest=digest,
        policy_digest=policy_digest,
        intake_run=run,
        kind=kind,
        verdicts=tuple(verdicts),
        evidence_digest=None if score is None else "c" * 64,
    )


CITED = ("record", "policy", "settings")
"""Fields whose content has a schema or a digest of its own."""


def newer(message: Any) -> Any:
    """A message as a later minor version sends it: with a field more in each of its objects."""
    if isinstance(message, list):
        return [newer(each) for each in message]
    if not isinstance(message, dict):
        return message
    return {"since_1_7": {"n": 1}} | {name: it if name in CITED else newer(it) for name, it in message.items()}
