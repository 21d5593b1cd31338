"""The report: one HTML page that needs neither network nor JavaScript, and takes nothing a model wrote for markup."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from glassbox.replay.compare import Change, Comparison, compare
from glassbox.replay.evaluate import Evaluation, RunReference
from glassbox.replay.figures import amount, counts, difference, headings, interval_text, share_of_base
from glassbox.replay.gate import gate
from glassbox.replay.metrics import METRICS
from glassbox.replay.report_case import Answered, case_section
from glassbox.replay.report_parts import bars, escaped, interval_plot, pill, title_case
from glassbox.replay.store import Run
from glassbox.replay.suite import Suite
from glassbox.replay.taxonomy import CLASSES, Class
from glassbox.replay.trace import Trace

SHOWN = 40
"""Cases that are shown with their answers, worst first."""
LISTED = 500
"""Cases that are listed as better."""


@dataclass(frozen=True)
class Side:
    """A run and its evaluation."""

    run: Run
    evaluation: Evaluation


def report(suite: Suite, base: Side, candidate: Side | None = None, comparison: Comparison | None = None) -> str:
    """The page of one run, or of two side by side; `comparison` where it is not the default one of the two.

    Raises `StoreError` where a run cannot be read, `ComparisonError` where the two cannot be compared.
    """
    if candidate is None:
        title = f"Replay of {_named(base.evaluation.run)}"
        body = _of_one(suite, base)
    else:
        title = "Replay: {} to {}".format(*headings((base.evaluation.run, candidate.evaluation.run)))
        body = _of_two(suite, base, candidate, comparison or compare(base.evaluation, candidate.evaluation))
    page = Template((files("glassbox.replay") / "report.html").read_text(encoding="utf-8"))
    return page.substitute(title=escaped(title), body="\n".join(body))


def _named(run: RunReference) -> str:
    return f"{run.system.name} {run.system.version}"


def _of_one(suite: Suite, side: Side) -> Iterator[str]:
    evaluation = side.evaluation
    outcomes = _outcomes(evaluation)
    failed = [case for case, outcome in outcomes.items() if outcome != "success"]
    shown = sorted(failed, key=lambda case: CLASSES.index(outcomes[case]))[:SHOWN]
    yield from _header(_named(evaluation.run), "", suite, [evaluation.run])
    yield "<main>"
    yield from _tiles([(str(evaluation.classes["success"]), f"clean answers of {len(evaluation.cases)}")])
    yield from _taxonomy([("", evaluation.classes)])
    yield "<h2>Metrics</h2><div class='card scroll' tabindex='0' role='region' aria-label='Metrics'>"
    yield "<table><thead><tr><th scope='col'>metric</th><th scope='col'>figure</th><th scope='col'>n</th></tr></thead>"
    yield "<tbody>"
    for name, figure in evaluation.figures.items():
        definition = evaluation.metrics[name]
        value = amount(figure.value, definition.unit)
        yield f"<tr><th scope='row'>{_metric(name, definition.better)}</th><td>{value}</td><td>{figure.n}</td></tr>"
    yield "</tbody></table></div>"
    traces = _traces(side, shown)
    yield from _cases(
        "What went wrong",
        len(failed),
        [
            case_section(suite, suite.cases[case], [Answered("", outcomes[case], traces.get(case))], is_open=n == 0)
            for n, case in enumerate(shown)
        ],
    )
    yield from _footer(evaluation.metrics, None)


def _of_two(suite: Suite, base: Side, candidate: Side, comparison: Comparison) -> Iterator[str]:
    decided = gate(comparison)
    kind = {"regressed": "bad", "unmeasured": "doubt", "passed": "good"}[decided.outcome]
    runs = [comparison.base, comparison.candidate]
    named = headings(runs)
    yield from _header(
        f"{named[1]} against {named[0]}",
        f"<p class='verdict {kind}'>{escaped(decided.sentence)}</p>",
        suite,
        runs,
    )
    yield "<main>"
    clean = [classes["success"] for classes in (comparison.classes_base, comparison.classes_candidate)]
    total = sum(comparison.classes_candidate.values())
    yield from _tiles(
        [
            (f"{clean[0]} → {clean[1]}", f"clean answers of {total}"),
            (str(len(comparison.of("regressed"))), "metrics regressed"),
            (str(len(comparison.of("improved"))), "metrics improved"),
            (str(len(comparison.transitions)), f"of {comparison.cases} cases changed class"),
        ]
    )
    yield from (f"<p class='quiet'>{escaped(note)}</p>" for note in comparison.notes)
    yield from _taxonomy([(named[0], comparison.classes_base), (named[1], comparison.classes_candidate)])
    yield from _metrics(comparison.changes)
    outcomes = [_outcomes(side.evaluation) for side in (base, candidate)]
    worst = _worst(comparison)
    shown = worst[:SHOWN]
    traces = [_traces(side, shown) for side in (base, candidate)]
    yield from _cases(
        "What got worse",
        len(worst),
        [
            case_section(
                suite,
                suite.cases[case],
                [
                    Answered(name, outcome[case], found.get(case))
                    for name, outcome, found in zip(named, outcomes, traces, strict=True)
                ],
                is_open=n == 0,
            )
            for n, case in enumerate(shown)
        ],
    )
    yield from _better(comparison)
    yield from _footer(candidate.evaluation.metrics, comparison)


def _header(heading: str, verdict: str, suite: Suite, runs: Sequence[RunReference]) -> Iterator[str]:
    yield "<header>"
    yield f"<h1>{escaped(heading)}</h1>"
    digests = " and ".join(f"{escaped(run.run_id)} ({run.digest[:12]})" for run in runs)
    cases = f"{len(suite.cases)} cases ({suite.digest[:12]})"
    yield f"<p class='quiet'>Suite {escaped(suite.name)}, {cases}; {'runs' if len(runs) > 1 else 'run'} {digests}</p>"
    yield f"{verdict}</header>"


def _tiles(tiles: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield "<div class='tiles'>"
    yield from (f"<div class='card tile'><b>{value}</b>{escaped(what)}</div>" for value, what in tiles)
    yield "</div>"


def _taxonomy(sides: Sequence[tuple[str, dict[Class, int]]]) -> Iterator[str]:
    yield "<h2>What became of the cases</h2><div class='card'>"
    yield bars(sides)
    yield "<div class='scroll' tabindex='0' role='region' aria-label='Cases by class'>"
    yield "<table class='classes'><thead><tr>"
    yield "<th scope='col'>class</th>" + "".join(
        f"<th scope='col'>{escaped(name) or 'cases'}</th>" for name, _ in sides
    )
    yield "</tr></thead><tbody>"
    for name in reversed(CLASSES):
        counts = [classes[name] for _, classes in sides]
        if any(counts):
            cells = "".join(f"<td>{count}</td>" for count in counts)
            yield f"<tr><th scope='row'><span class='key {name}'></span>{title_case(name)}</th>{cells}</tr>"
    yield "</tbody></table></div></div>"


def _metric(name: str, better: str) -> str:
    arrow, said = ("↑", "higher is better") if better == "higher" else ("↓", "lower is better")
    return f"{escaped(name)} <span aria-hidden='true'>{arrow}</span><span class='hidden'>({said})</span>"


def _metrics(changes: Sequence[Change]) -> Iterator[str]:
    yield "<h2>Metrics</h2><div class='card scroll' tabindex='0' role='region' aria-label='Metrics'>"
    # Roles are said, because a narrow screen lays the rows out as blocks, which takes them from some browsers.
    yield "<table class='metrics' role='table'><thead><tr>"
    yield "".join(f"<th scope='col'>{head}</th>" for head in ("metric", "base", "candidate", "change"))
    yield "<th scope='col' colspan='2'>95 % interval</th><th scope='col'>n</th><th scope='col'>verdict</th>"
    yield "</tr></thead><tbody role='rowgroup'>"
    for change in changes:
        of_base = share_of_base(change)
        moved = difference(change.delta, change.unit) + (f" ({of_base})" if of_base else "")
        yield (
            f"<tr role='row'><th scope='row' role='rowheader'>{_metric(change.metric, change.better)}</th>"
            f"<td role='cell' data-label='base'>{amount(change.base.value, change.unit)}</td>"
            f"<td role='cell' data-label='candidate'>{amount(change.candidate.value, change.unit)}</td>"
            f"<td role='cell' data-label='change'>{moved}</td>"
            f"<td role='cell' data-label='interval'>{interval_text(change)}</td>"
            f"<td role='cell' class='plot'>{interval_plot(change)}</td>"
            f"<td role='cell' data-label='n'>{counts(change)}</td>"
            f"<td role='cell' class='last'>{pill(change)}</td></tr>"
        )
    yield "</tbody></table></div>"
    yield (
        "<p class='quiet'>The dot is the change, the line its bootstrap interval, the grey band the tolerance; "
        "each row has a scale of its own, with no change in the middle.</p>"
    )


def _cases(heading: str, total: int, sections: Sequence[str]) -> Iterator[str]:
    yield f"<h2>{heading}</h2>"
    if not total:
        yield "<p>Nothing.</p>"
    elif total > len(sections):
        yield f"<p class='quiet'>The {len(sections)} worst of {total} cases.</p>"
    yield from sections


def _better(comparison: Comparison) -> Iterator[str]:
    moved = [each for each in comparison.transitions if CLASSES.index(each.after) > CLASSES.index(each.before)]
    if moved:
        yield f"<h2>What got better</h2><details><summary>{len(moved)} cases</summary><ul>"
        yield from (
            f"<li>{escaped(each.case)}: {title_case(each.before)} → {title_case(each.after)}</li>"
            for each in moved[:LISTED]
        )
        if len(moved) > LISTED:
            yield f"<li>and {len(moved) - LISTED} more</li>"
        yield "</ul></details>"


def _footer(names: Collection[str], comparison: Comparison | None) -> Iterator[str]:
    yield "<h2>How it is measured</h2>"
    if comparison is not None:
        drawn = comparison.bootstrap
        yield (
            "<p>Changes and intervals are over the cases that have a value in both runs. Intervals: percentile "
            f"bootstrap over the cases, paired, {drawn.resamples:,} resamples, {drawn.confidence:.0%}, seed "
            f"{drawn.seed}. A change counts beyond its tolerance, and where it is neither within the noise between "
            "repeats nor, without repeats, told from chance by too few cases.</p>"
        )
    yield "<details><summary>What each metric is, and what it is blind to</summary><dl>"
    for name in names:
        if name in METRICS:
            yield f"<dt>{escaped(name)}</dt><dd>{escaped(METRICS[name].definition)}</dd>"
    yield "</dl></details></main>"


def _outcomes(evaluation: Evaluation) -> dict[str, Class]:
    """The class of each case; with repeats the worst, which is the one to look at."""
    found: dict[str, Class] = {}
    for each in evaluation.cases:
        if each.case not in found or CLASSES.index(each.outcome) < CLASSES.index(found[each.case]):
            found[each.case] = each.outcome
    return found


def _worst(comparison: Comparison) -> list[str]:
    """Cases that moved to a worse class, from the worst on; then those that only a metric calls worse, from the one
    that most of them name on."""
    moved = [each.case for each in comparison.transitions if CLASSES.index(each.after) < CLASSES.index(each.before)]
    named: dict[str, int] = {}
    for change in comparison.changes:
        if change.unit == "share":
            for case in change.cases:
                named[case.case] = named.get(case.case, 0) + 1
    return list(dict.fromkeys([*moved, *sorted(named, key=lambda case: -named[case])]))


def _traces(side: Side, cases: Collection[str]) -> dict[str, Trace]:
    """One trace of each case, of the repeat that has its outcome."""
    outcomes, wanted = _outcomes(side.evaluation), set(cases)
    keys: dict[str, int] = {}
    for each in side.evaluation.cases:
        if each.case in wanted and each.outcome == outcomes[each.case]:
            keys.setdefault(each.case, each.repeat)
    return {trace.case: trace for trace in side.run.traces() if keys.get(trace.case) == trace.repeat}
