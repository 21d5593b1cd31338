"""Agreement of scores with yes-or-no labels: the figures, and their intervals by the bootstrap.

Scores are whole numbers of millionths in [0, 1000000]: recorded figures have 6 places and compare exactly. A score
meets a target when it is above it or perfect (`contract.composite.meets_target`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from glassbox.contract.agreement import Bin, Bootstrap, Confusion, Estimate, Reliability, Suggestion
from glassbox.contract.composite import PLACES
from judges.claims import wilson

ONE = 10**PLACES
BOOTSTRAP = Bootstrap(resamples=2000, confidence=Decimal("0.95"), seed=0)
RELIABILITY_FROM = 200
"""Labelled scores from which a reliability plot says something."""
BINS = 10
FOLDS = 10

_CELLS = 4_000_000
"""Numbers of resampled counts held at once."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


def meets(scores: Ints, target: int) -> Booleans:
    """Which scores meet a target; shapes are equal."""
    return np.asarray((scores > target) | (scores == ONE), dtype=np.bool_)


@dataclass(frozen=True)
class Counts:
    """Distinct scores in rising order, and how many positive and negative labels each has.

    `scores` has shape (L,); `positive` and `negative` shape (…, L): one row, or one a resample.
    """

    scores: Ints
    positive: Ints
    negative: Ints

    @classmethod
    def of(cls, scores: Sequence[int] | Ints, labels: Sequence[bool] | Booleans) -> Counts:
        levels, place = np.unique(np.asarray(scores, dtype=np.int64), return_inverse=True)
        said = np.asarray(labels, dtype=bool)
        size = len(levels)
        return cls(levels, np.bincount(place[said], minlength=size), np.bincount(place[~said], minlength=size))

    @property
    def both(self) -> bool:
        """Whether both classes have an example."""
        return bool(self.positive.sum() and self.negative.sum())

    def at(self, target: int) -> Counts:
        """The same labels with two scores, 0 where the target is not met and 1 where it is: what the figures at a
        target take."""
        met = meets(self.scores, target)
        positive, negative = (np.array([some @ ~met, some @ met]) for some in (self.positive, self.negative))
        return Counts(np.array([0, ONE]), positive, negative)

    def resampled(self) -> Iterator[Counts]:
        """`BOOTSTRAP.resamples` resamples in portions, the same ones for the same counts.

        Stratified: each keeps the number of both classes, because the rates are within a class and a resample
        without a class would have none. Kappa's intervals hold for the prevalence of these labels.
        """
        generator = np.random.default_rng(BOOTSTRAP.seed)
        left, most = BOOTSTRAP.resamples, max(1, _CELLS // len(self.scores))
        while left:
            rows = min(left, most)
            drawn = [generator.multinomial(c.sum(), c / c.sum(), size=rows) for c in (self.positive, self.negative)]
            yield Counts(self.scores, *drawn)
            left -= rows


Statistic = Callable[[Counts], Floats]
"""From counts of shape (…, L) to figures of shape (…). All but `auc` take counts at a target."""


def true_positive_rate(counts: Counts) -> Floats:
    """Of what people call positive, the share whose score meets the target (sensitivity); in [0, 1]."""
    return np.asarray(counts.positive[..., 1] / counts.positive.sum(axis=-1), dtype=np.float64)


def true_negative_rate(counts: Counts) -> Floats:
    """Of what people call negative, the share whose score does not meet the target (specificity); in [0, 1]."""
    return np.asarray(counts.negative[..., 0] / counts.negative.sum(axis=-1), dtype=np.float64)


def balanced_accuracy(counts: Counts) -> Floats:
    """Mean of the two rates, in [0, 1]; .5 for any constant judge."""
    return (true_positive_rate(counts) + true_negative_rate(counts)) / 2


def kappa(counts: Counts) -> Floats:
    """Cohen's kappa (1960): agreement beyond chance, in [-1, 1]; 0 for a constant judge. Needs both classes."""
    positives, negatives = counts.positive.sum(axis=-1), counts.negative.sum(axis=-1)
    n = positives + negatives
    said = counts.positive[..., 1] + counts.negative[..., 1]
    agreed = (counts.positive[..., 1] + counts.negative[..., 0]) / n
    chance = (positives * said + negatives * (n - said)) / n**2  # below 1 while both classes have examples
    return np.asarray((agreed - chance) / (1 - chance), dtype=np.float64)


def auc(counts: Counts) -> Floats:
    """Area under the ROC curve, in [0, 1]: the chance that a positive scores above a negative, ties counting half
    (Mann-Whitney U over the number of pairs; Hanley and McNeil 1982)."""
    below = np.cumsum(counts.negative, axis=-1) - counts.negative
    wins = (counts.positive * (below + counts.negative / 2)).sum(axis=-1)
    pairs = counts.positive.sum(axis=-1) * counts.negative.sum(axis=-1)
    return np.asarray(wins / pairs, dtype=np.float64)


def estimate(counts: Counts, statistic: Statistic) -> Estimate | None:
    """The figure with its percentile interval (Efron 1979); None where a class has no example."""
    if not counts.both:
        return None
    drawn = np.concatenate([np.atleast_1d(statistic(some)) for some in counts.resampled()])
    tail = (1 - float(BOOTSTRAP.confidence)) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    value = float(statistic(counts))
    # a percentile may miss the value itself by a rounding
    return Estimate(value=rounded(value), low=rounded(min(low, value)), high=rounded(max(high, value)))


def confusion(counts: Counts) -> Confusion:
    (false_negative, true_positive), (true_negative, false_positive) = counts.positive, counts.negative
    return Confusion(
        true_positive=int(true_positive),
        false_positive=int(false_positive),
        false_negative=int(false_negative),
        true_negative=int(true_negative),
    )


def reliability(scores: Sequence[int], labels: Sequence[bool]) -> Reliability | None:
    """Ten bins of equal width (the last holds 1) and the expected calibration error, the mean over all scores of what
    their bin's mean score lacks to the share of positives (Naeini et al. 2015). None below `RELIABILITY_FROM`."""
    if len(scores) < RELIABILITY_FROM:
        return None
    values, said = np.asarray(scores, dtype=np.int64), np.asarray(labels, dtype=bool)
    place = np.minimum(values * BINS // ONE, BINS - 1)
    bins, error = [], 0.0
    for k in map(int, np.unique(place)):
        inside = place == k
        n, positives = int(inside.sum()), int(said[inside].sum())
        mean, share = float(values[inside].mean()) / ONE, positives / n
        low, high = wilson(positives, n)
        bins.append(
            Bin(
                lower=rounded(k / BINS),
                upper=rounded((k + 1) / BINS),
                n=n,
                mean_score=rounded(mean),
                share=rounded(share),
                low=rounded(low),
                high=rounded(high),
            )
        )
        error += n / len(values) * abs(share - mean)
    return Reliability(expected_calibration_error=rounded(error), bins=tuple(bins))


def suggestion(scores: Sequence[int], labels: Sequence[bool]) -> Suggestion | None:
    """The target with the highest balanced accuracy, of equals the strictest; None where a class has no example, or
    where no target does better than a constant judge.

    Chosen on the labels it is measured on, it looks too good; so the choice is repeated on nine tenths of each class
    and measured on the tenth that was left out, for each tenth (fewer folds where a class has fewer than ten).
    """
    counts = Counts.of(scores, labels)
    if not counts.both:
        return None
    target = _best_target(counts)
    best = rounded(float(balanced_accuracy(counts.at(target))))
    if best <= Decimal("0.5"):
        return None
    folds = min(FOLDS, int(counts.positive.sum()), int(counts.negative.sum()))
    return Suggestion(
        target=Decimal(target).scaleb(-PLACES),
        in_sample=best,
        cross_validated=_cross_validated(scores, labels, folds) if folds > 1 else None,
        folds=folds if folds > 1 else 0,
    )


def _cross_validated(scores: Sequence[int], labels: Sequence[bool], folds: int) -> Estimate | None:
    values, said = np.asarray(scores, dtype=np.int64), np.asarray(labels, dtype=bool)
    order = np.lexsort((values, said))  # the folds do not depend on the order of the file
    values, said = values[order], said[order]
    fold = np.empty(len(values), dtype=np.int64)
    generator = np.random.default_rng(BOOTSTRAP.seed)
    for label in (False, True):
        (places,) = np.nonzero(said == label)
        fold[generator.permutation(places)] = np.arange(len(places)) % folds
    met = np.empty(len(values), dtype=bool)
    for k in range(folds):
        out = fold == k
        met[out] = meets(values[out], _best_target(Counts.of(values[~out], said[~out])))
    return estimate(Counts.of(met * ONE, said).at(0), balanced_accuracy)


def _best_target(counts: Counts) -> int:
    """In millionths, with as few decimal places as lie between the scores that it separates."""
    below = counts.scores < ONE  # a perfect score meets every target
    scores = np.concatenate(([0], counts.scores[below], [ONE]))
    positive, negative = (np.cumsum(np.append(0, some[below])) for some in (counts.positive, counts.negative))
    twice = 1 - positive / counts.positive.sum() + negative / counts.negative.sum()  # of a target at each score
    best = np.flatnonzero(np.isclose(twice, twice.max(), rtol=0, atol=1e-12))[-1]
    lowest, above = int(scores[best]), int(scores[best + 1])
    step: int
    for step in (ONE // 10, ONE // 100, ONE // 1000, ONE // 10**4, ONE // 10**5):
        middle = round((lowest + above) / 2 / step) * step
        if lowest <= middle < above:
            return middle
    return (lowest + above) // 2


def rounded(value: float) -> Decimal:
    """A finite number to 6 places, half to even, without a negative zero."""
    assert math.isfinite(value)
    return Decimal(value).quantize(Decimal(1).scaleb(-PLACES)) + 0
