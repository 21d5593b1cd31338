"""ROUGE-N and ROUGE-L on token lists (Lin 2004), equal to the last bit to rouge-score 0.1.2 on the same tokens.

Written here because rouge-score fills a table in Python for the longest common subsequence: quadratic time and
memory. A bit vector (Hyyrö 2004) needs one row of it, held in an integer.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple


class Rouge(NamedTuple):
    """Each figure in [0, 1]: matches / prediction's, matches / target's, and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def rouge_n(target: Sequence[Hashable], prediction: Sequence[Hashable], n: int) -> Rouge:
    """Clipped n-gram overlap. All zero where either side is shorter than n tokens."""
    predicted = Counter(_ngrams(prediction, n))
    # Only the prediction's n-grams can match: a long target costs one look-up a token and no memory.
    wanted = Counter(filter(predicted.__contains__, _ngrams(target, n)))
    matches = sum(min(count, predicted[gram]) for gram, count in wanted.items())
    return _rouge(matches, len(target) - n + 1, len(prediction) - n + 1)


def rouge_l(target: Sequence[Hashable], prediction: Sequence[Hashable]) -> Rouge:
    """Longest common subsequence over the whole text (rougeL; rougeLsum would cut it at line breaks)."""
    return _rouge(longest_common_subsequence(target, prediction), len(target), len(prediction))


def best(scores: Sequence[Rouge]) -> Rouge:
    """The score against the target with the highest F1, earliest first: rouge-score's `score_multi`."""
    return max(scores, key=lambda score: score.f1)


def longest_common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Its length in tokens. O(len(a) · len(b) / machine word) time, O(len(a)) words of memory."""
    if len(b) < len(a):
        a, b = b, a
    positions: dict[Hashable, int] = {}
    bit = 1
    for token in a:
        positions[token] = positions.get(token, 0) | bit
        bit <<= 1
    everything = bit - 1
    # A zero bit at i: the subsequence grows where a[i] joins it. Tokens of b that a lacks change nothing.
    row = everything
    for mask in filter(None, map(positions.get, b)):
        step = row & mask
        row = ((row + step) | (row - step)) & everything
    return len(a) - row.bit_count()


def _ngrams(tokens: Sequence[Hashable], n: int) -> Iterator[tuple[Hashable, ...]]:
    return zip(*(tokens[i:] for i in range(n)), strict=False)


def _rouge(matches: int, in_target: int, in_prediction: int) -> Rouge:
    precision = matches / max(in_prediction, 1)
    recall = matches / max(in_target, 1)
    f1 = 2 * precision * recall / (precision + recall) if matches else 0.0
    return Rouge(precision, recall, f1)
