"""Where an answer's words stand in its sources: the best window for each sentence, and n-gram overlaps.

Words become numbers and both questions array arithmetic, because an answer is held against thousands of source
words and each would cost a step of the interpreter. The numbers are those of the answer's words, since a word that it
does not have can match nothing.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, count, pairwise, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

OTHER = -1
"""Number of a word that the answer does not have, and of the gap after each source."""
MOST_CELLS = 150_000_000
"""Pairs of a sentence that is not verbatim and a source word that `align` looks at: seconds at the very most."""
_AT_ONCE = 16_000  # cells of the table of windows; an array of them fits the cache and is not mapped anew each time
_NO_GRAM = np.iinfo(np.int64).max


class Window(NamedTuple):
    """Words `[start, end)` of source number `source`; `matches` are clipped unigram matches with the sentence."""

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


class _Grams(NamedTuple):
    """The answer's n-grams: `at[i]` is the rank of the one that begins at i among the sorted `codes`, which end in
    `_NO_GRAM`, and `counts` how often it has each."""

    at: Numbers
    codes: Numbers
    counts: Numbers


class AnswerWords:
    """An answer's words as numbers, in the order in which it first has them."""

    def __init__(self, words: Sequence[str]) -> None:
        self.numbers = dict(zip(dict.fromkeys(words), count(), strict=False))
        self.flat = self.numbered(words)

    def numbered(self, words: Sequence[str]) -> Numbers:
        """The numbers of any words, `OTHER` for one that the answer does not have."""
        return np.fromiter(map(self.numbers.get, words, repeat(OTHER)), np.int64, len(words))

    def grams(self, orders: int) -> list[_Grams]:
        """For n = 1 … `orders`."""
        while len(self._grams) < orders:
            at = self._grams[-1].at
            tails = self.flat[len(self._grams) :]
            self._grams.append(_ranked(at[: len(tails)] * len(self.numbers) + tails))
        return self._grams[:orders]

    @cached_property
    def _grams(self) -> list[_Grams]:
        return [_Grams(self.flat, np.arange(len(self.numbers)), np.bincount(self.flat))]


def _ranked(codes: Numbers) -> _Grams:
    distinct, at, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return _Grams(at, np.append(distinct, _NO_GRAM), counts)


class SourceWords:
    """All sources by the answer's numbers, as one array with a gap after each source. `starts[i]` is where source i
    begins in `flat` and `lengths[i]` how many words it has."""

    def __init__(self, sources: Sequence[Numbers]) -> None:
        self.lengths = [len(source) for source in sources]
        self.starts = list(accumulate((length + 1 for length in self.lengths[:-1]), initial=0))
        gap = np.array([OTHER])
        self.flat = np.concatenate([part for source in sources for part in (source, gap)])

    def words(self, source: int) -> Numbers:
        """Those of one source."""
        return self.flat[self.starts[source] : self.starts[source] + self.lengths[source]]

    @property
    def first(self) -> int:
        """Where the first source that has a word begins."""
        return next(start for start, length in zip(self.starts, self.lengths, strict=True) if length)

    def have(self, answer: AnswerWords) -> NDArray[np.bool_]:
        """For each word of the answer whether some source has it."""
        known = np.zeros(len(answer.numbers) + 1, dtype=bool)
        known[self.flat] = True  # the last one is for `OTHER`
        return known[answer.flat]

    def number(self, places: Numbers) -> Numbers:
        """Of the source in which each place of `flat` lies."""
        return np.searchsorted(self.starts, places, side="right") - 1


def overlaps(answer: AnswerWords, sources: SourceWords, orders: int) -> list[Overlap]:
    """N-gram overlaps for n = 1 … `orders`. O(sources + (answer + matches) log answer)."""
    found = []
    at = np.flatnonzero(sources.flat != OTHER)  # where the sources have n-grams of the answer, and which
    ranks = sources.flat[at]
    for order, grams in enumerate(answer.grams(orders), 1):
        if order > 1:
            tails = sources.flat[at + (order - 1)]  # the gap stops it at the end of a source
            codes = np.where(tails != OTHER, ranks * len(answer.numbers) + tails, OTHER)
            ranks = np.searchsorted(grams.codes, codes)
            equal = grams.codes[ranks] == codes
            at, ranks = at[equal], ranks[equal]
        best = np.zeros_like(grams.counts)
        in_each = []
        for start, end in pairwise(np.searchsorted(at, [*sources.starts, len(sources.flat)])):
            times = np.bincount(ranks[start:end], minlength=len(grams.counts))
            clipped = np.minimum(times, grams.counts)
            np.maximum(best, clipped, out=best)
            in_each.append(int(clipped.sum()))
        found.append(Overlap(len(grams.at), int(best.sum()), tuple(in_each)))
    return found


def align(answer: AnswerWords, lengths: Iterable[int], sources: SourceWords) -> list[Window]:
    """For each sentence, the answer's next n words by `lengths`, the n-word window inside one source with the most
    clipped unigram matches.

    Ties go to a window equal to the sentence, then to the earliest. A source shorter than n is one window.
    With nothing in common it is the first window there is; some source must have a word. O(source words) for each
    sentence that is neither verbatim nor repeated, in bounded memory. Sentences beyond `MOST_CELLS` are held against
    the window around the first occurrence of their rarest word.
    """
    said, text = _spelled(answer.flat), _spelled(sources.flat)
    bounds = list(pairwise(accumulate(lengths, initial=0)))
    keys = [said[start:end] for start, end in bounds]
    found = {key: text.find(key) for key in dict.fromkeys(keys)}
    reworded = {key: answer.flat[start:end] for key, (start, end) in zip(keys, bounds, strict=True) if found[key] < 0}
    rest = list(reworded.values())
    affordable = MOST_CELLS // len(sources.flat)
    closest = chain(_closest(rest[:affordable], answer, sources), _around_rarest(rest[affordable:], answer, sources))
    best = dict(zip(reworded, closest, strict=True))
    windows = []
    for key in keys:
        length = len(key)
        start, matches = best.get(key) or (found[key], length)
        source = bisect_right(sources.starts, start) - 1
        start -= sources.starts[source]
        windows.append(Window(source, start, min(start + length, sources.lengths[source]), matches, found[key] >= 0))
    return windows


def _closest(sentences: Sequence[Numbers], answer: AnswerWords, sources: SourceWords) -> Iterator[tuple[int, int]]:
    """For each sentence where in `sources.flat` the first window with the most matches begins, and how many."""
    if not sentences:
        return
    known, size = len(answer.numbers), len(sources.flat)
    lengths = np.array([len(sentence) for sentence in sentences])
    codes = np.repeat(np.arange(len(sentences)) * known, lengths) + np.concatenate(sentences)
    pairs, wanted = np.unique(codes, return_counts=True)
    sentence, word = np.divmod(pairs, known)
    # Where the sources have each word: the c-th occurrence before one stands c places to its left.
    at = np.flatnonzero(sources.flat != OTHER)
    places = at[np.argsort(sources.flat[at], kind="stable")]
    often = np.bincount(sources.flat[at], minlength=known)
    group = np.cumsum(often) - often
    floors = np.array(sources.starts)[sources.number(places)]

    rows = max(1, _AT_ONCE // size)
    for top in range(0, len(sentences), rows):
        some = slice(*np.searchsorted(sentence, [top, top + rows]))
        times = often[word[some]]
        # Every occurrence of a sentence's word: its rank among those of the word, its place in the sources.
        rank = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        index = np.repeat(group[word[some]], times) + rank
        place = places.take(index)
        clip = np.repeat(wanted[some], times)
        row = np.repeat((sentence[some] - top) * size, times)
        # A word at p counts in the windows that begin after the occurrence that would exceed the clip, hold p and lie
        # in p's source: one step up, one step down. A window that would overrun its source holds a part of what an
        # earlier one holds, so the first maximum is never one of them.
        beyond = np.where(rank >= clip, places.take(index - clip, mode="clip"), -1)
        first = np.maximum(beyond, place - np.repeat(lengths[sentence[some]], times)) + 1
        first = np.maximum(first, floors.take(index))
        steps = np.bincount(row + first, minlength=min(rows, len(sentences) - top) * size)
        steps[row + place + 1] -= 1
        matches = np.cumsum(steps).reshape(-1, size)
        starts = matches.argmax(axis=1)
        most = matches[np.arange(len(starts)), starts]
        yield from zip(np.where(most, starts, sources.first).tolist(), most.tolist(), strict=True)


def _around_rarest(
    sentences: Sequence[Numbers], answer: AnswerWords, sources: SourceWords
) -> Iterator[tuple[int, int]]:
    """As `_closest`, but only for the window that has the sentence's rarest word where the sentence has it."""
    places = np.flatnonzero(sources.flat != OTHER)
    often = np.bincount(sources.flat[places], minlength=len(answer.numbers))
    first = np.zeros(len(often), dtype=np.int64)
    first[sources.flat[places[::-1]]] = places[::-1]
    for sentence in sentences:
        known = np.flatnonzero(often[sentence])
        if not len(known):
            yield sources.first, 0
            continue
        rarest = int(known[np.argmin(often[sentence[known]])])
        place = int(first[sentence[rarest]])
        source = bisect_right(sources.starts, place) - 1
        last = sources.starts[source] + max(sources.lengths[source] - len(sentence), 0)
        start = min(max(place - rarest, sources.starts[source]), last)
        window = sources.words(source)[start - sources.starts[source] :][: len(sentence)]
        yield start, (Counter(sentence.tolist()) & Counter(window.tolist())).total()


def _spelled(numbers: Numbers) -> str:
    """A character for each number, since strings are searched fastest. A request has far fewer words than there are
    characters."""
    return (numbers + 1).astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
