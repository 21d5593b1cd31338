"""Trust over time and the scores of each part: `GET /v1/statistics`."""

import time
from fractions import Fraction
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from glassbox.catalogue.statistics import BINS, MOST, Span, Statistics
from glassbox.contract.composite import figure
from glassbox.contract.events import LATEST, rfc3339
from glassbox.gateway import forms
from glassbox.gateway.callers import Caller
from glassbox.gateway.openapi import problems
from glassbox.gateway.parts import AsyncCatalogue, Parts, Since, TenantQuery, Until, moment
from glassbox.gateway.problems import Problem

BucketSize = Literal["hour", "day"]

_HOUR_MS = 3600 * 1000
_DAY_MS = 24 * _HOUR_MS
_SIZES: dict[BucketSize, tuple[int, int]] = {"hour": (_HOUR_MS, 7 * _DAY_MS), "day": (_DAY_MS, 90 * _DAY_MS)}
"""How long a bucket is, and the usual span, ms."""
_BUCKETS = 1000


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrendBucket(_Answer):
    """`at`: when it begins. `mean_trust`: of those that have a trust score."""

    at: str
    n: int
    mean_trust: str | None
    passed: int = Field(alias="pass")
    review: int
    fail: int
    incomplete: int


class PartDistribution(_Answer):
    """`histogram`: how many scores lie in each of 20 bins of equal width; the last holds 1."""

    judge: str
    part: str
    n: int
    mean: str
    histogram: list[int] = Field(min_length=BINS, max_length=BINS)


class ModelMean(_Answer):
    provider: str | None
    name: str
    n: int
    mean_trust: str | None


class StatisticsAnswer(_Answer):
    """Over evaluations that have a scorecard, by the time of their request. `models`: of the span, whichever was asked
    for."""

    since: str = Field(description="From when on evaluations were counted.")
    until: str
    bucket: BucketSize
    n: int
    complete: bool = Field(description=f"False where the span has {MOST} or more: the newest were counted.")
    trend: list[TrendBucket]
    parts: list[PartDistribution]
    models: list[ModelMean]


def statistics_router(parts: Parts, catalogue: AsyncCatalogue) -> APIRouter:
    router = APIRouter()
    reader = Annotated[Caller, Depends(parts.gatekeeper.needs("read"))]

    @router.get("/v1/statistics", response_model=StatisticsAnswer, responses=problems("read", "list"))
    async def read_statistics(
        caller: reader,
        tenant: TenantQuery = None,
        since: Since = None,
        until: Until = None,
        provider: Annotated[str | None, Query(pattern=forms.WORD)] = None,
        model: Annotated[str | None, Query(pattern=forms.WORD)] = None,
        bucket: BucketSize = "hour",
    ) -> Response:
        """Trust over time, how the scores of each part are distributed, and the models of the span. By default the last
        7 days in hours, or 90 in days."""
        size, usual = _SIZES[bucket]
        end = moment("until", until)
        if end is None:
            end = time.time_ns() // 1_000_000 + 1
        start = moment("since", since)
        if start is None:
            start = end - usual
        start = max(0, start)
        end = min(max(start, end), LATEST)
        if end - start > _BUCKETS * size:
            raise Problem("invalid_parameter", f"begin later: at most {_BUCKETS} buckets are told", field="since")
        span = Span(caller.reads(tenant), start, end, provider, model)
        found = await catalogue.ask(lambda c: c.statistics(span, size))
        return JSONResponse(_answer(found, end, bucket).model_dump(by_alias=True))

    return router


def _answer(found: Statistics, until: int, bucket: BucketSize) -> StatisticsAnswer:
    return StatisticsAnswer(
        since=rfc3339(found.since),
        until=rfc3339(until),
        bucket=bucket,
        n=found.n,
        complete=found.complete,
        trend=[
            TrendBucket(at=rfc3339(each.at), n=each.n, mean_trust=_figure(each.mean_trust), **each.outcomes)
            for each in found.trend
        ],
        parts=[
            PartDistribution(
                judge=each.judge, part=each.part, n=each.n, mean=_mean(each.mean), histogram=list(each.histogram)
            )
            for each in found.parts
        ],
        models=[
            ModelMean(provider=each.provider, name=each.name, n=each.n, mean_trust=_figure(each.mean_trust))
            for each in found.models
        ],
    )


def _mean(millionths: Fraction) -> str:
    return figure(millionths / 1_000_000)


def _figure(millionths: Fraction | None) -> str | None:
    return None if millionths is None else _mean(millionths)
