"""A stored run as requests for the judges, and their scorecards beside the metrics of the run.

Pure. A trace's evaluation id follows from the run's digest, so that a run that is submitted twice is judged once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.contract.request import EvaluationRequest
from glassbox.replay.evaluate import CaseResult, Definition, Disagreement, Evaluation, figured
from glassbox.replay.store import Run
from glassbox.replay.suite import Suite
from glassbox.replay.trace import Invocation, Trace

PREFIX = "judged_"
"""Of the names of metrics that come from scorecards: `judged_trust`, and `judged_` with the name of each part."""

Key = tuple[str, int]
"""Case and repeat."""


@dataclass(frozen=True)
class Request:
    """A trace as a request; None where it has no answer to judge."""

    case: str
    repeat: int
    request: EvaluationRequest | None

    def body(self) -> bytes:
        """The request as JSON."""
        return b"" if self.request is None else self.request.model_dump_json(exclude_none=True).encode()


def evaluation_id(run_digest: str, case: str, repeat: int, policy: str | None) -> str:
    """Of a trace under a policy; the same whenever and wherever it is made."""
    return "replay:" + sha256_hex(canonical([run_digest, case, repeat, policy]))


def requests(run: Run, suite: Suite, policy: str | None = None) -> Iterator[Request]:
    """Each trace of a run as an EvaluationRequest: the retrieved documents are its passages, with the retriever's
    scores, and its sources; where the system does not say what it retrieved, those that it cites. The run is the
    session. `policy` None leaves the policy to the pipeline. Raises `StoreError` where the run cannot be read."""
    digest = run.manifest.digest()
    for trace in run.traces():
        made = trace.invocation
        asked = _request(run, suite, trace, made, policy, digest) if made and made.answer.strip() else None
        yield Request(trace.case, trace.repeat, asked)


def _request(
    run: Run, suite: Suite, trace: Trace, made: Invocation, policy: str | None, digest: str
) -> EvaluationRequest:
    scores = {each.document: each.score for each in made.retrieved or ()}
    named = scores or dict.fromkeys((citation.document for citation in made.citations), None)
    found = [(suite.corpus[name], score) for name, score in named.items() if name in suite.corpus]
    scored = all(score is not None for _, score in found)
    system = run.manifest.system
    content: dict[str, Any] = {
        "query": suite.cases[trace.case].question,
        "answer": made.answer,
        "retrieved_passages": [
            {"id": document.id, "text": document.text, "document_id": document.id}
            | ({"score": float(score)} if scored and score is not None else {})
            for document, score in found
        ],
        "evaluation_id": evaluation_id(digest, trace.case, trace.repeat, policy),
        "session_id": run.manifest.run_id,
        "metadata": {"suite": suite.name, "case": trace.case, "repeat": str(trace.repeat)},
    }
    if found:
        content["source_documents"] = [{"id": document.id, "text": document.text} for document, _ in found]
    if made.model:
        content["model"] = {"provider": system.name[:256] or "unknown", "name": made.model[:256]}
    if policy is not None:
        content["policy"] = policy
    return EvaluationRequest.model_validate(content)


def with_scorecards(evaluation: Evaluation, records: Mapping[Key, Mapping[str, Any]]) -> Evaluation:
    """An evaluation with the trust score and the parts' scores of its traces' scorecards beside its metrics.

    `records`: Record v1 by case and repeat; a trace without one has no such values. A part's `method` names the
    methods that scored it, and the trust score's the policies, since numbers only compare with equal ones.
    """
    methods: dict[str, set[str]] = {}
    values: dict[Key, dict[str, float]] = {}
    for key, record in records.items():
        scored = [part for part in record["parts"] if part["state"] == "scored"]
        values[key] = {f"{PREFIX}{part['part']}": float(part["score"]) for part in scored}
        for part in scored:
            methods.setdefault(f"{PREFIX}{part['part']}", set()).add(part["method_digest"])
        if record["trust"] is not None:
            values[key][f"{PREFIX}trust"] = float(record["trust"])
            methods.setdefault(f"{PREFIX}trust", set()).add(record["policy_digest"])
    names = sorted(methods, key=lambda name: (name != f"{PREFIX}trust", name))
    judged = {
        name: Definition(
            better="higher",
            aggregate="mean",
            unit="share",
            version=1,
            method=sha256_hex(canonical(sorted(methods[name]))),
        )
        for name in names
    }
    metrics = {**evaluation.metrics, **judged}
    cases = tuple(
        each.model_copy(update={"values": each.values | values.get((each.case, each.repeat), {})})
        for each in evaluation.cases
    )
    rows = [[name, each.method] for name, each in judged.items()]
    return Evaluation(
        run=evaluation.run,
        definitions=sha256_hex(canonical([evaluation.definitions, rows])),
        rules=evaluation.rules,
        metrics=metrics,
        figures=figured(metrics, cases),
        classes=evaluation.classes,
        tokens=evaluation.tokens,
        questions=evaluation.questions,
        cases=cases,
        disagreements=tuple(_disagreements(cases, records)),
    )


def _disagreements(cases: tuple[CaseResult, ...], records: Mapping[Key, Mapping[str, Any]]) -> Iterator[Disagreement]:
    """Where words and meaning part: every sentence is lexically grounded and the judge finds the answer unfaithful, or
    the other way round. Faithful is what meets the policy's target; without one nothing is said."""
    for each in cases:
        record = records.get((each.case, each.repeat))
        words = each.values.get("groundedness")
        if record is None or words is None:
            continue
        meets = next((part["meets_target"] for part in record["parts"] if part["part"] == "faithfulness"), None)
        if meets is not None and meets != (words == 1):
            yield Disagreement(case=each.case, repeat=each.repeat, grounded=words == 1, faithful=meets)
