"""From a scorecard to a regression test: an evaluation becomes a case of a replay suite."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from glassbox.dossier.view import PartView, View, view
from glassbox.gateway import forms
from glassbox.gateway.bodies import read_json
from glassbox.gateway.callers import Caller
from glassbox.gateway.evidence import Inspector
from glassbox.gateway.limits import InFlightBytes
from glassbox.gateway.openapi import json_body, problems
from glassbox.gateway.parts import EvaluationId, Parts, TenantQuery, folder_of
from glassbox.gateway.problems import Problem
from glassbox.replay.cases import CaseError, Incident, OtherExpectation, add_case, suites_in
from glassbox.replay.suite import Failing, Observed, SuiteError, shipped

Name = Annotated[str, Field(pattern=forms.SUITE)]
Word = Annotated[str, Field(min_length=1, max_length=500)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Expectation(_Body):
    """What a right answer needs. `keywords`: what it names, each as accepted alternatives. `relevant`: places of the
    passages that hold the answer. `answerable`: false where they do not say, so that the right answer is to abstain."""

    keywords: Annotated[list[Annotated[list[Word], Field(min_length=1, max_length=20)]], Field(max_length=50)] = []
    relevant: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1000)] = []
    answerable: StrictBool = True


class NewCase(_Body):
    """Which suite, and what a right answer would be."""

    suite: Name
    expectation: Expectation = Expectation()


class CaseAnswer(_Body):
    """`added`: false where the suite had a case of this evaluation before. `folder`: of the suite below the data
    folder, as `glassbox replay run --suite` takes it."""

    suite: str
    case: str
    added: bool
    cases: int
    folder: str


class SuiteSummary(_Body):
    name: str
    cases: int
    documents: int
    digest: str
    corpus_digest: str
    folder: str


class SuiteList(_Body):
    suites: list[SuiteSummary]


def cases_router(parts: Parts, inspector: Inspector, held_bytes: InFlightBytes) -> APIRouter:
    router = APIRouter()
    gate = parts.gatekeeper

    @router.post(
        "/v1/evaluations/{evaluation_id}/case",
        status_code=201,
        response_model=CaseAnswer,
        responses={200: {"model": CaseAnswer}, **problems("read", "one", "evidence", "content", "case")},
        openapi_extra=json_body(NewCase),
    )
    async def case(
        request: Request,
        caller: Annotated[Caller, Depends(gate.needs("review"))],
        evaluation_id: EvaluationId,
        tenant: TenantQuery = None,
    ) -> Response:
        """Add question, passages and what went wrong to a suite in the data folder, which is made for its first case.
        The same evaluation is one case however often it is added; with another
        expectation it is refused. The suite keeps its own copy of the texts: erasing
        the evaluation leaves it."""
        whose = caller.reads(tenant)
        given = await read_json(request, held_bytes, parts.limits.body_s, NewCase)
        if given.suite in shipped():
            raise Problem("contract", "is the name of a suite that comes with the product", field="suite")
        found = view(await inspector.dossier(whose, evaluation_id), parts.spending)
        folder = folder_of(parts.suites, whose) / given.suite
        try:
            incident = _incident(found, given.expectation)
            added = await asyncio.to_thread(add_case, folder, incident)
        except OtherExpectation as error:
            raise Problem("case_exists", f"{error.reason}: change it in the suite's file", field=error.field) from None
        except CaseError as error:
            raise Problem("contract", error.reason, field=error.field) from None
        except SuiteError:
            raise Problem(
                "contract", "is damaged: its operator finds the reason by `glassbox replay`", field="suite"
            ) from None
        answer = CaseAnswer(
            suite=given.suite,
            case=added.case,
            added=added.added,
            cases=added.cases,
            folder=_below(parts.suites, folder),
        )
        return JSONResponse(answer.model_dump(), 201 if added.added else 200)

    @router.get("/v1/suites", response_model=SuiteList, responses=problems("read", "list"))
    async def suites(caller: Annotated[Caller, Depends(gate.needs("read"))], tenant: TenantQuery = None) -> Response:
        """The suites that cases were added to."""
        folder = folder_of(parts.suites, caller.reads(tenant))
        found = await asyncio.to_thread(lambda: list(_summaries(parts.suites, folder)))
        return JSONResponse(SuiteList(suites=found).model_dump())

    return router


def _incident(found: View, expectation: Expectation) -> Incident:
    """Raises `CaseError`."""
    texts = []
    for origin, given in (("passages", found.passages), ("source_documents", found.source_documents)):
        for n, each in enumerate(given):
            if each.text is None:
                raise CaseError(f"{origin}[{n}]", "did not travel with the request: its text is not here")
            texts.append((each.id, each.text))
    if any(n >= len(found.passages) for n in expectation.relevant):
        raise CaseError("expectation.relevant", "names a passage that is not there")
    observed = Observed(
        evaluation_id=found.evaluation_id,
        answer=found.answer,
        outcome=found.outcome,
        trust=found.trust,
        reasons=found.reasons,
        failing=tuple(
            Failing(judge=part.judge, part=part.part, score=part.score, why=part.why)
            for part in found.parts
            if _failing(part)
        ),
    )
    return Incident(found.query, texts, observed, expectation.keywords, expectation.relevant, expectation.answerable)


def _failing(part: PartView) -> bool:
    return part.state == "failed" or part.meets_target is False


def _summaries(root: Path, folder: Path) -> Iterator[SuiteSummary]:
    for suite in suites_in(folder):
        yield SuiteSummary(
            name=suite.name,
            cases=len(suite.cases),
            documents=len(suite.corpus),
            digest=suite.digest,
            corpus_digest=suite.corpus_digest,
            folder=_below(root, folder / suite.name),
        )


def _below(root: Path, folder: Path) -> str:
    return str(folder.relative_to(root.parent))
