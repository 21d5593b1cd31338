"""How well a part agrees with people who said of single scorecards whether they agree with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from glassbox.agreement.figures import ONE, Counts, estimate, kappa
from glassbox.contract.agreement import Estimate


def holds(met: bool, agrees: bool) -> bool:
    """What a person says of a part by agreeing, or not, with a verdict on its target: whether it holds."""
    return met == agrees


def kappa_of(said: Iterable[tuple[bool, bool, int]]) -> Estimate | None:
    """Cohen's kappa with its interval, of (met, agrees, how many); None where people say only yes or only no."""
    counts: Counter[tuple[bool, bool]] = Counter()
    for met, agrees, n in said:
        counts[holds(met, agrees), met] += n
    positive, negative = (np.array([counts[label, met] for met in (False, True)]) for label in (True, False))
    return estimate(Counts(np.array([0, ONE]), positive, negative), kappa)
