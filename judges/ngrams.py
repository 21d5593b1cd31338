"""Where an answer's words stand in its sources: the best window for each sentence, and n-gram overlaps.

Tokens become numbers and both questions array arithmetic, because an answer is held against thousands of source
tokens and each would cost a step of the interpreter.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_GAP = -1


class Window(NamedTuple):
    """Tokens `[start, end)` of source number `source`; `matches` are clipped unigram matches with the sentence."""

    source: int
    start: int
    end: int
    matches: int
    verbatim: bool


class Overlap(NamedTuple):
    """Clipped matches of the answer's n-grams. `total`: how many it has; `in_any`: each clipped by the source that
    has it most often (BLEU's numerator); `in_each`: source by source (ROUGE's)."""

    total: int
    in_any: int
    in_each: tuple[int, ...]


class SourceWords:
    """The tokens of all sources as one array of numbers with a gap after each source."""

    def __init__(self, sources: Sequence[Sequence[str]]) -> None:
        self.words = sources
        self.lengths = tuple(map(len, sources))
        self.numbers: dict[str, int] = {}
        self.starts: list[int] = []
        flat: list[int] = []
        number = self.numbers.setdefault
        for source in sources:
            self.starts.append(len(flat))
            flat += [number(word, len(self.numbers)) for word in source]
            flat.append(_GAP)
        self.flat = np.array(flat, dtype=np.int64)
        self.source = np.repeat(np.arange(len(sources)), [length + 1 for length in self.lengths])

    def numbered(self, tokens: Iterable[str]) -> NDArray[np.int64]:
        """The tokens' numbers; one that no source has is a gap."""
        return np.array([self.numbers.get(token, _GAP) for token in tokens], dtype=np.int64)


def overlaps(answer: Sequence[str], sources: SourceWords, orders: int) -> list[Overlap]:
    """N-gram overlaps for n = 1 … `orders`. O((answer + sources) log answer) for each order."""
    # mine[i] and theirs[i] number the n-gram that begins at i, by its rank among the answer's; a gap: no match.
    words = sources.numbered(answer)
    known = len(sources.numbers)
    mine, theirs = words, sources.flat
    found = []
    for order in range(1, orders + 1):
        if order > 1:
            mine, theirs = _extend(mine, words, order, known), _extend(theirs, sources.flat, order, known)
        grams, counts = np.unique(mine[mine >= 0], return_counts=True)
        mine, _ = _ranked(mine, grams)
        theirs, at = _ranked(theirs, grams)
        pairs, times = np.unique(theirs[at] * len(sources.lengths) + sources.source[at], return_counts=True)
        gram, source = np.divmod(pairs, len(sources.lengths))
        clipped = np.minimum(times, counts[gram])
        in_each = np.bincount(source, weights=clipped, minlength=len(sources.lengths))
        best = np.maximum.reduceat(clipped, np.flatnonzero(np.diff(gram, prepend=-1))) if len(gram) else clipped
        total = max(len(answer) - order + 1, 0)
        found.append(Overlap(total, int(best.sum()), tuple(int(matches) for matches in in_each)))
    return found


def _extend(previous: NDArray[np.int64], words: NDArray[np.int64], order: int, known: int) -> NDArray[np.int64]:
    last = words[order - 1 :]
    head = previous[: len(last)]
    return np.where((head >= 0) & (last >= 0), head * known + last, _GAP)


def _ranked(codes: NDArray[np.int64], grams: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Each code's place among the sorted `grams` or a gap, and the positions of those that have one."""
    ranks = np.full_like(codes, _GAP)
    at = np.flatnonzero(codes >= 0)
    place = np.searchsorted(grams, codes[at])
    inside = place < len(grams)
    at, place = at[inside], place[inside]
    equal = grams[place] == codes[at]
    ranks[at[equal]] = place[equal]
    return ranks, at[equal]


def align(answer: Iterable[Sequence[str]], sources: SourceWords) -> list[Window]:
    """For each sentence of n tokens the n-token window inside one source with the most clipped unigram matches.

    Ties go to a window equal to the sentence, then to the earliest. A source shorter than n is one window.
    With nothing in common it is the first window there is; some source must have a token. O(source tokens) a
    sentence.
    """
    flat = sources.flat
    # Positions grouped by token: the c-th occurrence before a position stands c places to its left.
    grouped = np.argsort(flat, kind="stable")
    place = np.empty_like(grouped)
    place[grouped] = np.arange(len(flat))
    group = np.searchsorted(flat[grouped], np.arange(len(sources.numbers)))
    floor = np.array(sources.starts)[sources.source]
    raw = flat.tobytes()
    limit = np.zeros(len(sources.numbers) + 1, dtype=np.int64)  # the last one is the gaps'

    def window(sentence: Sequence[str]) -> Window:
        numbers = sources.numbered(sentence)
        wanted = Counter(numbers[numbers >= 0].tolist())
        limit[list(wanted)] = list(wanted.values())
        limits = limit[flat]
        limit[list(wanted)] = 0
        # A token at p counts in the windows that begin after the occurrence that would exceed the clip, hold p
        # and lie in p's source: one step up, one step down. A window that would overrun its source holds a part
        # of what an earlier one holds, so the first maximum is never one of them.
        at = np.flatnonzero(limits)
        beyond = place[at] - limits[at]
        before = np.where(beyond >= group[flat[at]], grouped[beyond], -1)
        first = np.maximum(np.maximum(before, at - len(sentence)) + 1, floor[at])
        steps = np.bincount(first, minlength=len(flat) + 1) - np.bincount(at + 1, minlength=len(flat) + 1)
        matches = np.cumsum(steps)
        start = int(np.argmax(matches if len(at) else flat >= 0))  # nothing in common: the first token there is
        best = int(matches[start])
        verbatim = _find(raw, numbers) if best == len(sentence) else -1
        if verbatim >= 0:
            start = verbatim
        source = bisect_right(sources.starts, start) - 1
        begin = start - sources.starts[source]
        return Window(source, begin, min(begin + len(sentence), sources.lengths[source]), best, verbatim >= 0)

    return [window(sentence) for sentence in answer]


def _find(raw: bytes, numbers: NDArray[np.int64]) -> int:
    """First position of the numbers in an array's bytes, or -1."""
    pattern = numbers.tobytes()
    found = raw.find(pattern)
    while found > 0 and found % numbers.itemsize:
        found = raw.find(pattern, found + 1)
    return found // numbers.itemsize
