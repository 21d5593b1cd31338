"""Where the entities of an answer stand in its sources: found, found in the query alone, nearly found, or novel."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from judges.extract import NAME, NUMERAL, Entity
from judges.names import terms
from judges.text import Span, is_content, sentences

NEAREST_LIMIT = 50
"""Novel entities for which the nearest source entity is looked for; the search is quadratic."""
NEAR = 0.8
"""Similarity of two names (difflib's ratio) from which one is a near miss of the other."""


class Place(NamedTuple):
    """Where something stands: source number, sentence number within all sources, characters of the source."""

    source: int
    sentence: int
    start: int
    end: int


class Wording:
    """The words of one text and its sentences, ready to be asked where a phrase stands."""

    def __init__(self, text: str) -> None:
        spans = sentences(text)
        self._starts = [span.start for span in spans]
        self._words: list[str] = []
        self._spans: list[tuple[int, int]] = []
        self._at: dict[str, list[int]] = {}
        for start, end in spans:
            for term in terms(text[start:end]):
                self._at.setdefault(term.text, []).append(len(self._words))
                self._words.append(term.text)
                self._spans.append((start + term.start, start + term.end))
            self._words.append("")  # nothing is found across the end of a sentence
            self._spans.append((start, end))

    @property
    def sentences(self) -> int:
        return len(self._starts)

    def sentence(self, place: int) -> int:
        """The number of the sentence in which a character stands."""
        return max(bisect_right(self._starts, place) - 1, 0)

    def find(self, phrase: Sequence[str]) -> Iterator[Span]:
        """Where these words stand in a row, in reading order."""
        rarest = min(range(len(phrase)), key=lambda n: len(self._at.get(phrase[n], ())))
        for position in self._at.get(phrase[rarest], ()):
            start, end = position - rarest, position - rarest + len(phrase)
            if start >= 0 and self._words[start:end] == phrase:
                yield Span(self._spans[start][0], self._spans[end - 1][1])


_read_once = lru_cache(maxsize=256)(Wording)
_SHORT = 8_000
"""Characters up to which a source's wording is kept for other answers on it."""


class Index:
    """Texts with their entities, ready to be asked where an entity stands."""

    def __init__(self, texts: Sequence[str], entities: Sequence[Sequence[Entity]]) -> None:
        self._texts: list[tuple[int, Wording]] = []  # with the number of its first sentence
        self._forms: dict[str, list[Place]] = {}
        self._bare: dict[str, list[Place]] = {}
        self.entities = [entity for found in entities for entity in found]
        first = 0
        for source, (text, found) in enumerate(zip(texts, entities, strict=True)):
            wording = _read_once(text) if len(text) <= _SHORT else Wording(text)
            self._texts.append((first, wording))
            for entity in found:
                self._add(entity, Place(source, first + wording.sentence(entity.start), entity.start, entity.end))
            first += wording.sentences

    def _add(self, entity: Entity, place: Place) -> None:
        for form in (*entity.forms, *entity.implies):
            self._forms.setdefault(form, []).append(place)
        if entity.kind in ("number", NUMERAL):
            for form in entity.forms:
                self._bare.setdefault(form, []).append(place)

    def find(self, entity: Entity) -> tuple[str, list[Place]]:
        """How the texts have the entity and where: `entity` (an equal one), `text` (its words in a row), or `number`
        (the same number without a unit); `` and no place if they have not."""
        found = [
            ("entity", [place for form in entity.forms for place in self._forms.get(form, ())]),
            ("text", list(self._phrase(entity))),
            ("number", [place for form in entity.bare for place in self._bare.get(form, ())]),
        ]
        places = [place for _, some in found for place in some]
        return next((match for match, some in found if some), ""), places

    def _phrase(self, entity: Entity) -> Iterator[Place]:
        if entity.kind == NAME:
            phrase = entity.key.split()
        elif entity.kind in ("code", "email", "url"):
            phrase = [term.text for term in terms(entity.text)]
        else:
            return
        if not any(is_content(word) for word in phrase):
            return  # "US" is not the pronoun
        for source, (first, wording) in enumerate(self._texts):
            for start, end in wording.find(phrase):
                yield Place(source, first + wording.sentence(start), start, end)


@dataclass
class Named:
    """One entity of the answer with all its mentions, and what became of it.

    `status`: `supported`; `query_only`: the query has it, no source does; `near_miss`: a source has something so like
    it that one is probably a slip; `novel`; or `suspected`: a source has it, but the answer names it only where it
    talks to the judge. `match`: as `Index.find` says. `nearest`: of what no source has, the
    source entity most like it.
    """

    entity: Entity
    spans: list[Span] = field(default_factory=list)
    types: set[str] = field(default_factory=set)
    status: str = "novel"
    match: str = ""
    places: list[Place] = field(default_factory=list)
    nearest: Entity | None = None


def name(
    entities: Sequence[Entity], doubted: Sequence[bool], sources: Index, query: Index
) -> tuple[list[Named], list[int]]:
    """The unique entities of an answer, judged; and for each mention the place of its entity in that list. `doubted`:
    for each mention, whether it stands where the answer talks to the judge."""
    unique: list[Named] = []
    by_form: dict[str, int] = {}
    mentions = []
    for entity in entities:
        known = next((by_form[form] for form in entity.forms if form in by_form), len(unique))
        if known == len(unique):
            unique.append(Named(entity))
        for form in entity.forms:
            by_form.setdefault(form, known)
        unique[known].spans.append(Span(entity.start, entity.end))
        unique[known].types.update(entity.types)
        mentions.append(known)
    believed = {known for known, doubt in zip(mentions, doubted, strict=True) if not doubt}
    unsought = NEAREST_LIMIT
    for number, named in enumerate(unique):
        named.match, named.places = sources.find(named.entity)
        if named.places:
            named.status = "supported" if number in believed else "suspected"
        elif query.find(named.entity)[1]:
            named.status = "query_only"
        elif unsought:
            unsought -= 1
            named.nearest, near = _nearest(named.entity, sources.entities)
            named.status = "near_miss" if near else "novel"
    return unique, mentions


def _nearest(entity: Entity, candidates: Sequence[Entity]) -> tuple[Entity | None, bool]:
    """The candidate of the same kind that is most like the entity, and whether it is a near miss: a name or code of
    similar spelling or with all of the other's words. Another value is another value, however close."""
    kind, *amount = entity.key.split(":")
    if len(amount) >= 1 and kind in ("number", "quantity", "percent", "money"):
        value = Decimal(amount[0])
        alike = [other for other in candidates if other.key.split(":")[::2] == [kind, *amount[1:]]]
        return min(alike, key=lambda other: abs(Decimal(other.key.split(":")[1]) - value), default=None), False
    by_key = {other.key: other for other in candidates if other.kind == entity.kind}
    words = frozenset(entity.key.split())
    for key, other in by_key.items():
        if entity.kind == NAME and (words < frozenset(key.split()) or words > frozenset(key.split())):
            return other, True
    close = get_close_matches(entity.key, by_key, n=1, cutoff=NEAR)
    return (by_key[close[0]], entity.kind in (NAME, "code")) if close else (None, False)
