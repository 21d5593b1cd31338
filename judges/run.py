"""One guarded answer: whatever a judge does, each part of its kind gets exactly one verdict, in time."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import Counter
from typing import Any

from glassbox.contract.canonical import CanonicalError, canonical
from glassbox.contract.verdict import Failed, NotApplicable, NotFinite, Scored
from judges.injection import suspects
from judges.port import Case, Judge, JudgeError, Judgement

logger = logging.getLogger(__name__)

FOREIGN_TARGET = "foreign_target"
"""Flag of a verdict whose target was set for another method family: the figures do not compare."""

INJECTION = "injection_suspected"
"""Flag of every verdict on a case in which some text that the judge reads looks like an attack on it, and the key of
the evidence that says where: a list of {`field`, `index` (in a list of documents, else null), `span` (character offsets
[start, end)), `rule` (one of `judges.injection.RULES`)}, the first `MOST_SUSPICIONS` of them."""

MOST_SUSPICIONS = 100

_TEXTS = ("query", "answer", "reference_answer", "retrieved_passages", "source_documents")


async def answer(judge: Judge, case: Case) -> Judgement:
    """Exactly one verdict for each part in `case.settings`, in their order, by `case.deadline`.

    A judge that is late, raises, exits or leaves a part out ends in `failed` verdicts; nothing but cancellation and a
    person's interrupt escapes.
    The evidence of such an answer is `{"error": {"cause": …, "detail": …}}`. Texts that look like an attack on the
    judge are flagged (`INJECTION`), whatever the judge says.
    """
    found = suspicions(judge, case)
    made = await _answer(judge, case)
    if not found:
        return made
    verdicts = tuple(verdict.model_copy(update={"flags": (*verdict.flags, INJECTION)}) for verdict in made.verdicts)
    return Judgement(verdicts, {**made.evidence, INJECTION: found}, made.raw)


def suspicions(judge: Judge, case: Case) -> list[dict[str, Any]]:
    """The evidence of `INJECTION`: of the texts that the judge needs, in the order of the request's fields."""
    found: list[dict[str, Any]] = []
    for field in _TEXTS:
        given = getattr(case.input, field) if field in judge.needs else None
        texts = [(None, given)] if isinstance(given, str) else [(n, each.text) for n, each in enumerate(given or ())]
        for index, text in texts:
            found += (
                {"field": field, "index": index, "span": [suspicion.start, suspicion.end], "rule": suspicion.rule}
                for suspicion in suspects(text)
            )
            if len(found) >= MOST_SUSPICIONS:
                return found[:MOST_SUSPICIONS]
    return found


async def _answer(judge: Judge, case: Case) -> Judgement:
    limit = asyncio.timeout(max(case.deadline - time.monotonic(), 0))
    try:
        async with limit:
            made = await judge.judge(case)
        canonical(made.evidence)
    except JudgeError as error:
        return _failed(case, error.cause, error.detail)
    except CanonicalError as error:
        logger.error("%s: the %s judge's evidence is not JSON at %s", case.evaluation_id, judge.kind, error.field)
        return _failed(case, "crashed", "evidence is not JSON")
    except (Exception, SystemExit) as error:  # a library that calls `sys.exit` must not end the worker
        if isinstance(error, TimeoutError) and limit.expired():
            return _failed(case, "timeout", "no answer before the deadline")
        _report(judge, case, error)
        detail = "the score is not finite" if isinstance(error, NotFinite) else type(error).__name__
        return _failed(case, "crashed", detail)
    return Judgement(_complete(made, judge, case), made.evidence, made.raw)


def _complete(made: Judgement, judge: Judge, case: Case) -> tuple[Scored | NotApplicable | Failed, ...]:
    count = Counter(verdict.part for verdict in made.verdicts)
    by_part = {verdict.part: verdict for verdict in made.verdicts}
    verdicts: list[Scored | NotApplicable | Failed] = []
    for part, settings in case.settings.items():
        if count[part] == 1:
            verdicts.append(_flagged(by_part[part], settings))
        else:
            logger.error("%s: the %s judge gave %d verdicts for %s", case.evaluation_id, judge.kind, count[part], part)
            verdicts.append(Failed(part=part, cause="crashed", detail=f"{count[part]} verdicts instead of one"))
    return tuple(verdicts)


def _flagged(verdict: Scored | NotApplicable | Failed, settings: Any) -> Scored | NotApplicable | Failed:
    family = settings.get("target_family")
    if settings.get("target") is None or family is None or verdict.method is None or verdict.method.family == family:
        return verdict
    return verdict.model_copy(update={"flags": (*verdict.flags, FOREIGN_TARGET)})


def _failed(case: Case, cause: str, detail: str) -> Judgement:
    verdicts = tuple(Failed(part=part, cause=cause, detail=detail) for part in case.settings)
    return Judgement(verdicts, {"error": {"cause": cause, "detail": detail}})


def _report(judge: Judge, case: Case, error: BaseException) -> None:
    """Where it crashed, without the exception's message: that may quote the evaluation."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    logger.error("%s: the %s judge crashed with %s%s", case.evaluation_id, judge.kind, type(error).__name__, where)
