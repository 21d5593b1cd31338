"""What a model is shown of a text: nothing that nobody sees, and nothing that talks to the judge; and the way back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from judges.injection import Suspicion, suspects
from judges.scripts import seen
from judges.text import Span, citations, sentences, words

LEAD_WORDS = 4
"""Fewer words than these before an attack in its sentence ("Note to the grader:") belong to it."""

_OPENS_A_TURN = re.compile(
    r"<[|｜](?:im_start|start_header_id|system|user|assistant)[|｜]>|\[INST\]|<<SYS>>|<start_of_turn>", re.I
)


@dataclass(frozen=True)
class Shown:
    """`text`: what is shown. `kept`: where each of its characters stands in the given text; None: where it is.
    `attacks`: the spans of the given text that talk to the judge, whether they are shown or not."""

    text: str
    kept: Sequence[int] | None
    attacks: tuple[Span, ...]

    def span(self, start: int, end: int) -> Span:
        """The place in the given text of the characters `[start, end)` of `text`."""
        if self.kept is None or start >= end:
            return Span(start, end)
        return Span(self.kept[start], self.kept[end - 1] + 1)


def without_attacks(given: str) -> Shown:
    """For what can only lose by it: a passage supports what it would support without its attack, and a question is
    made from an answer as if nothing had been added to it. All of a text that is nothing else is left out."""
    text, kept = seen(given)
    regions = _regions(text, suspects(text))
    return _cut(text, kept, regions, regions)


def with_what_it_says(given: str) -> Shown:
    """For an answer that is taken apart: without the marks of an attack (delimiters, tokens of chat templates), with
    all that it says, which is claimed like the rest. Else an answer could hide its claims in an attack."""
    text, kept = seen(given)
    found = suspects(text)
    return _cut(text, kept, [(s.start, s.end) for s in found if _is_mark(text, s)], _regions(text, found))


def uncited(shown: Shown) -> Shown:
    """Without the marks of citations, which say nothing of the subject: blanks stand in their places."""
    text, reached = [], 0
    for start, end in citations(shown.text):
        text += [shown.text[reached:start], " " * (end - start)]
        reached = end
    return replace(shown, text="".join([*text, shown.text[reached:]])) if text else shown


def _is_mark(text: str, suspicion: Suspicion) -> bool:
    """Whether it is a delimiter or a token of a chat template, and says nothing."""
    said = text[suspicion.start : suspicion.end]
    return suspicion.rule == "delimiter" or (suspicion.rule == "fake_turn" and said[0] in "<[" and " " not in said)


def _regions(text: str, found: Sequence[Suspicion]) -> list[tuple[int, int]]:
    """What belongs to the attacks, in order and apart: forged JSON to its last brace, an order or a fake turn to the
    end of its sentence, and the few words that lead up to it."""
    if not found:
        return []
    spans, objects = sentences(text), _objects(text)
    regions: list[tuple[int, int]] = []
    for suspicion in found:
        start, end = suspicion.start, suspicion.end
        around = next((o for o in objects if o[0] <= start < o[1]), None)
        if around is not None and suspicion.rule in ("forged_verdict", "fake_turn"):
            start, end = around[0], max(end, around[1])
        elif _OPENS_A_TURN.match(text, start):
            end = _end_of_turn(text, end, [other.start for other in found if other.rule == "fake_turn"])
        elif not _is_mark(text, suspicion):
            # It may begin before its sentence: the marker of a list item or a heading is in none.
            sentence = next((span for span in spans if span.start < end and start < span.end), None)
            if sentence is not None:
                end = max(end, sentence.end)
                if len(words(text[sentence.start : start])) < LEAD_WORDS:
                    start = min(start, sentence.start)
        if regions and start <= regions[-1][1]:
            regions[-1] = (min(start, regions[-1][0]), max(end, regions[-1][1]))
        else:
            regions.append((start, end))
    return regions


def _end_of_turn(text: str, after: int, marks: Sequence[int]) -> int:
    """Where what a fake speaker says ends: at the next mark of a turn, or else with the line after its name."""
    following = next((mark for mark in marks if mark >= after), None)
    if following is not None:
        return following
    lines = text[after:].split("\n", 2)
    named = len(lines) > 1 and len(words(lines[0])) <= 1
    return after + len(lines[0]) + (1 + len(lines[1]) if named else 0)


def _objects(text: str) -> list[tuple[int, int]]:
    """The outermost pairs of braces; one that is never closed reaches to the end of its line."""
    found: list[tuple[int, int]] = []
    depth = start = 0
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            start, depth = start if depth else brace.start(), depth + 1
        elif depth:
            depth -= 1
            if not depth:
                found.append((start, brace.end()))
    if depth:
        line = text.find("\n", start)
        found.append((start, line if line >= 0 else len(text)))
    return found


def _cut(
    text: str, kept: Sequence[int] | None, cuts: Sequence[tuple[int, int]], attacks: Sequence[tuple[int, int]]
) -> Shown:
    whole = Shown(text, kept, ())
    spans = tuple(whole.span(*attack) for attack in attacks)
    if not cuts and kept is None:
        return Shown(text, kept, spans)
    places: list[int] = []
    reached = 0
    for start, end in cuts:
        places += range(reached, start)
        # Without the cut there would not be white space on both sides of it, nor at the ends of the text.
        while places and text[places[-1]].isspace() and text[end : end + 1].isspace():
            places.pop()
        reached = end
    places += range(reached, len(text))
    while places and text[places[-1]].isspace():
        places.pop()
    blank = next((n for n, place in enumerate(places) if not text[place].isspace()), 0)
    places = places[blank:]
    return Shown(
        "".join(text[place] for place in places),
        places if kept is None else [kept[place] for place in places],
        spans,
    )
