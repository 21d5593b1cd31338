"""Agreement with people as lines: the report of `glassbox agreement`, and what a scorecard says of its cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from glassbox.dossier.reasons import plain, printable

if TYPE_CHECKING:
    from glassbox.contract.agreement import AgreementCard, Estimate, MethodAgreement, PartAgreement

_FEW = 30
"""Below so many of a class the percentiles of a bootstrap are rough."""

_FOREIGN = {
    "method": "was measured with another method than judged here",
    "target": "was measured at another target",
    "missing": "was not at hand where this was judged",
}


def report(card: AgreementCard, *, unlabelled: int, refused: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The whole report, line by line."""
    yield (
        f"{card.data.n} labelled answers, held against the targets of policy {card.policy.name!r}"
        + (f"; lines without a label: {unlabelled}" if unlabelled else "")
    )
    for each in refused:
        yield f"line {each['line']} was refused: {printable(each['field'])}: {printable(each['reason'])}"
    for part in card.parts:
        yield ""
        yield from _part(part)
    yield ""
    boot = card.bootstrap
    yield (
        f"in parentheses: {float(boot.confidence):.0%} intervals, percentiles of {boot.resamples} bootstrap resamples "
        "within each class"
    )


def _part(part: PartAgreement) -> Iterator[str]:
    yield f"{part.part}: {part.labelled} labels, {part.positives} yes and {part.labelled - part.positives} no"
    for name, causes in (("not applicable", part.not_applicable), ("failed", part.failed)):
        if causes:
            said = ", ".join(f"{n} {plain(cause)}" for cause, n in sorted(causes.items(), key=lambda item: -item[1]))
            yield f"  {name} {sum(causes.values())}: {said}"
    if part.unjudged:
        yield f"  without a verdict {part.unjudged}: refused, or not on the ledger"
    if not part.methods:
        yield "  nothing was scored, so how well it agrees cannot be told"
    for row in part.methods:
        yield from (f"  {line}" for line in _method(part.part, row))


def _method(part: str, row: MethodAgreement) -> Iterator[str]:
    yield f"{row.n} scored by {_name(row)}, method {(row.digest or '?')[:16]}"
    negatives = row.n - row.positives
    if not (row.positives and negatives):
        yield f"all {row.n} labels say {'yes' if row.positives else 'no'}: agreement takes both"
    if row.target is None:
        yield f"the policy has no target for {part}: give one with --threshold {part}=X"
    if row.confusion is not None:
        table = row.confusion
        yield f"{f'score > {_short(row.target)} means yes':<27} {'people: yes':>12} {'no':>6}"
        yield f"{'judge: yes':<27} {table.true_positive:>12} {table.false_positive:>6}"
        yield f"{'judge: no':<27} {table.false_negative:>12} {table.true_negative:>6}"
        yield f"undecided: {row.undecided}, whose bounds lie on both sides of {_short(row.target)}"
    yield f"{'':<27} {'judge':>5} {'':<18} constant guess"
    figures = (
        ("balanced accuracy", row.balanced_accuracy, "0.500"),
        ("  without the undecided", row.decided if row.undecided else None, "0.500"),
        ("true positive rate (TPR)", row.true_positive_rate, "1 or 0"),
        ("true negative rate (TNR)", row.true_negative_rate, "0 or 1"),
        ("kappa", row.kappa, "0.000"),
        ("AUC, at every target", row.auc, "0.500"),
    )
    for title, value, constant in figures:
        if value is not None:
            yield f"{title:<27} {value.value:>5.3f} {_interval(value):<18} {constant}"
    if row.accuracy is not None:
        yield f"{'accuracy':<27} {row.accuracy:>5.3f} {'':<18} {row.constant_accuracy:.3f}"
    few = min(row.positives, negatives)
    if 0 < few < _FEW:
        yield f"only {few} labels say {'yes' if row.positives < negatives else 'no'}: the intervals are rough"
    yield from _suggestion(row)
    yield from _reliability(row)


def _name(row: MethodAgreement) -> str:
    method = row.method
    if method is None:
        return "a method whose document is erased"
    return f"{method.name} ({method.library} {method.version}{f', {method.model}' if method.model else ''})"


def _suggestion(row: MethodAgreement) -> Iterator[str]:
    found = row.suggestion
    if found is None:
        return
    if row.target is not None and row.balanced_accuracy and row.balanced_accuracy.value >= found.in_sample:
        yield f"no target does better than {_short(row.target)} on these labels"
        return
    yield (
        f"a target of {_short(found.target)} has the best balanced accuracy on these labels, {found.in_sample:.3f}; "
        "the policy stays as it is"
    )
    if found.cross_validated is None:
        yield "  too few labels of one class to tell what it would have on others"
    else:
        value = found.cross_validated
        yield (
            f"  chosen so and measured on labels left out ({found.folds} folds): {value.value:.3f} {_interval(value)}"
        )


def _reliability(row: MethodAgreement) -> Iterator[str]:
    from glassbox.agreement.figures import RELIABILITY_FROM
    from glassbox.agreement.plot import text_plot

    if row.reliability is None:
        yield f"no reliability plot: it takes {RELIABILITY_FROM} labelled scores, and there are {row.n}"
        return
    error = row.reliability.expected_calibration_error
    yield f"reliability: expected calibration error {error:.3f} (●: share that people call yes, |: mean score)"
    yield from (f"  {line}" for line in text_plot(row.reliability))


def _interval(value: Estimate) -> str:
    return f"({value.low:.3f} to {value.high:.3f})"


def _short(target: Any) -> str:
    """A figure without the zeros at its end."""
    return f"{target.normalize():f}"


def cards(evidence: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Part -> what its agreement card says of the judge behind it. `evidence`: worker kind -> its evidence."""
    from judges.agreement import AGREEMENT

    return {part: said for kind in evidence.values() for part, said in (kind.get(AGREEMENT) or {}).items()}


def carried(evidence: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The same as lines."""
    lines = []
    for part, found in cards(evidence).items():
        card, value = found["card"][:16], found.get("balanced_accuracy")
        if "foreign" in found:
            lines.append(f"{part}: not known: card {card} {_FOREIGN[found['foreign']]}")
        elif value is None:
            lines.append(f"{part}: not known: card {card} has no balanced accuracy")
        else:
            middle, low, high = (f"{Decimal(value[name]):.3f}" for name in ("value", "low", "high"))
            lines.append(
                f"{part}: balanced accuracy {middle} ({low} to {high}) on {found['n']} labelled answers "
                f"at > {_short(Decimal(found['target']))}, card {card}"
            )
    return lines
