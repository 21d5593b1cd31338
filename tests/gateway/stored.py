"""An evaluation that was judged: its request and evidence in a door's store, its receipt in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassbox.contract.canonical import canonical
from glassbox.contract.record import evidence_digest
from glassbox.contract.request import EvaluationRequest
from ledger.port import StoredRequest, salted_digest
from tests.catalogue.stories import NOW, policy, receipt, record
from tests.gateway.parts import ASKED, Door

CLAIM = {
    "text": "Ada Lovelace wrote it in 1843.",
    "verdict": 0,
    "reason": "the passage says 1842",
    "answer": {"start": 0, "end": 30, "alignment": "exact"},
    "support": None,
}
FOUND = {"faithfulness": {"context": "passages", "support_method": "judge", "claims": [CLAIM]}}
SEALED = {"grounding": {"verdicts": [{"part": "faithfulness"}, {"part": "answer_relevancy"}], "evidence": FOUND}}


async def judged(
    door: Door,
    name: str = "e",
    tenant: str | None = "acme",
    at: int = NOW,
    sealed: Mapping[str, Any] = SEALED,
    asked: Mapping[str, Any] = ASKED,
    **more: Any,
) -> dict[str, Any]:
    """Its record. `sealed`: what the workers left, by kind; `more`: as `stories.record` takes it."""
    request = EvaluationRequest.model_validate({**asked, "tenant": tenant}).canonical()
    stored = await door.vault.put_request(name, request, at)
    assert isinstance(stored, StoredRequest)
    digests = {
        kind: await door.vault.put_evidence(name, kind, canonical(dict(value)), stored.salt)
        for kind, value in sealed.items()
    }
    changes = {"request_digest": salted_digest(stored.salt, request)}
    standing = record(name, at=at, changes=changes, **more) | {"evidence_digest": evidence_digest(digests)}
    door.told([policy(), receipt(name, tenant, at + 40, standing=standing)])
    return standing
