"""What stands behind a scorecard, with its texts: for people who decide whether to trust an answer."""

import asyncio
import json
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from glassbox.contract.canonical import strict_loads
from glassbox.contract.events import rfc3339
from glassbox.contract.verdict import Frozen
from glassbox.dossier.archive import Dossier
from glassbox.dossier.view import View, view
from glassbox.gateway.callers import Caller
from glassbox.gateway.openapi import problems
from glassbox.gateway.parts import AsyncCatalogue, EvaluationId, Parts, TenantQuery
from glassbox.gateway.problems import Problem
from ledger.port import Receipt, StoreUnavailable, salted_digest

_AT_ONCE = 16
"""Evaluations with all their texts in memory."""


class ReviewView(Frozen):
    """What a person says of one part. `review`: the id of its record, on the ledger once it is committed. `met`:
    whether the part met its target; null without one."""

    review: str
    judge: str
    part: str
    agrees: bool
    reason: str | None
    reviewer: str
    created_at: str
    state: Literal["accepted", "committed"]
    met: bool | None


class Inspection(View):
    """All that stands behind a scorecard, and what people said of it, the oldest first."""

    reviews: tuple[ReviewView, ...]


class Inspector:
    """Texts, evidence and reviews of committed evaluations, each for its own tenant."""

    def __init__(self, parts: Parts, catalogue: AsyncCatalogue) -> None:
        self._shelf, self._catalogue = parts.shelf, catalogue
        self.turns = asyncio.Semaphore(_AT_ONCE)

    async def dossier(self, tenant: str, evaluation_id: str) -> Dossier:
        """With its request. Raises `Problem`."""
        card = await self._catalogue.card(tenant, evaluation_id)
        record = json.loads(card["record"])
        policy = await self._catalogue.ask(lambda c: c.policy(record["policy_digest"]))
        receipt = Receipt("exists", record, card["record_digest"], card["ledger"], json.loads(card["proof"]))
        try:
            found = await self._shelf.dossier(receipt, policy)
        except StoreUnavailable:
            raise _away() from None
        if found.erased_at is not None:
            raise Problem("no_evidence", f"the texts were erased at {found.erased_at}")
        if found.request is None or not _of(tenant, found):
            raise Problem("no_evidence", "the evidence store has no texts of this evaluation")
        return found

    async def keep(self, found: Dossier, review: bytes) -> str:
        """Keep a review with the evidence; its digest. Raises `Problem`."""
        try:
            return await self._shelf.put_review(found, review)
        except StoreUnavailable:
            raise _away() from None

    async def reviews(self, tenant: str, found: Dossier) -> list[ReviewView]:
        """Those whose words are kept, the oldest first. Raises `Problem`."""
        name = found.record["evaluation_id"]
        rows = await self._catalogue.ask(lambda c: c.reviews(tenant, name))
        try:
            contents = await asyncio.gather(*(self._shelf.review(found, row["digest"]) for row in rows))
        except StoreUnavailable:
            raise _away() from None
        made = []
        for row, content in zip(rows, contents, strict=True):
            if content is None:
                continue  # its entry came to the topic by another way
            said = strict_loads(content)
            made.append(
                ReviewView(
                    review=f"review:{row['digest']}",
                    **{each: said[each] for each in ("judge", "part", "agrees", "reason", "reviewer")},
                    created_at=rfc3339(row["created_at"]),
                    state="committed" if row["committed"] else "accepted",
                    met=row["met"],
                )
            )
        return made


def _away() -> Problem:
    return Problem("store_unavailable", "try again later")


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
        "/v1/evaluations/{evaluation_id}/evidence",
        response_model=Inspection,
        responses=problems("read", "one", "evidence"),
    )
    async def evidence(caller: reader, evaluation_id: EvaluationId, tenant: TenantQuery = None) -> Response:
        """Query, answer and passages, what each judge found in them and where, the arithmetic of the trust score, and
        what people said of it. Places count code points."""
        whose = caller.reads(tenant)
        async with inspector.turns:
            found = await inspector.dossier(whose, evaluation_id)
            reviews = await inspector.reviews(whose, found)
            made = Inspection(**dict(view(found, parts.spending)), reviews=tuple(reviews))
            return Response(made.model_dump_json(), media_type="application/json")

    return router
