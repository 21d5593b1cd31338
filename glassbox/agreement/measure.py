"""From labels and verdicts to an agreement card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from glassbox.agreement.figures import (
    ONE,
    Counts,
    auc,
    balanced_accuracy,
    confusion,
    estimate,
    kappa,
    meets,
    reliability,
    rounded,
    suggestion,
    true_negative_rate,
    true_positive_rate,
)
from glassbox.contract.agreement import CardData, MethodAgreement, PartAgreement
from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.contract.request import EvaluationRequest
from glassbox.contract.verdict import Failed, Method, NotApplicable, Scored


@dataclass(frozen=True)
class Opinion:
    """What people and a judge say of one part of one evaluation.

    `verdict`: None where nothing was judged. `method_digest` stands apart from it, because it outlives the method's
    document when an evaluation is erased.
    """

    label: bool
    verdict: Scored | NotApplicable | Failed | None
    method_digest: str | None


def part_agreement(part: str, opinions: Sequence[Opinion], target: Decimal | None) -> PartAgreement:
    """The figures of one part, apart for each method: numbers of different methods do not compare.

    `target`: where a score begins to mean yes, in [0, 1]; None leaves out what depends on it.
    """
    by_method: dict[str | None, list[tuple[bool, Scored]]] = {}
    not_applicable: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for opinion in opinions:
        match opinion.verdict:
            case Scored() as verdict:
                by_method.setdefault(opinion.method_digest, []).append((opinion.label, verdict))
            case NotApplicable(cause=cause):
                not_applicable[cause] += 1
            case Failed(cause=cause):
                failed[cause] += 1
    return PartAgreement(
        part=part,
        labelled=len(opinions),
        positives=sum(opinion.label for opinion in opinions),
        not_applicable=dict(not_applicable),
        failed=dict(failed),
        unjudged=sum(opinion.verdict is None for opinion in opinions),
        methods=tuple(
            _method_agreement(digest, scored, target)
            for digest, scored in sorted(by_method.items(), key=lambda item: (-len(item[1]), item[0] or ""))
        ),
    )


def _method_agreement(
    digest: str | None, scored: Sequence[tuple[bool, Scored]], target: Decimal | None
) -> MethodAgreement:
    method: Method | None = next((verdict.method for _, verdict in scored if verdict.method), None)
    labels = [label for label, _ in scored]
    scores = [_units(verdict.score) for _, verdict in scored]
    counts = Counts.of(scores, labels)
    positives = sum(labels)
    return MethodAgreement(
        digest=digest,
        method=method,
        target=target,
        n=len(scored),
        positives=positives,
        constant_accuracy=rounded(max(positives, len(labels) - positives) / len(labels)),
        auc=estimate(counts, auc),
        reliability=reliability(scores, labels),
        suggestion=suggestion(scores, labels),
        **_at_target(counts, scored, target),
    )


def _at_target(counts: Counts, scored: Sequence[tuple[bool, Scored]], target: Decimal | None) -> dict[str, Any]:
    if target is None:
        return dict.fromkeys(
            (
                *("undecided", "confusion", "balanced_accuracy", "decided"),
                *("true_positive_rate", "true_negative_rate", "kappa", "accuracy"),
            )
        )
    at = _units(target)
    sides = meets(np.array([[_units(verdict.low), _units(verdict.high)] for _, verdict in scored]), at)
    told = [pair for pair, (low, high) in zip(scored, sides, strict=True) if low == high]
    decided = Counts.of([_units(verdict.score) for _, verdict in told], [label for label, _ in told])
    said = counts.at(at)
    table = confusion(said)
    return {
        "undecided": len(scored) - len(told),
        "confusion": table,
        "balanced_accuracy": estimate(said, balanced_accuracy),
        "decided": estimate(decided.at(at), balanced_accuracy),
        "true_positive_rate": estimate(said, true_positive_rate),
        "true_negative_rate": estimate(said, true_negative_rate),
        "kappa": estimate(said, kappa),
        "accuracy": rounded((table.true_positive + table.true_negative) / len(scored)),
    }


def data_digest(labelled: Iterable[tuple[EvaluationRequest, Mapping[str, bool]]]) -> CardData:
    """Which labelled evaluations these are, whatever their ids and their order in the file."""
    digests = sorted(
        sha256_hex(b'{"labels":' + canonical(dict(labels)) + b',"request":' + request.canonical() + b"}")
        for request, labels in labelled
    )
    return CardData(digest=sha256_hex(canonical(digests)), n=len(digests))


def _units(value: Decimal) -> int:
    return int(value * ONE)
