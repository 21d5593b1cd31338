"""A text as it is to be judged: what a reader sees of it, without what talks to the judge; and the way back."""

from collections.abc import Sequence
from dataclasses import dataclass

from judges.injection import suspects
from judges.scripts import seen
from judges.text import Span


@dataclass(frozen=True)
class Visible:
    """`text`: what is judged of `given`. `kept`: where each of its characters stands in `given`; None: where it is.
    `left_out`: the spans of `given` that are spaces in `text`, because they talk to the judge."""

    given: str
    text: str
    kept: Sequence[int] | None = None
    left_out: tuple[Span, ...] = ()

    @classmethod
    def of(cls, given: str) -> "Visible":
        """Without invisible characters, so that texts that look alike are judged alike; and with spaces where
        `suspects` finds an attack, so that one in an answer or a source changes no verdict on the rest."""
        text, kept = seen(given)
        whole = cls(given, text, kept)
        attacks = [(found.start, found.end) for found in suspects(text)]
        for start, end in attacks:
            text = text[:start] + " " * (end - start) + text[end:]
        return cls(given, text, kept, tuple(whole.span(*attack) for attack in attacks))

    def span(self, start: int, end: int) -> Span:
        """The place in `given` of the characters `[start, end)` of `text`."""
        if self.kept is None or start >= end:
            return Span(start, end)
        return Span(self.kept[start], self.kept[end - 1] + 1)
