"""Replay's runs beside live scorecards, and two of them compared: with the words of `glassbox replay`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi import Path as InPath
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from glassbox.contract.request import keyed_digest
from glassbox.gateway import forms
from glassbox.gateway.callers import Caller
from glassbox.gateway.openapi import problems
from glassbox.gateway.parts import Parts, TenantQuery, folder_of
from glassbox.gateway.problems import Problem
from glassbox.replay.cases import suites_in
from glassbox.replay.compare import Change, Comparison, ComparisonError, Verdict, compare
from glassbox.replay.evaluate import EVALUATION, Evaluation, EvaluationEngine, read_evaluation
from glassbox.replay.figures import amount, counts, difference, headings, interval_text, share_of_base
from glassbox.replay.metrics import Better, Unit
from glassbox.replay.store import MANIFEST, Manifest, Run, StoreError, read_manifest
from glassbox.replay.suite import Suite, SuiteError, load_suite, shipped
from glassbox.replay.taxonomy import CLASSES, Class

RunName = Annotated[str, InPath(pattern=forms.RUN, description="The name of its folder.")]

_MOST = 200
"""Runs that are told, the newest."""


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SuiteName(_Answer):
    name: str
    digest: str
    corpus_digest: str
    cases: int


class SystemName(_Answer):
    name: str
    version: str


class RunFigure(_Answer):
    """`n`: the traces to which the metric applies; `text`: the value as people read it."""

    metric: str
    unit: Unit
    better: Better
    value: float | None
    n: int
    text: str


class ClassCount(_Answer):
    name: Class = Field(alias="class")
    count: int


class RunSummary(_Answer):
    """`session`: the filter of `/v1/evaluations` under which the run's live scorecards are, once `glassbox replay
    submit` asked for them. `digest`, `traces`, `errors` null: the run is not finished. `figures`, `classes` null: it
    was not evaluated yet."""

    run: str
    run_id: str
    digest: str | None
    suite: SuiteName
    system: SystemName
    repeats: int
    started_at: str
    finished_at: str | None
    traces: int | None
    errors: int | None
    session: str
    figures: list[RunFigure] | None
    classes: list[ClassCount] | None


class RunList(_Answer):
    runs: list[RunSummary]


class Side(_Answer):
    run: str
    heading: str
    digest: str


class ChangedCase(_Answer):
    case: str
    base: str
    candidate: str
    before: Class
    after: Class


class ChangeView(_Answer):
    """One metric, as `glassbox replay compare` prints it. `direction`: 1 where the candidate is better, -1 where it is
    worse. `worse`: how many cases got worse; `cases`: which, where the metric has regressed or may have."""

    metric: str
    verdict: Verdict
    reason: str
    base: str
    candidate: str
    change: str
    share: str
    interval: str
    n: str
    direction: Literal[-1, 0, 1]
    worse: int
    cases: list[ChangedCase]


class ClassChange(_Answer):
    name: Class = Field(alias="class")
    base: int
    candidate: int


class CaseTransition(_Answer):
    case: str
    before: Class
    after: Class


class ComparisonAnswer(_Answer):
    """`cases`: how many are compared; `left_out`: how many of both suites are not common."""

    base: Side
    candidate: Side
    cases: int
    left_out: int
    notes: list[str]
    changes: list[ChangeView]
    classes: list[ClassChange]
    transitions: list[CaseTransition]


def runs_router(parts: Parts) -> APIRouter:
    router = APIRouter()
    reader = Annotated[Caller, Depends(parts.gatekeeper.needs("read"))]
    one_at_a_time = asyncio.Semaphore(1)  # a comparison computes for a while

    @router.get("/v1/runs", response_model=RunList, responses=problems("read", "list"))
    async def runs(caller: reader, tenant: TenantQuery = None) -> Response:
        """The runs of `glassbox replay run` in the data folder's `runs`, the newest first."""
        folder = folder_of(parts.runs, caller.reads(tenant))
        found = await asyncio.to_thread(lambda: list(_summaries(folder, parts.rules.id_key)))
        found.sort(key=lambda each: each.started_at, reverse=True)
        return JSONResponse(RunList(runs=found[:_MOST]).model_dump(by_alias=True))

    @router.get(
        "/v1/runs/{base}/comparison/{candidate}",
        response_model=ComparisonAnswer,
        responses=problems("read", "one", "comparison"),
    )
    async def comparison(
        caller: reader,
        base: RunName,
        candidate: RunName,
        common: Annotated[bool, Query(description="Compare the cases that stand in both suites.")] = False,
        tenant: TenantQuery = None,
    ) -> Response:
        """Two runs: what got worse, by how much, in which cases, and whether that could be chance."""
        whose = caller.reads(tenant)
        folder, suites = folder_of(parts.runs, whose), folder_of(parts.suites, whose)

        def compared() -> Comparison:
            both = [_evaluated(folder / name, suites) for name in (base, candidate)]
            return compare(both[0], both[1], common=common)

        try:
            async with one_at_a_time:
                found = await asyncio.to_thread(compared)
        except FileNotFoundError:
            raise Problem("not_found", "you have no run under this name") from None
        except ComparisonError as error:
            raise Problem("no_comparison", str(error)) from None
        except (StoreError, SuiteError):
            raise Problem("no_comparison", "one of the runs cannot be read: see `glassbox replay evaluate`") from None
        return JSONResponse(_answer(found, base, candidate).model_dump(by_alias=True))

    return router


def _summaries(folder: Path, key: bytes) -> Iterator[RunSummary]:
    for each in folder.iterdir() if folder.is_dir() else ():
        try:
            manifest = read_manifest(each)
        except (StoreError, OSError):
            continue  # no run, or none of this build
        digest = manifest.digest() if manifest.finished_at is not None else None
        evaluation = _kept(each, digest)
        yield RunSummary(
            run=each.name,
            run_id=manifest.run_id,
            digest=digest,
            suite=SuiteName(**manifest.suite.model_dump(exclude={"columns"})),
            system=SystemName(name=manifest.system.name, version=manifest.system.version),
            repeats=manifest.repeats,
            started_at=manifest.started_at,
            finished_at=manifest.finished_at,
            traces=manifest.counts and manifest.counts.traces,
            errors=manifest.counts and manifest.counts.errors,
            session=keyed_digest(key, manifest.run_id.encode()),
            figures=evaluation and list(_figures(evaluation)),
            classes=evaluation
            and [ClassCount(**{"class": name, "count": n}) for name, n in evaluation.classes.items()],
        )


def _figures(evaluation: Evaluation) -> Iterator[RunFigure]:
    for name, figure in evaluation.figures.items():
        metric = evaluation.metrics[name]
        text = amount(figure.value, metric.unit)
        yield RunFigure(metric=name, unit=metric.unit, better=metric.better, value=figure.value, n=figure.n, text=text)


def _kept(folder: Path, digest: str | None) -> Evaluation | None:
    """The evaluation beside a run, where it is this run's."""
    try:
        found = read_evaluation(folder / EVALUATION)
    except (StoreError, OSError):
        return None
    return found if found.run.digest == digest else None


def _evaluated(folder: Path, suites: Path) -> Evaluation:
    """The evaluation beside a run; made here where there is none and its suite is at hand. Raises `FileNotFoundError`
    where there is no run."""
    if not (folder / MANIFEST).is_file():
        raise FileNotFoundError(folder.name)
    manifest = read_manifest(folder)
    kept = _kept(folder, manifest.digest())
    return kept or EvaluationEngine(_suite(manifest, suites)).evaluate(Run.open(folder))


def _suite(manifest: Manifest, suites: Path) -> Suite:
    name, digest = manifest.suite.name, manifest.suite.digest
    if name in shipped():
        return load_suite(name)
    found = next((suite for suite in suites_in(suites) if suite.name == name and suite.digest == digest), None)
    if found is None:
        raise ComparisonError(
            f"the suite {name!r} of the run {manifest.run_id} is not here as it was run: evaluate the run first with "
            "`glassbox replay evaluate --suite`"
        )
    return found


def _answer(found: Comparison, base: str, candidate: str) -> ComparisonAnswer:
    titles = headings((found.base, found.candidate))
    sides = [
        Side(run=name, heading=title, digest=run.digest)
        for name, title, run in zip((base, candidate), titles, (found.base, found.candidate), strict=True)
    ]
    return ComparisonAnswer(
        base=sides[0],
        candidate=sides[1],
        cases=found.cases,
        left_out=found.left_out,
        notes=list(found.notes),
        changes=[_change(each) for each in found.changes],
        classes=[
            ClassChange(**{"class": name, "base": found.classes_base[name], "candidate": found.classes_candidate[name]})
            for name in reversed(CLASSES)
            if found.classes_base[name] or found.classes_candidate[name]
        ],
        transitions=[CaseTransition(**each.model_dump()) for each in found.transitions],
    )


def _change(each: Change) -> ChangeView:
    return ChangeView(
        metric=each.metric,
        verdict=each.verdict,
        reason=each.reason,
        base=amount(each.base.value, each.unit),
        candidate=amount(each.candidate.value, each.unit),
        change=difference(each.delta, each.unit),
        share=share_of_base(each),
        interval=interval_text(each),
        n=counts(each),
        direction=each.direction,
        worse=each.worse,
        cases=[
            ChangedCase(
                case=case.case,
                base=amount(case.base, each.unit),
                candidate=amount(case.candidate, each.unit),
                before=case.before,
                after=case.after,
            )
            for case in each.cases
        ],
    )
