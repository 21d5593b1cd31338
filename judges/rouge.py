"""ROUGE (Lin 2004): rouge-score's arithmetic, and ROUGE-L without its table.

rouge-score 0.1.2 fills a table in Python for the longest common subsequence, quadratic in time and memory. A bit
vector (Hyyrö 2004) needs one row, held in integers. The figures are equal to the last bit on the same tokens.
"""

from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat
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


def best(scores: Iterable[Rouge]) -> Rouge:
    """The score with the highest F1, earliest first: rouge-score's `score_multi`."""
    return max(scores, key=lambda score: score.f1)


class Prediction:
    """A text that is held against several targets. `block`: bits of a row in one integer, which bounds what the
    positions of its tokens take of memory."""

    def __init__(self, tokens: Sequence[Hashable], block: int = 8_192) -> None:
        self.tokens = tokens
        self.blocks = [
            (len(part), _positions(part)) for part in (tokens[n : n + block] for n in range(0, len(tokens), block))
        ]

    def common(self, target: Sequence[Hashable]) -> int:
        """Length of the longest common subsequence in tokens, over the whole text: rougeL. (rougeLsum would cut both at
        line breaks.) O(len(prediction) · len(target) / machine word) time."""
        if target == self.tokens:
            return len(target)
        # A zero bit at i: the subsequence grows where the prediction's token i joins it. Addition moves it there, and
        # across the blocks by a carry.
        length = 0
        carries: Iterable[bool] = repeat(False)
        for size, positions in self.blocks:
            row = full = (1 << size) - 1
            carried = []
            for mask, carry in zip(map(positions.get, target), carries, strict=False):
                over = False
                if mask or carry:
                    step = row & mask if mask else 0
                    moved = row + step
                    if carry:
                        moved += 1
                    row = moved | (row ^ step)
                    if over := row > full:
                        row &= full
                carried.append(over)
            carries = carried
            length += size - row.bit_count()
        return length


def _positions(tokens: Sequence[Hashable]) -> dict[Hashable, int]:
    """For each token the bits at which it stands."""
    positions: dict[Hashable, int] = {}
    bit = 1
    for token in tokens:
        positions[token] = positions.get(token, 0) | bit
        bit <<= 1
    return positions
