"""The evaluation engine: from stored traces to figures. It reads a run and its suite, and cannot call a system.

The same run, suite and metric definitions give the same bytes, on every machine and in every year.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, ValidationError, model_validator

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.replay.metrics import METRICS, RULES, Aggregate, Better, Metric, Unit, aggregated, definitions_digest
from glassbox.replay.store import (
    TRACES,
    Digest,
    Run,
    StoreError,
    SuiteReference,
    SystemReference,
    invalid,
    read_document,
)
from glassbox.replay.suite import Suite
from glassbox.replay.taxonomy import CLASSES, Class, classify

EVALUATION = "evaluation.json"
"""Name of an evaluation's file beside the run that it evaluates."""
SCHEMA_VERSION: Literal["1"] = "1"
PLACES = 6
"""Decimal places of every figure: what is beyond may differ between processors."""

Finite = Annotated[float, AllowInfNan(False)]
Count = Annotated[int, Field(ge=0)]
Provenance = Literal["api", "estimated"]


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Definition(Message):
    """What a figure is, as far as whoever compares it must know; `version` changes with the metric's meaning. `method`:
    digest of how judges made it, null for what is counted here."""

    better: Better
    aggregate: Aggregate
    unit: Unit
    version: int
    method: Digest | None = None


class Figure(Message):
    """`value`: the aggregate over the `n` traces to which the metric applies; null where n is 0."""

    value: Finite | None
    n: Count


class CaseResult(Message):
    """One trace's. `values`: metric -> value, only of those that apply to it."""

    case: str
    repeat: Count
    outcome: Class
    values: dict[str, Finite]


class Disagreement(Message):
    """A trace where the lexical proxy and the judge part: `grounded`, by words, is not `faithful`, by meaning."""

    case: str
    repeat: Count
    grounded: bool
    faithful: bool


class RunReference(Message):
    run_id: str
    digest: Digest
    suite: SuiteReference
    system: SystemReference
    repeats: Annotated[int, Field(ge=1)]


class Evaluation(Message):
    """`definitions`: digest of the metrics; `rules`: what all of them rest on. `classes`: counts of the failure
    taxonomy, cases × repeats in all. `tokens`: how many traces' tokens come from where. `questions`: id and digest of
    each case, in the order of the suite; `cases` has the results in that order, a case's repeats together.
    `disagreements`: of the metrics with the judges, where scorecards are joined."""

    schema_version: Literal["1"] = SCHEMA_VERSION
    run: RunReference
    definitions: Digest
    rules: dict[str, str]
    metrics: dict[str, Definition]
    figures: dict[str, Figure]
    classes: dict[Class, Count]
    tokens: dict[Provenance, Count]
    questions: tuple[tuple[str, Digest], ...]
    cases: tuple[CaseResult, ...]
    disagreements: tuple[Disagreement, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Evaluation:
        """What is said twice agrees: a file that was edited, or cut and mended, is not believed."""
        wanted = [(name, n) for name, _ in self.questions for n in range(self.run.repeats)]
        if [(each.case, each.repeat) for each in self.cases] != wanted:
            raise ValueError("cases: are not those of the suite")
        if any(each.values.keys() - self.metrics.keys() for each in self.cases):
            raise ValueError("cases: have a value of an undefined metric")
        if self.classes != counted(self.cases):
            raise ValueError("classes: do not add up to the cases")
        if self.figures != figured(self.metrics, self.cases):
            raise ValueError("figures: are not those of the cases")
        return self

    def to_bytes(self) -> bytes:
        """RFC 8785 and a line feed."""
        return canonical(self.model_dump(mode="json")) + b"\n"

    def digest(self) -> str:
        """SHA-256 of `to_bytes`, hex."""
        return sha256_hex(self.to_bytes())


class EvaluationEngine:
    """Evaluates runs of one suite by some metrics."""

    def __init__(self, suite: Suite, metrics: Mapping[str, Metric] = METRICS) -> None:
        self._suite, self._metrics = suite, metrics
        self._order = {name: n for n, name in enumerate(suite.cases)}
        self._definitions = {
            name: Definition(better=m.better, aggregate=m.aggregate, unit=m.unit, version=m.version)
            for name, m in metrics.items()
        }

    def evaluate(self, run: Run) -> Evaluation:
        """Every metric over every trace, one trace in memory at a time.

        Raises `StoreError` where the run does not belong to the suite, has changed or lacks a case.
        """
        manifest, suite = run.manifest, self._suite
        for field, ours, theirs in (
            ("suite.digest", manifest.suite.digest, suite.digest),
            ("suite.corpus_digest", manifest.suite.corpus_digest, suite.corpus_digest),
        ):
            if ours != theirs:
                reason = f"{suite.name!r} is not what was run ({theirs[:12]}…, not {ours[:12]}…)"
                raise StoreError(run.folder, 0, field, reason)
        tokens: Counter[Provenance] = Counter()
        cases = sorted(self._results(run, tokens), key=lambda each: (self._order[each.case], each.repeat))
        expected = len(suite.cases) * manifest.repeats
        if len(cases) != expected:
            reason = f"has {len(cases)} traces of the {expected} that the suite asks for"
            raise StoreError(run.folder / TRACES, 0, "", reason)
        return Evaluation(
            run=RunReference(
                run_id=manifest.run_id,
                digest=manifest.digest(),
                suite=manifest.suite,
                system=manifest.system,
                repeats=manifest.repeats,
            ),
            definitions=definitions_digest(self._metrics),
            rules=dict(RULES),
            metrics=self._definitions,
            figures=figured(self._definitions, cases),
            classes=counted(cases),
            tokens=dict(tokens),
            questions=tuple(
                (name, sha256_hex(canonical(case.model_dump(mode="json", exclude={"observed"}))))
                for name, case in suite.cases.items()
            ),
            cases=tuple(cases),
        )

    def _results(self, run: Run, tokens: Counter[Provenance]) -> Iterator[CaseResult]:
        suite, repeats = self._suite, run.manifest.repeats
        for line, trace in enumerate(run.traces(), 1):
            case = suite.cases.get(trace.case)
            if case is None:
                reason = f"the suite {suite.name!r} has no case {trace.case!r}"
                raise StoreError(run.folder / TRACES, line, "case", reason)
            if trace.repeat >= repeats:
                reason = f"is {trace.repeat}; each case was run {repeats} times, counted from 0"
                raise StoreError(run.folder / TRACES, line, "repeat", reason)
            if trace.invocation and trace.invocation.usage:
                tokens[trace.invocation.usage.provenance] += 1
            values = {name: metric.value(case, trace, suite.corpus) for name, metric in self._metrics.items()}
            yield CaseResult(
                case=trace.case,
                repeat=trace.repeat,
                outcome=classify(case, trace, suite.corpus),
                values={name: round(value, PLACES) for name, value in values.items() if value is not None},
            )


def figured(definitions: Mapping[str, Definition], cases: Iterable[CaseResult]) -> dict[str, Figure]:
    """The figure of each metric over some cases."""
    values: dict[str, list[float]] = {name: [] for name in definitions}
    for case in cases:
        for name, value in case.values.items():
            values[name].append(value)
    made = {name: aggregated(definitions[name].aggregate, found) for name, found in values.items()}
    return {
        name: Figure(value=None if value is None else round(value, PLACES), n=len(values[name]))
        for name, value in made.items()
    }


def counted(cases: Iterable[CaseResult]) -> dict[Class, int]:
    """How many cases each class of the failure taxonomy has; every class is there."""
    found = Counter(case.outcome for case in cases)
    return {name: found[name] for name in CLASSES}


def read_evaluation(path: Path) -> Evaluation:
    """An evaluation from its file. Raises `StoreError`; OSError where it cannot be read."""
    try:
        return Evaluation.model_validate_json(read_document(path, SCHEMA_VERSION))
    except ValidationError as error:
        raise invalid(path, error) from None
