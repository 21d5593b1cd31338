"""Evaluations and comparisons as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from glassbox.dossier.reasons import printable

if TYPE_CHECKING:
    from glassbox.replay.compare import Change, Comparison
    from glassbox.replay.evaluate import Evaluation

_SHOWN = 50
"""Cases listed under a metric; --json has them all."""


def evaluation_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """A column a run: each figure with its n, then the classes of the failure taxonomy."""
    from glassbox.replay.figures import amount, headings
    from glassbox.replay.taxonomy import CLASSES

    names = list(dict.fromkeys(name for each in evaluations for name in each.metrics))
    rows = [["", *(printable(heading) for heading in headings([each.run for each in evaluations]))]]
    for name in names:
        row = [name]
        for each in evaluations:
            figure = each.figures.get(name)
            row.append("-" if figure is None else f"{amount(figure.value, each.metrics[name].unit)} ({figure.n})")
        rows.append(row)
    rows.append([])
    for kind in reversed(CLASSES):
        rows.append([kind.replace("_", " "), *(str(each.classes[kind]) for each in evaluations)])
    yield from _table(rows)
    for each in evaluations:
        for apart in each.disagreements:
            yield (
                f"{printable(apart.case)} of {each.run.run_id}: "
                + (
                    "grounded by its words, and judged unfaithful"
                    if apart.grounded
                    else "judged faithful, and not grounded by its words"
                )
            )
    yield ""
    yield "in parentheses: n, the traces to which the metric applies"
    for each in evaluations:
        sources = " and ".join(f"{count} {source}" for source, count in sorted(each.tokens.items()))
        yield f"run {each.run.run_id} {each.run.digest}" + (f"; tokens: {sources}" if sources else "")


def comparison_lines(found: Comparison) -> Iterator[str]:
    """The table of metrics, what became of the cases, and the cases of what regressed or may have."""
    from glassbox.replay.figures import amount, counts, difference, headings, interval_text, share_of_base
    from glassbox.replay.taxonomy import CLASSES

    systems = [printable(heading) for heading in headings((found.base, found.candidate))]
    yield f"{systems[1]} against {systems[0]}, {found.cases} cases" + (
        f" in common, {found.left_out} left out" if found.left_out else ""
    )
    yield from found.notes
    rows = [["", "base", "candidate", "change", "", "95 % interval", "n", "verdict"]]
    for each in found.changes:
        values = [amount(figure.value, each.unit) for figure in (each.base, each.candidate)]
        moved = [difference(each.delta, each.unit), share_of_base(each), interval_text(each), counts(each)]
        rows.append([each.metric, *values, *moved, each.verdict.replace("_", " ")])
    yield ""
    yield from _table(rows)
    yield ""
    yield from _table(
        [["", "base", "candidate"]]
        + [
            [kind.replace("_", " "), str(found.classes_base[kind]), str(found.classes_candidate[kind])]
            for kind in reversed(CLASSES)
            if found.classes_base[kind] or found.classes_candidate[kind]
        ]
    )
    for each in found.changes:
        yield from _cases(each)


def _cases(change: Change) -> Iterator[str]:
    from glassbox.replay.figures import amount

    if change.verdict in ("regressed", "unclear", "not_measured"):
        yield ""
        yield f"{change.metric}: {change.verdict.replace('_', ' ')}, {change.reason}"
    rows = [
        [
            f"  {case.case}",
            amount(case.base, change.unit),
            amount(case.candidate, change.unit),
            _moved(case.before, case.after),
        ]
        for case in change.cases[:_SHOWN]
    ]
    yield from _table(rows)
    if len(change.cases) > _SHOWN:
        yield f"  and {len(change.cases) - _SHOWN} more: --json lists them all"


def _moved(before: str, after: str) -> str:
    return (before if before == after else f"{before} -> {after}").replace("_", " ")


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they must be; the first and the last to the left, figures to the right."""
    width: dict[int, int] = {}
    for row in rows:
        for n, cell in enumerate(row):
            width[n] = max(width.get(n, 0), len(cell))
    for row in rows:
        last = len(row) - 1
        cells = (
            cell.ljust(width[n]) if n == 0 or (n == last and not cell[:1].isdigit()) else cell.rjust(width[n])
            for n, cell in enumerate(row)
        )
        yield "  ".join(cells).rstrip()
