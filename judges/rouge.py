"""ROUGE (Lin 2004): rouge-score's arithmetic, and ROUGE-L without its table.

rouge-score 0.1.2 fills a table in Python for the longest common subsequence, quadratic in time and memory. A bit
vector (Hyyrö 2004) needs one row, held in an integer. The figures are equal to the last bit on the same tokens.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple


class Rouge(NamedTuple):
    """Each figure in [0, 1]: matches / prediction's, matches / target's, and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def rouge(matches: int, in_target: int, in_prediction: int) -> Rouge:
    """From counts of n-grams, or of tokens for ROUGE-L. A side that has none gives 0."""
    precision = matches / max(in_prediction, 1)
    recall = matches / max(in_target, 1)
    return Rouge(precision, recall, 2 * precision * recall / (precision + recall) if matches else 0.0)


def rouge_l(target: Sequence[Hashable], prediction: Sequence[Hashable]) -> Rouge:
    """Longest common subsequence over the whole text (rougeL; rougeLsum would cut it at line breaks)."""
    return rouge(longest_common_subsequence(target, prediction), len(target), len(prediction))


def best(scores: Iterable[Rouge]) -> Rouge:
    """The score with the highest F1, earliest first: rouge-score's `score_multi`."""
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
