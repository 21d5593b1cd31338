"""Two evaluations side by side: what got worse, by how much, in which cases, and whether that could be chance.

Pure: from evaluations to a comparison, the same for the same two. Three measures decide, each for another question.
The tolerance says which change matters; the noise floor, measured from repeats, which change the system makes without
any change to it; where nothing was repeated, a bootstrap interval over the questions stands in for it. All three are
over the cases that a metric applies to in both runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from glassbox.replay.evaluate import (
    PLACES,
    CaseResult,
    Count,
    Definition,
    Evaluation,
    Figure,
    Finite,
    Message,
    RunReference,
    counted,
    figured,
)
from glassbox.replay.metrics import Aggregate, Better, Unit, aggregated
from glassbox.replay.resampling import CONFIDENCE, RESAMPLES, SEED, Measured, Values, intervals, noise
from glassbox.replay.taxonomy import CLASSES, Class

SCHEMA_VERSION: Literal["1"] = "1"
FEWEST = 6
"""Cases below which an interval says nothing: with 5, even if all changed the same way, a sign test gives p = .06."""

Verdict = Literal["regressed", "improved", "unchanged", "within_noise", "unclear", "not_measured", "not_applicable"]
"""`unclear`: beyond the tolerance, but too few cases to tell from chance, or the candidate lost cases. `not_measured`:
no case has a figure on both sides, or the two have figures of different kinds. `not_applicable`: neither has one."""


class ComparisonError(ValueError):
    """Two evaluations that cannot be compared, and why."""


class Tolerance(NamedTuple):
    """A change matters when it is larger than `relative` × |baseline| and than `absolute`, which is in the metric's
    unit and holds where the baseline is 0 or near it."""

    relative: float
    absolute: float

    def allowed(self, baseline: float) -> float:
        return max(self.relative * abs(baseline), self.absolute)


TOLERANCES: Mapping[Unit, Tolerance] = {
    "share": Tolerance(0.02, 0.005),
    "ms": Tolerance(0.2, 50.0),
    "tokens": Tolerance(0.02, 1.0),
}


class CaseChange(Message):
    """A case that got worse by a metric: means over its pairs of repeats, and its class in either run."""

    case: str
    base: Finite
    candidate: Finite
    before: Class
    after: Class


class Change(Message):
    """One metric. `base`, `candidate`: each run's own figure. All else is over the pairs, the traces to which the
    metric applies in both, so that a miss which is no longer reported is no gain; `pairs`: how many. `lost`: to how
    many cases fewer it applies in the candidate. `delta`: candidate − base. `relative`: delta / base, null where base
    is 0. `low`, `high`: the bootstrap interval of the delta, null where there are too few cases. `allowed`: the
    tolerance, in the metric's unit. `noise`: the noise floor, null where neither run was repeated. `worse`: how many
    cases got worse; `cases`: which, worst first, where the metric has regressed or may have."""

    metric: str
    better: Better
    aggregate: Aggregate
    unit: Unit
    base: Figure
    candidate: Figure
    pairs: Count
    lost: Count
    delta: Finite | None
    relative: Finite | None
    low: Finite | None
    high: Finite | None
    allowed: Finite | None
    noise: Finite | None
    verdict: Verdict
    reason: str
    worse: Count
    cases: tuple[CaseChange, ...]

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """1 where the candidate is better, -1 where it is worse, else 0."""
        if not self.delta:
            return 0
        return 1 if (self.delta > 0) == (self.better == "higher") else -1


class Transition(Message):
    """A case whose class changed."""

    case: str
    before: Class
    after: Class


class Bootstrap(Message):
    resamples: Count
    confidence: Annotated[float, Field(gt=0, lt=1)]
    seed: int


class Comparison(Message):
    """`cases`: how many are compared; `left_out`: how many of both suites are not common. `classes_base` and
    `classes_candidate` count cases × repeats. `transitions`: from the worst class of the candidate on."""

    schema_version: Literal["1"] = SCHEMA_VERSION
    base: RunReference
    candidate: RunReference
    bootstrap: Bootstrap
    cases: Count
    left_out: Count
    notes: tuple[str, ...]
    changes: tuple[Change, ...]
    classes_base: dict[Class, Count]
    classes_candidate: dict[Class, Count]
    transitions: tuple[Transition, ...]

    def of(self, *verdicts: Verdict) -> list[Change]:
        """The changes with one of some verdicts."""
        return [change for change in self.changes if change.verdict in verdicts]


def compare(
    base: Evaluation,
    candidate: Evaluation,
    tolerances: Mapping[str, Tolerance] | None = None,
    *,
    common: bool = False,
) -> Comparison:
    """Compare two evaluations over one suite; `tolerances` by metric replace those of its unit.

    `common`: compare the cases that stand in both suites, word for word. Raises `ComparisonError` for different suites
    without it, for metrics of different definitions, and for a tolerance of a metric that there is not.
    """
    tolerances = tolerances or {}
    names = _names(base, candidate)
    if unknown := next((name for name in tolerances if name not in names), None):
        raise ComparisonError(f"no metric {unknown!r} to compare; there are {', '.join(names)}")
    kept = _common(base, candidate, common)
    before, after = (_by_case(each, kept) for each in (base, candidate))
    figures = [
        figured({name: each.metrics[name] for name in names}, _only(side, names))
        for each, side in ((base, before), (candidate, after))
    ]
    classes_before, classes_after = ({case: _class(made) for case, made in side.items()} for side in (before, after))
    values = {name: (_values(before, name), _values(after, name)) for name in names}
    measured = {name: Measured(*_paired(*sides), base.metrics[name].aggregate) for name, sides in values.items()}
    bounds = intervals({name: each for name, each in measured.items() if _enough(each)})
    changes = tuple(
        _change(
            name,
            base.metrics[name],
            (figures[0][name], figures[1][name]),
            measured[name],
            max(0, _applies(values[name][0]) - _applies(values[name][1])),
            bounds.get(name),
            tolerances.get(name, TOLERANCES[base.metrics[name].unit]),
            (classes_before, classes_after),
            comparable=base.metrics[name].unit != "tokens" or set(base.tokens) == set(candidate.tokens),
        )
        for name in names
    )
    return Comparison(
        base=base.run,
        candidate=candidate.run,
        bootstrap=Bootstrap(resamples=RESAMPLES, confidence=CONFIDENCE, seed=SEED),
        cases=len(kept),
        left_out=len({name for each in (base, candidate) for name, _ in each.questions}) - len(kept),
        notes=_notes(base, candidate),
        changes=changes,
        classes_base=counted(result for made in before.values() for result in made),
        classes_candidate=counted(result for made in after.values() for result in made),
        transitions=tuple(
            sorted(
                (
                    Transition(case=case, before=was, after=classes_after[case])
                    for case, was in classes_before.items()
                    if was != classes_after[case]
                ),
                key=lambda each: CLASSES.index(each.after),
            )
        ),
    )


def _names(base: Evaluation, candidate: Evaluation) -> list[str]:
    """The metrics that both have, in the order of the candidate, which is the newer one."""
    if base.rules != candidate.rules:
        raise ComparisonError(
            f"the metrics rest on different rules ({base.rules} and {candidate.rules}); evaluate both runs again"
        )
    names = [name for name in candidate.metrics if name in base.metrics and not _other_method(name, base, candidate)]
    for name in names:
        if base.metrics[name] != candidate.metrics[name]:
            raise ComparisonError(f"{name} has another definition in either evaluation; evaluate both runs again")
    return names


def _other_method(name: str, base: Evaluation, candidate: Evaluation) -> bool:
    return base.metrics[name].method != candidate.metrics[name].method


def _common(base: Evaluation, candidate: Evaluation, common: bool) -> list[str]:
    ours, theirs = base.run.suite, candidate.run.suite
    if base.questions == candidate.questions and ours.corpus_digest == theirs.corpus_digest:
        return [name for name, _ in base.questions]
    if not common:
        what = "corpora" if base.questions == candidate.questions else "suites"
        raise ComparisonError(
            f"the runs are of different {what} ({ours.name} {ours.digest[:12]}…/{ours.corpus_digest[:12]}… and "
            f"{theirs.name} {theirs.digest[:12]}…/{theirs.corpus_digest[:12]}…); --common compares the cases in both"
        )
    found = set(candidate.questions)
    kept = [name for name, digest in base.questions if (name, digest) in found]
    if not kept:
        raise ComparisonError(f"the suites {ours.name} and {theirs.name} have no case in common")
    return kept


def _notes(base: Evaluation, candidate: Evaluation) -> tuple[str, ...]:
    notes = []
    if base.run.suite.corpus_digest != candidate.run.suite.corpus_digest:
        notes.append("The runs are over different corpora: what is measured against a document may differ for that.")
    if apart := [name for name in base.metrics if name in candidate.metrics and _other_method(name, base, candidate)]:
        notes.append(f"Judged by other methods or policies in either run, so not compared: {', '.join(apart)}.")
    for mine, other, which in ((base, candidate, "base"), (candidate, base, "candidate")):
        if alone := [name for name in mine.metrics if name not in other.metrics]:
            notes.append(f"Only the {which} was evaluated by {', '.join(alone)}.")
    return tuple(notes)


Results = Mapping[str, Sequence[CaseResult]]


def _by_case(evaluation: Evaluation, kept: Sequence[str]) -> Results:
    found: dict[str, list[CaseResult]] = defaultdict(list)
    for result in evaluation.cases:
        found[result.case].append(result)
    return {case: found[case] for case in kept}


def _only(side: Results, names: Sequence[str]) -> Iterable[CaseResult]:
    for made in side.values():
        for result in made:
            values = {name: result.values[name] for name in names if name in result.values}
            yield result.model_copy(update={"values": values})


def _values(side: Results, name: str) -> Values:
    return {case: [result.values.get(name) for result in made] for case, made in side.items()}


def _paired(base: Values, candidate: Values) -> tuple[Values, Values]:
    """Without what the metric does not apply to in both: repeat by repeat, or case by case where one run has more
    repeats than the other."""
    before: dict[str, Sequence[float | None]] = {}
    after: dict[str, Sequence[float | None]] = {}
    for case, was in base.items():
        now = candidate[case]
        if len(was) != len(now):
            both = any(value is not None for value in was) and any(value is not None for value in now)
            before[case], after[case] = (each if both else [None] * len(each) for each in (was, now))
        else:
            before[case] = [None if other is None else value for value, other in zip(was, now, strict=True)]
            after[case] = [None if other is None else value for value, other in zip(now, was, strict=True)]
    return before, after


def _applies(side: Values) -> int:
    """To how many cases a metric applies."""
    return sum(any(value is not None for value in made) for made in side.values())


def _aggregate(side: Values, how: Aggregate) -> tuple[float | None, int]:
    """The figure of some values, and how many they are."""
    found = [value for made in side.values() for value in made if value is not None]
    return aggregated(how, found), len(found)


def _class(made: Sequence[CaseResult]) -> Class:
    """A case's class: that of most of its repeats, of a tie the worst."""
    votes = Counter(result.outcome for result in made)
    return max(CLASSES, key=lambda name: (votes[name], -CLASSES.index(name)))


def _change(
    name: str,
    definition: Definition,
    figures: tuple[Figure, Figure],
    measured: Measured,
    lost: int,
    bounds: tuple[float, float] | None,
    tolerance: Tolerance,
    classes: tuple[Mapping[str, Class], Mapping[str, Class]],
    *,
    comparable: bool,
) -> Change:
    base, candidate = figures
    delta = relative = allowed = floor = None
    (was, before), (now, after) = (_aggregate(side, measured.how) for side in (measured.base, measured.candidate))
    if was is None or now is None or not comparable:
        verdict, reason = _unmeasured(base, candidate, comparable)
        bounds = None
        worse: list[CaseChange] = []
    else:
        delta = round(now - was, PLACES)
        relative = round(delta / was, PLACES) if was else None
        allowed = round(tolerance.allowed(was), PLACES)
        floor = noise(*measured)
        better = (delta > 0) == (definition.better == "higher")
        verdict, reason = _verdict(delta, allowed, bounds, floor, better)
        if lost:
            reason = f"{cases_lost(lost)}, to which it applies in the base alone; {reason} in those of both"
            verdict = "regressed" if verdict == "regressed" else "unclear"
        worse = _worse(definition.better, measured, classes)
    suspect = verdict == "regressed" or (verdict == "unclear" and not better)
    return Change(
        metric=name,
        better=definition.better,
        aggregate=definition.aggregate,
        unit=definition.unit,
        base=base,
        candidate=candidate,
        pairs=min(before, after),
        lost=lost,
        delta=delta,
        relative=relative,
        low=bounds and bounds[0],
        high=bounds and bounds[1],
        allowed=allowed,
        noise=floor,
        verdict=verdict,
        reason=reason,
        worse=len(worse),
        cases=tuple(worse) if suspect else (),
    )


def cases_lost(count: int) -> str:
    return f"{count} case{'' if count == 1 else 's'} lost"


def _unmeasured(base: Figure, candidate: Figure, comparable: bool) -> tuple[Verdict, str]:
    if base.n and candidate.n and comparable:
        return "not_measured", "applies to no case in both runs"
    if base.n and candidate.n:
        return "not_measured", "one run has tokens as the API reports them, the other estimates"
    if not base.n and not candidate.n:
        return "not_applicable", "applies to no case of either run"
    return "not_measured", f"applies to no case of the {'candidate' if base.n else 'base'}"


def _verdict(
    delta: float, allowed: float, bounds: tuple[float, float] | None, floor: float | None, better: bool
) -> tuple[Verdict, str]:
    if abs(delta) <= allowed:
        return "unchanged", "no change" if not delta else "within the tolerance"
    called: Verdict = "improved" if better else "regressed"
    if floor is not None:
        if abs(delta) <= floor:
            return "within_noise", "no more than repeats of the same run differ"
        return called, "beyond the tolerance and beyond the noise between repeats"
    if bounds is None:
        return "unclear", f"fewer than {FEWEST} cases are too few to tell; repeats would measure the noise"
    if bounds[0] <= 0 <= bounds[1]:
        return "unclear", "too few cases to tell from chance: the interval has 0; repeats would measure the noise"
    return called, "beyond the tolerance, and the interval does not have 0"


def _enough(measured: Measured) -> bool:
    """Whether there are enough cases of both runs for an interval."""
    return _applies(measured.base) >= FEWEST


def _mean(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return round(sum(found) / len(found), PLACES) if found else None


def _worse(
    better: Better, measured: Measured, classes: tuple[Mapping[str, Class], Mapping[str, Class]]
) -> list[CaseChange]:
    """Cases that pull the figure down, those that do so most first."""
    sign = 1 if better == "higher" else -1
    found = []
    for case in measured.base:
        base, candidate = _mean(measured.base[case]), _mean(measured.candidate[case])
        if base is not None and candidate is not None and sign * (candidate - base) < 0:
            change = CaseChange(
                case=case, base=base, candidate=candidate, before=classes[0][case], after=classes[1][case]
            )
            found.append((sign * (candidate - base), change))
    return [change for _, change in sorted(found, key=lambda item: item[0])]
