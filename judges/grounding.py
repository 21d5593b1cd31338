"""Whether the answer is supported by what was retrieved, and whether it answers the question: Ragas' faithfulness and
answer relevancy, with everything checked that the model says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from glassbox.contract.verdict import Failed, NotApplicable, Scored
from judges import answer_relevancy, faithfulness, ragas_metrics
from judges.asking import Asking, Finding
from judges.authorship import JUDGE_IS_AUTHOR
from judges.llm import Call, EndpointClient
from judges.port import NEEDS, Case, JudgeError, Judgement

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Part:
    verdict: Scored | NotApplicable | Failed
    evidence: dict[str, Any]
    calls: list[Call]
    claims: int | None = None


class GroundingJudge:
    """Worker kind `grounding`: parts faithfulness and answer_relevancy, side by side; one may fail without the other.
    Raises `JudgeError` where ragas is not installed."""

    kind = "grounding"
    needs = NEEDS["grounding"]

    def __init__(self, client: EndpointClient) -> None:
        self._client = client
        ragas_metrics.library()

    async def judge(self, case: Case) -> Judgement:
        """At most three calls and one for embeddings, for an answer of usual size and the default settings."""
        tasks: dict[str, asyncio.Task[_Part]] = {}

        async def claims() -> int | None:
            return (await tasks[faithfulness.PART]).claims if faithfulness.PART in tasks else None

        works: dict[ModuleType, Callable[[Asking], Awaitable[Finding]]] = {
            faithfulness: lambda asking: faithfulness.find(case, asking),
            answer_relevancy: lambda asking: answer_relevancy.find(case, asking, claims),
        }
        async with asyncio.TaskGroup() as group:
            for part, work in works.items():
                if part.PART in case.settings:
                    tasks[part.PART] = group.create_task(self._guarded(case, part, work))
        parts = {name: task.result() for name, task in tasks.items()}
        return Judgement(
            tuple(part.verdict for part in parts.values()),
            {name: part.evidence | {"calls": [call.evidence() for call in part.calls]} for name, part in parts.items()},
            tuple(call.answer.raw for part in parts.values() for call in part.calls),
        )

    async def _guarded(self, case: Case, part: ModuleType, work: Callable[[Asking], Awaitable[Finding]]) -> _Part:
        asking = Asking(self._client, case)
        try:
            found = await work(asking)
        except JudgeError as error:
            cause, detail = error.cause, error.detail
        except Exception as error:
            cause, detail = "crashed", type(error).__name__
            _log.error("%s of %s crashed: %s", part.PART, case.evaluation_id, detail)
        else:
            return _Part(_flagged(found.verdict), found.evidence, asking.calls, found.claims)
        failed = Failed(part=part.PART, cause=cause, detail=detail, method=part.method(case, asking))
        return _Part(_flagged(failed), {}, asking.calls)

    async def close(self) -> None:
        """Nothing to close: the client belongs to whoever made it."""


def _flagged(verdict: Scored | NotApplicable | Failed) -> Scored | NotApplicable | Failed:
    parameters: Mapping[str, Any] = verdict.method.parameters if verdict.method else {}
    if not parameters.get(JUDGE_IS_AUTHOR):
        return verdict
    return verdict.model_copy(update={"flags": (*verdict.flags, JUDGE_IS_AUTHOR)})
