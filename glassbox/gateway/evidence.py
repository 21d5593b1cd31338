"""What stands behind a scorecard, with its texts: for people who decide whether to trust an answer."""

import json
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from glassbox.contract.canonical import strict_loads
from glassbox.dossier.archive import Dossier
from glassbox.dossier.view import View, view
from glassbox.gateway.callers import Caller
from glassbox.gateway.openapi import problems
from glassbox.gateway.parts import AsyncCatalogue, EvaluationId, Parts, TenantQuery
from glassbox.gateway.problems import Problem
from ledger.port import Receipt, StoreUnavailable, salted_digest


class Inspector:
    """Texts and evidence of committed evaluations, each for its own tenant."""

    def __init__(self, parts: Parts, catalogue: AsyncCatalogue) -> None:
        self._shelf, self._catalogue = parts.shelf, catalogue

    async def dossier(self, tenant: str, evaluation_id: str) -> Dossier:
        """With its request. Raises `Problem`."""
        card = await self._catalogue.card(tenant, evaluation_id)
        record = json.loads(card["record"])
        policy = await self._catalogue.ask(lambda c: c.policy(record["policy_digest"]))
        receipt = Receipt("exists", record, card["record_digest"], card["ledger"], json.loads(card["proof"]))
        try:
            found = await self._shelf.dossier(receipt, policy)
        except StoreUnavailable:
            raise Problem("store_unavailable", "try again later") from None
        if found.erased_at is not None:
            raise Problem("no_evidence", f"the texts were erased at {found.erased_at}")
        if found.request is None or not _of(tenant, found):
            raise Problem("no_evidence", "the evidence store has no texts of this evaluation")
        return found


def _of(tenant: str, found: Dossier) -> bool:
    """Whether the stored request is the one that the record is of, and the tenant's."""
    assert found.request is not None
    content = found.request.request
    same = salted_digest(found.request.salt, content) == found.record["request_digest"]
    return same and (strict_loads(content, max_depth=64).get("tenant") or "") == tenant


def evidence_router(parts: Parts, inspector: Inspector) -> APIRouter:
    router = APIRouter()
    reader = Annotated[Caller, Depends(parts.gatekeeper.needs("read"))]

    @router.get(
        "/v1/evaluations/{evaluation_id}/evidence", response_model=View, responses=problems("read", "one", "evidence")
    )
    async def evidence(caller: reader, evaluation_id: EvaluationId, tenant: TenantQuery = None) -> Response:
        """Query, answer and passages, what each judge found in them and where, and the arithmetic of the trust score.
        Places count code points."""
        found = await inspector.dossier(caller.reads(tenant), evaluation_id)
        return Response(view(found, parts.spending).model_dump_json(), media_type="application/json")

    return router
