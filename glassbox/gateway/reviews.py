"""What people say of scorecards: taken in, exported with the texts for measuring judges, and how far judges agree."""

import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from glassbox.catalogue.reviews import ReviewSpan, Tally
from glassbox.contract.agreement import Estimate
from glassbox.contract.canonical import canonical
from glassbox.contract.events import Code, Review, reference_record, rfc3339
from glassbox.contract.request import keyed_digest
from glassbox.gateway.accepting import deliver
from glassbox.gateway.bodies import read_json
from glassbox.gateway.callers import Caller
from glassbox.gateway.evidence import Inspector, ReviewView
from glassbox.gateway.limits import InFlightBytes
from glassbox.gateway.openapi import json_body, problems
from glassbox.gateway.parts import NDJSON, AsyncCatalogue, EvaluationId, Parts, Since, TenantQuery, Until, moment
from glassbox.gateway.problems import Problem
from glassbox.gateway.shapes import status_url
from streams.topics import SCORECARDS

_PAGE = 100


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class NewReview(_Body):
    """Whether you agree with what a scorecard says of one of its parts, and why."""

    judge: Code
    part: Code
    agrees: StrictBool
    reason: Annotated[str, Field(max_length=4000)] | None = None


class ReviewAccepted(_Body):
    """The broker has the review: its record, which points at the scorecard's, will be on the ledger."""

    review: str
    evaluation_id: str
    state: Literal["accepted"] = "accepted"


class PartPeople(_Body):
    """`reviews`: what people said last of this part, each of each evaluation; `agreed`: how many of them agree. `n`: of
    a part with a target, where agreeing or not says yes or no; `kappa` is over these, null where people say only yes or
    only no. `methods`: by how many methods those were scored; of several, kappa is of all together."""

    judge: str
    part: str
    reviews: int
    agreed: int
    n: int
    kappa: Estimate | None
    methods: int


class Agreement(_Body):
    parts: list[PartPeople]


def reviews_router(
    parts: Parts, catalogue: AsyncCatalogue, inspector: Inspector, held_bytes: InFlightBytes
) -> APIRouter:
    router = APIRouter()
    gate = parts.gatekeeper
    reader = Annotated[Caller, Depends(gate.needs("read"))]

    @router.post(
        "/v1/evaluations/{evaluation_id}/reviews",
        status_code=202,
        response_model=ReviewAccepted,
        responses=problems("read", "one", "evidence", "content", "broker"),
        openapi_extra=json_body(NewReview),
    )
    async def review(
        request: Request,
        caller: Annotated[Caller, Depends(gate.needs("review"))],
        evaluation_id: EvaluationId,
        tenant: TenantQuery = None,
    ) -> Response:
        """Agree or disagree with a part of a scorecard. The scorecard's record never changes: the review gets one of
        its own, with the digest of what you say; your words lie with the evidence and are erased with it. Of several
        reviews of one part by one reviewer the newest counts."""
        whose = caller.reads(tenant)
        said = await read_json(request, held_bytes, parts.limits.body_s, NewReview)
        found = await inspector.dossier(whose, evaluation_id)
        named = [row for row in found.record["parts"] if (row["judge"], row["part"]) == (said.judge, said.part)]
        if not named:
            raise Problem("contract", "names no part of this scorecard", field="part")
        (row,) = named
        now = time.time_ns() // 1_000_000
        content = {
            "schema_version": "1",
            "evaluation_id": evaluation_id,
            "record_digest": found.receipt.record_digest,
            **said.model_dump(),
            "reviewer": caller.name,
            "created_at": now,
        }
        digest = await inspector.keep(found, canonical(content))
        entry = Review(
            tenant=whose or None,
            record=reference_record("review", digest, now, evaluation_id),
            judge=said.judge,
            part=said.part,
            agrees=said.agrees,
            met=row["meets_target"],
            method_digest=row["method_digest"],
            reviewer=keyed_digest(parts.rules.id_key, canonical(["reviewer", caller.name])),
        )
        name = str(entry.record["evaluation_id"])
        headers = {"tenant": whose} if whose else {}
        await deliver(parts.send, SCORECARDS, name.encode(), entry.model_dump_json().encode(), headers)
        evidence = status_url(evaluation_id, whose if caller.any_tenant else None, "/evidence")
        accepted = ReviewAccepted(review=name, evaluation_id=evaluation_id)
        return JSONResponse(accepted.model_dump(), 202, {"Location": evidence})

    @router.get(
        "/v1/reviews",
        response_class=StreamingResponse,
        responses={200: {"content": {NDJSON: {}}}, **problems("read", "list")},
    )
    async def reviews(caller: reader, tenant: TenantQuery = None, since: Since = None, until: Until = None) -> Response:
        """Reviewed evaluations with their texts, a line for each evaluation and reviewer, as `glassbox agreement` reads
        them: under `labels` whether the reviewer says that a part holds. Erased evaluations are left out."""
        span = ReviewSpan(caller.reads(tenant), moment("since", since), moment("until", until))
        return StreamingResponse(_lines(catalogue, inspector, span), media_type=NDJSON)

    @router.get("/v1/agreement", response_model=Agreement, responses=problems("read", "list"))
    async def agreement(
        caller: reader, tenant: TenantQuery = None, since: Since = None, until: Until = None
    ) -> Response:
        """How far the parts agree with people who reviewed them."""
        span = ReviewSpan(caller.reads(tenant), moment("since", since), moment("until", until))
        tallies = await catalogue.ask(lambda c: c.tallies(span))
        return JSONResponse(Agreement(parts=list(_people(tallies))).model_dump(mode="json"))

    return router


async def _lines(catalogue: AsyncCatalogue, inspector: Inspector, span: ReviewSpan) -> AsyncIterator[bytes]:
    after = ""
    while names := await catalogue.ask(lambda c: c.reviewed(span, after, _PAGE)):  # noqa: B023 — awaited here
        for name in names:
            try:
                found = await inspector.dossier(span.tenant, name)
            except Problem as problem:
                if problem.code in ("no_evidence", "not_found", "not_committed"):
                    continue  # its texts are gone, or it has left the catalogue
                raise
            assert found.request is not None
            request = json.loads(found.request.request) | {"evaluation_id": name}
            said = [each for each in await inspector.reviews(span.tenant, found) if _within(each, span)]
            for by in _by_reviewer(said):
                yield canonical(request | by) + b"\n"
        after = names[-1]


def _within(review: ReviewView, span: ReviewSpan) -> bool:
    late_enough = span.since is None or review.created_at >= rfc3339(span.since)
    return late_enough and (span.until is None or review.created_at < rfc3339(span.until))


def _by_reviewer(found: Sequence[ReviewView]) -> Iterator[dict[str, Any]]:
    from glassbox.agreement.reviews import holds

    ordered = sorted(found, key=lambda each: each.reviewer)
    for _, mine in groupby(ordered, key=lambda each: each.reviewer):
        newest = {(each.judge, each.part): each for each in mine}  # they come oldest first
        labels = {each.part: holds(each.met, each.agrees) for each in newest.values() if each.met is not None}
        yield {"labels": labels, "reviews": [each.model_dump(mode="json") for each in newest.values()]}


def _people(tallies: Sequence[Tally]) -> Iterator[PartPeople]:
    from glassbox.agreement.reviews import kappa_of

    for (judge, part), rows in groupby(tallies, key=lambda each: (each.judge, each.part)):
        mine = list(rows)
        told = [(each.met, each.agrees, each.n) for each in mine if each.met is not None]
        yield PartPeople(
            judge=judge,
            part=part,
            reviews=sum(each.n for each in mine),
            agreed=sum(each.n for each in mine if each.agrees),
            n=sum(n for _, _, n in told),
            kappa=kappa_of(told),
            methods=len({each.method_digest for each in mine if each.met is not None}),
        )
