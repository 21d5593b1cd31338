"""A text as it is seen: without invisible characters, and with the way back to the text as it was given."""

import re
from dataclasses import dataclass

from judges.text import Span

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]+"
)


@dataclass(frozen=True)
class Visible:
    """`text`: what a reader sees. `kept`: where each of its characters stands in the given text; None: where it is."""

    text: str
    kept: tuple[int, ...] | None = None

    @classmethod
    def of(cls, given: str) -> "Visible":
        """Without soft hyphens, joiners, marks of direction, variation selectors, tags and spaces of no width: two
        texts that look alike are judged alike. O(len(given))."""
        if given.isascii() or not _INVISIBLE.search(given):
            return cls(given)
        hidden = {n for match in _INVISIBLE.finditer(given) for n in range(*match.span())}
        kept = tuple(n for n in range(len(given)) if n not in hidden)
        return cls("".join(given[n] for n in kept), kept)

    def given(self, start: int, end: int) -> Span:
        """The place in the given text of the characters `[start, end)` of this one."""
        if self.kept is None or start >= end:
            return Span(start, end)
        return Span(self.kept[start], self.kept[end - 1] + 1)
