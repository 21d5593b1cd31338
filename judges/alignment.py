"""Where in a text a claim stands: as it is, as a reader sees it, or in the window that shares most of its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judges.shown import Shown
from judges.text import Token, best_window, stem, words

MIN_SHARE = 0.5
"""Of the claim's words that a window must hold to count as the claim's place."""

CANDIDATES = 4
"""Passages that are searched for a window: those that share most words with the claim."""


@dataclass(frozen=True)
class Aligned:
    """A text as it was shown and its words, made once for many claims. Places are those of the text as given."""

    shown: Shown
    tokens: list[Token]
    stems: list[str]
    vocabulary: frozenset[str]

    @classmethod
    def of(cls, shown: Shown) -> Aligned:
        tokens = words(shown.text)
        stems = [stem(token.text) for token in tokens]
        return cls(shown, tokens, stems, frozenset(stems))

    def place(self, start: int, end: int) -> dict[str, int]:
        """`start`, `end`: character offsets into the given text, for those into the shown one."""
        span = self.shown.span(start, end)
        return {"start": span.start, "end": span.end}


class Locator:
    """Finds the claims of an answer one after another: they repeat words, so the search goes on where the last was."""

    def __init__(self, answer: Aligned) -> None:
        self._answer, self._after = answer, 0

    def locate(self, claim: str) -> dict[str, Any]:
        """The claim's place in the answer as {`start`, `end`, `alignment`}: character offsets into the given text; or
        {`alignment`: `unaligned`}.

        `exact`: the given text from `start` to `end` is the claim; `as_seen`: it is but for characters that nobody
        sees, or that belong to an attack and are not shown; `window`: it shares most of the claim's words.
        """
        answer = self._answer
        for origin in (self._after, 0):
            start = answer.shown.text.find(claim, origin)
            if start >= 0:
                self._after = start + len(claim)
                place = answer.place(start, self._after)
                hidden = place["end"] - place["start"] > len(claim)
                return {**place, "alignment": "as_seen" if hidden else "exact"}
        needle = [stem(token.text) for token in words(claim)]
        span, share = _window(needle, answer, len(needle))
        if span is None or share < MIN_SHARE:
            return {"alignment": "unaligned"}
        self._after = span[1]
        return {**answer.place(*span), "alignment": "window"}


def support(claim: str, passages: Sequence[Aligned]) -> dict[str, Any] | None:
    """The window of one passage that shares most words with the claim, as {`passage`, `start`, `end`}: the place in
    the list and character offsets into the given passage. None where no passage shares half of them."""
    needle = [stem(token.text) for token in words(claim)]
    wanted = frozenset(needle)
    by_words = sorted(range(len(passages)), key=lambda n: -len(wanted & passages[n].vocabulary))
    best: dict[str, Any] | None = None
    most = 0.0
    for n in sorted(by_words[:CANDIDATES]):
        span, share = _window(needle, passages[n], max(30, 2 * len(needle)))
        if span is not None and share > most:
            best, most = {"passage": n, **passages[n].place(*span)}, share
    return best if most >= MIN_SHARE else None


def _window(needle: Sequence[str], source: Aligned, size: int) -> tuple[tuple[int, int] | None, float]:
    """Character span of the shortest run of words that holds what the best window of `size` words shares with the
    needle, and the share of the needle that this is."""
    if not needle:
        return None, 0.0
    window = best_window(needle, source.stems, size)
    if not window.matches:
        return None, 0.0
    first, last = _shortest(needle, source.stems, window.start, min(window.start + size, len(source.stems)))
    return (source.tokens[first].start, source.tokens[last].end), window.matches / len(needle)


def _shortest(needle: Sequence[str], stems: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """First and last position of the shortest run in [start, end) with all that the range shares with the needle."""
    missing = Counter(needle) & Counter(stems[start:end])
    left = missing.total()
    best = (start, end - 1)
    first = start
    for last in range(start, end):
        if stems[last] in missing:
            left -= missing[stems[last]] > 0
            missing[stems[last]] -= 1
        while left == 0:
            if last - first < best[1] - best[0]:
                best = (first, last)
            if stems[first] in missing:
                missing[stems[first]] += 1
                left += missing[stems[first]] > 0
            first += 1
    return best
