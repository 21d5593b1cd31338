"""A long text as overlapping windows that a model of limited length can read."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

Fits = Callable[[int, int], bool]
"""Whether the words `[start, end)` are not too many for one window; true of any part of what fits."""


def windows(count: int, starts: Sequence[int], fits: Fits) -> tuple[list[tuple[int, int]], int]:
    """Windows over `count` words as half-open ranges in reading order, and how many sentences had to be cut.

    `starts`: the words at which sentences begin, rising, the first 0. A window is a run of whole sentences, as long
    as it fits; the next begins with the last sentence of the one before, where that leaves it room for a new one.
    A sentence that does not fit is cut into pieces that share a quarter of their words. Every word is in a window;
    one that does not fit alone has a window to itself.
    """
    bounds = [*starts, count]
    made: list[tuple[int, int]] = []
    cut = first = 0
    while first < len(bounds) - 1:
        last = first + 1
        if not fits(bounds[first], bounds[last]):
            made += _pieces(bounds[first], bounds[last], fits)
            cut += 1
            first = last
            continue
        while last < len(bounds) - 1 and fits(bounds[first], bounds[last + 1]):
            last += 1
        made.append((bounds[first], bounds[last]))
        again = last - 1 > first and last < len(bounds) - 1 and fits(bounds[last - 1], bounds[last + 1])
        first = last - 1 if again else last
    return made, cut


def _pieces(start: int, end: int, fits: Fits) -> list[tuple[int, int]]:
    made = []
    while True:
        # The first end that does not fit any more; at least one word is taken.
        after = max(
            bisect_left(range(start + 1, end + 1), True, key=lambda stop: not fits(start, stop)) + start, start + 1
        )
        made.append((start, after))
        if after == end:
            return made
        start = max(after - (after - start) // 4, start + 1)


def sentence_starts(words: Sequence[tuple[int, int]], sentences: Sequence[tuple[int, int]]) -> list[int]:
    """The words at which sentences begin, given where words and sentences stand in their text; the first is 0.
    What stands between two sentences (the mark of a list) belongs to the one before."""
    if not words:
        return []
    begins = [start for start, _ in words]
    return sorted({0, *(n for start, _ in sentences if (n := bisect_left(begins, start)) < len(words))})
