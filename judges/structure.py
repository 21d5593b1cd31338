"""Whether the entities of an answer, and the pairs it makes of them, are those of its sources."""

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NamedTuple

from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import NotApplicable, Scored
from judges.extract import NAME, NUMERAL, Entity, Extractor, Pair, RuleExtractor, terms
from judges.lexical.statements import abstains
from judges.port import NEEDS, Case, Judgement
from judges.sources import Sources, sources_of
from judges.text import is_content, language, script, sentences

PAIR_LIMIT = 200
NEAREST_LIMIT = 50
"""Novel entities for which the nearest source entity is looked for; the search is quadratic."""
NEAR = 0.8
"""Similarity of two names (difflib's ratio) from which one is a near miss of the other."""
FOREIGN_BELOW = 0.5
"""Share of supported entities under which the answer's script and language are compared with the sources'."""


class Place(NamedTuple):
    """Where something stands: source number, sentence number within all sources, characters of the source."""

    source: int
    sentence: int
    start: int
    end: int


class Index:
    """Texts with their entities, ready to be asked where an entity stands."""

    def __init__(self, texts: Sequence[str], entities: Sequence[Sequence[Entity]]) -> None:
        self._words: list[str] = []
        self._places: list[Place] = []
        self._at: dict[str, list[int]] = {}
        self._forms: dict[str, list[Place]] = {}
        self._bare: dict[str, list[Place]] = {}
        self.entities = [entity for found in entities for entity in found]
        sentence = 0
        for source, (text, found) in enumerate(zip(texts, entities, strict=True)):
            starts = []
            for span in sentences(text):
                starts.append(span.start)
                self._read(text[span.start : span.end], Place(source, sentence + len(starts) - 1, *span))
            for entity in found:
                number = sentence + max(bisect_right(starts, entity.start) - 1, 0)
                self._add(entity, Place(source, number, entity.start, entity.end))
            sentence += len(starts)

    def _read(self, piece: str, place: Place) -> None:
        for term in terms(piece):
            self._at.setdefault(term.text, []).append(len(self._words))
            self._words.append(term.text)
            self._places.append(place._replace(start=place.start + term.start, end=place.start + term.end))
        self._words.append("")  # nothing is found across the end of a sentence
        self._places.append(place)

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
        rarest = min(range(len(phrase)), key=lambda n: len(self._at.get(phrase[n], ())))
        for position in self._at.get(phrase[rarest], ()):
            start = position - rarest
            if start >= 0 and self._words[start : start + len(phrase)] == phrase:
                first, last = self._places[start], self._places[start + len(phrase) - 1]
                yield first._replace(end=last.end)


@dataclass
class Named:
    """One entity of the answer with all its mentions, and what became of it."""

    entity: Entity
    spans: list[list[int]] = field(default_factory=list)
    status: str = "novel"
    match: str = ""
    places: list[Place] = field(default_factory=list)
    nearest: Entity | None = None

    def evidence(self, sources: Sources) -> dict[str, Any]:
        """Plain JSON; `where` is the first place in the sources."""
        return {
            "text": self.entity.text,
            "kind": self.entity.kind,
            "forms": list(self.entity.forms),
            "spans": self.spans,
            "status": self.status,
            "match": self.match or None,
            "where": _where(self.places[0], sources) if self.places else None,
            "nearest": self.nearest.text if self.nearest else None,
        }


def name(entities: Iterable[Entity], sources: Index, query: Index) -> tuple[list[Named], list[int]]:
    """The unique entities of an answer, judged; and for each mention the place of its entity in that list."""
    unique: list[Named] = []
    by_form: dict[str, int] = {}
    mentions = []
    for entity in entities:
        known = next((by_form[form] for form in entity.forms if form in by_form), len(unique))
        if known == len(unique):
            unique.append(Named(entity))
        for form in entity.forms:
            by_form.setdefault(form, known)
        unique[known].spans.append([entity.start, entity.end])
        mentions.append(known)
    unsought = NEAREST_LIMIT
    for named in unique:
        named.match, named.places = sources.find(named.entity)
        if named.places:
            named.status = "supported"
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


def _where(place: Place, sources: Sources) -> dict[str, Any]:
    return {"source": sources.ids[place.source], "span": [place.start, place.end]}


def relate(
    pairs: Iterable[Pair], unique: Sequence[Named], mentions: Sequence[int], sources: Sources
) -> list[dict[str, Any]]:
    """Each pair of the answer once, with its status: `supported` (one sentence of one source has both),
    `unsupported`, `novel_entity`, or `query_only`."""
    rows = []
    seen = set()
    by_sentence = [{place.sentence: place for place in reversed(named.places)} for named in unique]
    for pair in pairs:
        one, other = sorted((mentions[pair.one], mentions[pair.other]))
        if one == other or (one, other) in seen:
            continue
        seen.add((one, other))
        statuses = {unique[one].status, unique[other].status}
        shared = by_sentence[one].keys() & by_sentence[other].keys()
        places = []
        if shared:
            status = "supported"
            places = [by_sentence[n][min(shared)] for n in (one, other)]
        elif statuses & {"novel", "near_miss"}:
            status = "novel_entity"
        else:
            status = "query_only" if "query_only" in statuses else "unsupported"
        rows.append(
            {
                "pair": [unique[one].entity.text, unique[other].entity.text],
                "clause": list(pair.span),
                "status": status,
                "match": "cooccurrence" if shared else None,
                "where": [_where(place, sources) for place in places],
            }
        )
    return rows


@dataclass(frozen=True)
class Outcome:
    """`parts`: a score in [0, 1] or the cause for which the part does not apply."""

    parts: dict[str, float | str]
    evidence: dict[str, Any]


def weigh(
    case: JudgeInput,
    sources: Sources,
    found: Sequence[Entity],
    asked: Sequence[Entity],
    given: Sequence[Sequence[Entity]],
    pairs: Sequence[Pair],
) -> Outcome:
    """`found`, `asked`, `given`: the entities of answer, query and sources; `pairs`: those of the answer.

    Entities: supported / (supported + near misses + novel). Relations: supported / all pairs but those with an
    entity that only the query has.
    """
    index = Index(sources.texts, given)
    unique, mentions = name(found, index, Index([case.query or ""], [asked]))
    rows = relate(pairs[:PAIR_LIMIT], unique, mentions, sources)
    entities = Counter(named.status for named in unique)
    relations = Counter(row["status"] for row in rows)
    evidence = {
        "entities": {"counts": dict(entities), "found": [named.evidence(sources) for named in unique]},
        "relations": {
            "counts": dict(relations),
            "limit": PAIR_LIMIT,
            "capped": len(pairs) > PAIR_LIMIT,
            "pairs": rows,
        },
        "source_coverage": _coverage(index, Index([case.answer or ""], [found])),
    }
    counted = entities.total() - entities["query_only"]
    paired = relations.total() - relations["query_only"]
    if entities["supported"] < FOREIGN_BELOW * counted and (foreign := _foreign(case.answer or "", sources)):
        return Outcome({"entities": foreign, "relations": foreign}, evidence)
    return Outcome(
        {
            "entities": entities["supported"] / counted if counted else "no_entities",
            "relations": relations["supported"] / paired if paired else "no_pairs",
        },
        evidence,
    )


def _coverage(sources: Index, answer: Index) -> dict[str, int]:
    """How many of the sources' entities the answer names."""
    unique = {entity.key: entity for entity in sources.entities if entity.kind != NUMERAL}
    return {"covered": sum(bool(answer.find(entity)[1]) for entity in unique.values()), "total": len(unique)}


def _foreign(answer: str, sources: Sources) -> str | None:
    source_text = "\n".join(sources.texts)
    for cause, tell in (("other_script", script), ("other_language", language)):
        mine, theirs = tell(answer), tell(source_text)
        if mine and theirs and mine != theirs:
            return cause
    return None


class StructureJudge:
    """Worker kind `structure`: parts `entities` and `relations`, with the extractor of the base install or another."""

    kind = "structure"
    needs = NEEDS["structure"]

    def __init__(self, extractor: Extractor | None = None) -> None:
        self._extractor = extractor or RuleExtractor()

    async def judge(self, case: Case) -> Judgement:
        """Both parts from one extraction. Work that takes long on long texts stays off the event loop."""
        sources = sources_of(case.input)
        answer, query = case.input.answer or "", case.input.query or ""
        evidence: dict[str, Any] = {"sources": sources.evidence()}
        cause = "abstained" if abstains(answer) else "no_sources" if not sources.texts else None
        if cause:
            return self._judgement(dict.fromkeys(case.settings, cause), evidence)
        found, asked, *given = await self._extractor.entities([answer, query, *sources.texts])
        found = [entity for entity in found if entity.kind != NUMERAL]
        # One more than the limit tells a full list from a cut one.
        pairs = await self._extractor.pairs(answer, found, PAIR_LIMIT + 1) if "relations" in case.settings else []
        outcome = await asyncio.to_thread(weigh, case.input, sources, found, asked, given, pairs)
        evidence.update(outcome.evidence)
        flags = ("pairs_capped",) if len(pairs) > PAIR_LIMIT else ()
        return self._judgement({part: outcome.parts[part] for part in case.settings}, evidence, flags)

    def _judgement(
        self, parts: Mapping[str, float | str], evidence: dict[str, Any], flags: tuple[str, ...] = ()
    ) -> Judgement:
        verdicts: list[Scored | NotApplicable] = []
        for part, outcome in parts.items():
            method = self._extractor.method(part)
            if isinstance(outcome, str):
                verdicts.append(NotApplicable(part=part, cause=outcome, method=method))
            else:
                marks = flags if part == "relations" else ()
                verdicts.append(Scored.of(part, outcome, method=method, flags=marks))
        return Judgement(tuple(verdicts), evidence)

    async def close(self) -> None:
        """Nothing is held."""
