"""How far a difference of two figures could be chance: a bootstrap over the cases, and the noise between repeats.

Seeded, so that the same values give the same bounds; vectorised, in portions of bounded memory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glassbox.replay.metrics import Aggregate

RESAMPLES, CONFIDENCE, SEED = 2000, 0.95, 0
NOISE_RESAMPLES = 400
"""Enough for a standard deviation to within 4 %."""
PLACES = 6
_CELLS = 2_000_000
"""Numbers held at once in one array."""
_NORMAL = 1.959964
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""

Values = Mapping[str, Sequence[float | None]]
"""Case -> its value in each repeat; None where the metric does not apply."""
Floats = npt.NDArray[np.float64]


class Measured(NamedTuple):
    """One metric of two runs over the same cases."""

    base: Values
    candidate: Values
    how: Aggregate


def intervals(measured: Mapping[str, Measured]) -> dict[str, tuple[float, float]]:
    """By metric, the percentile bootstrap interval (Efron 1979) of candidate − base, at `CONFIDENCE`.

    Paired: cases are drawn with replacement, and each brings its values of both runs, repeats included. Drawn from the
    cases that have a value in either run; a draw that leaves one run without a value does not count. Metrics
    that apply to the same cases see the same draws.
    """
    groups: dict[tuple[str, ...], dict[str, tuple[_Side, _Side]]] = defaultdict(dict)
    for name, (base, candidate, how) in measured.items():
        cases = tuple(case for case in base if any(v is not None for v in (*base[case], *candidate[case])))
        sides = [_Side([side[case] for case in cases], how) for side in (base, candidate)]
        groups[cases][name] = (sides[0], sides[1])
    deltas: dict[str, list[Floats]] = defaultdict(list)
    for cases, pairs in groups.items():
        for weights in _weights(len(cases)):
            for name, (before, after) in pairs.items():
                deltas[name].append(after.figures(weights) - before.figures(weights))
    return {name: _bounds(np.concatenate(deltas[name])) for name in measured}


def _bounds(deltas: Floats) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(deltas[np.isfinite(deltas)], [tail, 1 - tail])
    return round(float(low), PLACES), round(float(high), PLACES)


def _weights(cases: int) -> Iterator[Floats]:
    """How often each case is drawn in each resample: shape (resamples, cases), in portions."""
    generator = np.random.default_rng(SEED)
    left, most = RESAMPLES, max(1, _CELLS // cases)
    while left:
        rows = min(left, most)
        drawn = generator.integers(0, cases, size=(rows, cases))
        drawn += np.arange(rows)[:, None] * cases
        yield np.bincount(drawn.ravel(), minlength=rows * cases).reshape(rows, cases).astype(np.float64)
        left -= rows


class _Side:
    """The values of one run by one metric, from a row for each case."""

    def __init__(self, rows: Sequence[Sequence[float | None]], how: Aggregate) -> None:
        found = [(value, n) for n, row in enumerate(rows) for value in row if value is not None]
        values = np.array([value for value, _ in found], dtype=np.float64)
        case = np.array([n for _, n in found], dtype=np.int64)
        order = np.argsort(values, kind="stable")
        self._how = how
        self._values, self._case = values[order], case[order]
        self._sums = np.bincount(case, weights=values, minlength=len(rows))
        self._counts = np.bincount(case, minlength=len(rows)).astype(np.float64)

    def figures(self, weights: Floats) -> Floats:
        """The aggregate in each resample, NaN where it has no value; (rows, cases) -> (rows,)."""
        total = weights @ self._counts
        if self._how == "mean":
            with np.errstate(invalid="ignore"):
                return np.asarray(weights @ self._sums / total, dtype=np.float64)
        reached = np.cumsum(weights[:, self._case], axis=1)
        ranks = [np.ceil(total * 95 / 100)] if self._how == "p95" else [np.ceil(total / 2), np.floor(total / 2) + 1]
        found = np.mean([self._values[(reached >= rank[:, None]).argmax(axis=1)] for rank in ranks], axis=0)
        return np.where(total > 0, found, np.nan)


def noise(base: Values, candidate: Values, how: Aggregate) -> float | None:
    """The noise floor of candidate − base: how far two runs of an unchanged system differ in 95 of 100 pairs. None
    where neither run has repeats.

    Cases stand fixed; for each a repeat is drawn anew, as often as it was run. R repeats vary (R − 1) / R as much as
    what they are a sample of, which is corrected for. A run without repeats is taken to be as noisy as the other.
    Blind to what all cases of a run share, such as the load of the machine.
    """
    sides = [
        np.array([[np.nan if v is None else v for v in row] for row in side.values()]) for side in (base, candidate)
    ]
    repeats = [side.shape[1] for side in sides]
    single = [_variance(side, how) * n if n > 1 else None for side, n in zip(sides, repeats, strict=True)]
    measured = [each for each in single if each is not None]
    if not measured:
        return None
    variance = sum((measured[0] if each is None else each) / n for each, n in zip(single, repeats, strict=True))
    return round(_NORMAL * math.sqrt(variance), PLACES)


def _variance(values: Floats, how: Aggregate) -> float:
    """Variance of a run's figure over its repeats, from values of shape (cases, repeats)."""
    values = values[~np.isnan(values).all(axis=1)]
    cases, repeats = values.shape
    if not cases or np.array_equal(values, np.repeat(values[:, :1], repeats, axis=1), equal_nan=True):
        return 0.0
    generator = np.random.default_rng(SEED)
    left, most, figures = NOISE_RESAMPLES, max(1, _CELLS // values.size), []
    while left:
        rows = min(left, most)
        drawn = generator.integers(0, repeats, size=(rows, cases, repeats))
        figures.append(_figures(np.take_along_axis(values[None], drawn, axis=2).reshape(rows, -1), how))
        left -= rows
    return float(np.nanvar(np.concatenate(figures)) * repeats / (repeats - 1))


def _figures(values: Floats, how: Aggregate) -> Floats:
    """The aggregate of each row, values that are NaN left out; NaN where a row has none."""
    ordered = np.sort(values, axis=1)  # NaN comes last
    total = (~np.isnan(values)).sum(axis=1)
    if how == "mean":
        return np.asarray(np.nansum(values, axis=1) / np.where(total, total, np.nan), dtype=np.float64)
    ranks = [-(-95 * total // 100)] if how == "p95" else [(total + 1) // 2, total // 2 + 1]
    rows = np.arange(len(ordered))
    return np.asarray(np.mean([ordered[rows, np.maximum(rank, 1) - 1] for rank in ranks], axis=0), dtype=np.float64)
