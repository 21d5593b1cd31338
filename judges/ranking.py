"""A ranked list of passages: which of them are judged, and what a list of verdicts is worth."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True)
class Ranking:
    """The passages that are judged, in rank order, and those that are not.

    `kept[k]` is the place in the request of the passage at rank k + 1; `duplicates` maps the place of a passage to
    that of the first with the same text; `blank` holds the places of passages without a letter or digit.
    """

    kept: tuple[int, ...]
    duplicates: dict[int, int]
    blank: tuple[int, ...]


def rank(texts: Sequence[str]) -> Ranking:
    """Rank is the order of the list. Texts that are equal after NFC and with white space collapsed are one passage:
    a retriever that repeats a hit has not found two."""
    first: dict[str, int] = {}
    duplicates: dict[int, int] = {}
    blank: list[int] = []
    for place, text in enumerate(texts):
        if not any(map(str.isalnum, text)):
            blank.append(place)
            continue
        known = first.setdefault(" ".join(unicodedata.normalize("NFC", text).split()), place)
        if known != place:
            duplicates[place] = known
    return Ranking(tuple(first.values()), duplicates, tuple(blank))


def precision_at(relevant: Sequence[bool]) -> list[float]:
    """Precision at each rank k: relevant among the first k, divided by k."""
    return [found / k for k, found in enumerate(accumulate(map(int, relevant)), start=1)]


def average_precision(relevant: Sequence[bool]) -> float:
    """(1 / R) * sum over the relevant ranks k of precision at k, in [0, 1]; 0 where nothing is relevant."""
    hits = [precision for precision, hit in zip(precision_at(relevant), relevant, strict=True) if hit]
    return sum(hits) / len(hits) if hits else 0.0


def order_disagrees(scores: Sequence[float], *, higher_is_better: bool) -> bool:
    """Whether the retriever's scores rank some passage above one that stands before it in the list."""
    sign = 1 if higher_is_better else -1
    return any(sign * later > sign * earlier for earlier, later in pairwise(scores))


def portions(sizes: Sequence[int], most: int, count: int) -> list[range]:
    """Consecutive positions of `sizes` in as few portions as fit: at most `count` each and at most `most` in sum,
    but for one that is larger by itself."""
    made: list[range] = []
    start = total = 0
    for n, size in enumerate(sizes):
        if n > start and (total + size > most or n - start == count):
            made.append(range(start, n))
            start, total = n, 0
        total += size
    return [*made, range(start, len(sizes))] if sizes else made
