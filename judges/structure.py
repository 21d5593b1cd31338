"""Whether the entities of an answer, and the pairs it makes of them, are those of its sources."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from glassbox.contract.verdict import Method, NotApplicable, Scored
from judges.extract import NUMERAL, PAIR_LIMIT, Call, Entity, Extractor, Pair
from judges.extract_rules import find_entities, rule_extractor
from judges.lexical.statements import abstains
from judges.matching import Index, Named, Place, name
from judges.pairs import Assertion, Related, assertions, relate
from judges.port import NEEDS, Case, Judgement
from judges.shown import Shown, uncited, with_what_it_says, without_attacks
from judges.sources import Sources, sources_of
from judges.text import sentences
from judges.tongues import Tongues

UNCOUNTED = frozenset(("query_only", "suspected"))
"""What neither earns nor costs: entities that only the query names, and what is right but said to the judge alone."""
FOREIGN_BELOW = 0.5
"""Share of supported entities under which the script and language of its sentences are compared with the sources'."""


@dataclass(frozen=True)
class Texts:
    """One evaluation's texts as they are judged: without what nobody sees, without citation marks, and of sources and
    query without what talks to the judge. `said`: the answer as it was given. `origins`: for each source, its place in
    `sources`."""

    said: str
    answer: Shown
    query: Shown
    given: tuple[Shown, ...]
    sources: Sources
    origins: tuple[int, ...]

    @classmethod
    def of(cls, case: Case) -> "Texts":
        sources = sources_of(case.input)
        shown = [(uncited(without_attacks(text)), origin) for origin, text in enumerate(sources.texts)]
        kept = [(text, origin) for text, origin in shown if any(map(str.isalnum, text.text))]
        said = case.input.answer or ""
        return cls(
            said,
            uncited(with_what_it_says(said)),
            without_attacks(case.input.query or ""),
            tuple(text for text, _ in kept),
            sources,
            tuple(origin for _, origin in kept),
        )

    def where(self, place: Place) -> dict[str, Any]:
        span = self.given[place.source].span(place.start, place.end)
        return {"source": self.sources.ids[self.origins[place.source]], "span": list(span)}

    def doubted(self, start: int, end: int) -> bool:
        """Whether this place of the answer talks to the judge."""
        span = self.answer.span(start, end)
        return any(span.start < attack.end and attack.start < span.end for attack in self.answer.attacks)


@dataclass(frozen=True)
class Matched:
    """The answer's entities against query and sources; `mentions`: for each mention its place in `unique`."""

    index: Index
    unique: list[Named]
    mentions: list[int]


def match(texts: Texts, found: Sequence[Entity], asked: Sequence[Entity], given: Sequence[Sequence[Entity]]) -> Matched:
    """`found`, `asked`, `given`: the entities of answer, query and sources."""
    index = Index([text.text for text in texts.given], given)
    doubted = [texts.doubted(entity.start, entity.end) for entity in found]
    unique, mentions = name(found, doubted, index, Index([texts.query.text], [asked]))
    return Matched(index, unique, mentions)


def shared_sources(matched: Matched, pairs: Sequence[Pair]) -> list[int]:
    """The sources that have both entities of one of the pairs; only these can assert it."""
    having = [{place.source for place in named.places} for named in matched.unique]
    shared = (having[matched.mentions[pair.one]] & having[matched.mentions[pair.other]] for pair in pairs)
    return sorted(set().union(*shared))


def entity_evidence(texts: Texts, matched: Matched) -> dict[str, Any]:
    def row(named: Named) -> dict[str, Any]:
        spans = [texts.answer.span(*span) for span in named.spans]
        return {
            "text": texts.said[slice(*spans[0])],
            "kind": named.entity.kind,
            "types": sorted(named.types),
            "score": named.entity.score,
            "forms": list(named.entity.forms),
            "spans": [list(span) for span in spans],
            "status": named.status,
            "match": named.match or None,
            "where": texts.where(named.places[0]) if named.places else None,
            "nearest": named.nearest.text if named.nearest else None,
        }

    return {
        "counts": dict(Counter(named.status for named in matched.unique)),
        "found": [row(named) for named in matched.unique],
    }


def coverage(texts: Texts, matched: Matched, found: Sequence[Entity]) -> dict[str, int]:
    """How many of the sources' entities the answer names."""
    answer = Index([texts.answer.text], [found])
    unique = {entity.key: entity for entity in _counted(matched.index.entities)}
    return {"covered": sum(bool(answer.find(entity)[1]) for entity in unique.values()), "total": len(unique)}


def pair_evidence(texts: Texts, matched: Matched, related: Sequence[Related]) -> dict[str, Any]:
    def row(found: Related) -> dict[str, Any]:
        ends = [matched.unique[n].entity for n in (found.one, found.other)]
        return {
            "pair": [entity.text for entity in ends],
            "predicate": found.pair.predicate,
            "score": found.pair.score,
            "clause": list(texts.answer.span(*found.pair.span)),
            "status": found.status,
            "match": found.match or None,
            "predicate_agrees": found.agrees,
            "where": [texts.where(place) for place in found.places],
        }

    return {
        "counts": dict(Counter(found.status for found in related)),
        "pairs": [row(found) for found in related],
    }


def share(statuses: Sequence[str], empty: str) -> float | str:
    """Supported / all that count; `empty` where none does."""
    counted = sum(status not in UNCOUNTED for status in statuses)
    return statuses.count("supported") / counted if counted else empty


def foreign(texts: Texts) -> str | None:
    """The cause for which no sentence of the answer compares with the sources, if there is one."""
    answer = texts.answer.text
    return Tongues.of([text.text for text in texts.given]).wholly_apart(
        answer, [answer[start:end] for start, end in sentences(answer)]
    )


class StructureJudge:
    """Worker kind `structure`: parts `entities` and `relations`, by the extractor of the base install or another.

    Entities: supported / (supported + near misses + novel), of the unique ones. Relations: supported / all pairs but
    those with an entity that only the query has. What an answer says to its judge can only lower a score. Work that
    takes long on long texts stays off the event loop.
    """

    kind = "structure"
    needs = NEEDS["structure"]

    def __init__(self, extractor: Extractor | None = None) -> None:
        self._extractor = extractor or rule_extractor()

    async def judge(self, case: Case) -> Judgement:
        texts = await asyncio.to_thread(Texts.of, case)
        evidence: dict[str, Any] = {"sources": texts.sources.evidence()}
        cause = "abstained" if abstains(texts.answer.text) else "no_sources" if not texts.given else None
        if cause:
            return self._judgement(case, dict.fromkeys(case.settings, cause), evidence)
        extractor = self._extractor.entities
        read = [
            text.text for text in (texts.answer, *texts.given, *((texts.query,) if extractor.reads_queries else ()))
        ]
        readings = await extractor.entities(read, case.settings.get("entities", {}))
        asked = readings.pop().entities if extractor.reads_queries else find_entities([texts.query.text])[0]
        found, *given = [reading.entities for reading in readings]
        found = _counted(found)
        matched = await asyncio.to_thread(match, texts, found, asked, given)
        evidence["entities"] = await asyncio.to_thread(entity_evidence, texts, matched)
        evidence["source_coverage"] = await asyncio.to_thread(coverage, texts, matched, found)
        parts = {"entities": share([named.status for named in matched.unique], "no_entities")}
        calls = [call for reading in readings for call in reading.calls]
        flags: dict[str, tuple[str, ...]] = {
            "entities": ("words_cut",) if any(reading.cut for reading in readings) else ()
        }
        if "relations" in case.settings:
            evidence["relations"], asked_for_pairs, flags["relations"] = await self._related(
                case, texts, matched, found, [_counted(entities) for entities in given]
            )
            parts["relations"] = share([row["status"] for row in evidence["relations"]["pairs"]], "no_pairs")
            calls += asked_for_pairs
        supported = parts["entities"]
        doubtful = isinstance(supported, float) and supported < FOREIGN_BELOW
        if doubtful and (other := await asyncio.to_thread(foreign, texts)):
            parts = dict.fromkeys(parts, other)
        return self._judgement(case, parts, evidence, calls, flags)

    async def _related(
        self, case: Case, texts: Texts, matched: Matched, found: Sequence[Entity], given: Sequence[Sequence[Entity]]
    ) -> tuple[dict[str, Any], list[Call], tuple[str, ...]]:
        """The evidence of the relations, the calls that it rests on, and the verdict's flags."""
        extractor, settings = self._extractor.pairs, case.settings["relations"]
        limit = int(settings.get("pair_limit", PAIR_LIMIT))
        # One more than the limit tells a full list from a cut one.
        [pairing] = await extractor.pairs([(texts.answer.text, found)], settings, limit + 1)
        pairs, capped = pairing.pairs[:limit], len(pairing.pairs) > limit
        asserted: dict[tuple[int, int], list[Assertion]] = {}
        sources = shared_sources(matched, pairs) if extractor.directed else []
        others = await extractor.pairs([(texts.given[n].text, given[n]) for n in sources], settings, None)
        for source, other in zip(sources, others, strict=True):
            for key, assertion in assertions(source, matched.unique, given[source], other.pairs):
                asserted.setdefault(key, []).append(assertion)
        related = await asyncio.to_thread(relate, pairs, matched.unique, matched.mentions, asserted, extractor.directed)
        evidence = pair_evidence(texts, matched, related)
        cut = any(each.cut for each in (pairing, *others))
        return (
            {**evidence, "directed": extractor.directed, "limit": limit, "capped": capped, "cut": cut},
            [call for each in (pairing, *others) for call in each.calls],
            (*(("pairs_capped",) if capped else ()), *(("pairs_cut",) if cut else ())),
        )

    def _methods(self, case: Case) -> dict[str, Method]:
        entities = self._extractor.entities.method(case.settings.get("entities", {}))
        relations = self._extractor.pairs.method(case.settings.get("relations", {}), entities)
        return {"entities": entities, "relations": relations}

    def _judgement(
        self,
        case: Case,
        parts: dict[str, float | str],
        evidence: dict[str, Any],
        calls: Sequence[Call] = (),
        flags: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> Judgement:
        methods = self._methods(case)
        verdicts: list[Scored | NotApplicable] = []
        for part in case.settings:
            outcome = parts[part]
            method, marks = methods[part], flags.get(part, ())
            if isinstance(outcome, str):
                verdicts.append(NotApplicable(part=part, cause=outcome, method=method, flags=marks))
            else:
                verdicts.append(Scored.of(part, outcome, method=method, flags=marks))
        evidence["calls"] = [call.evidence() for call in dict.fromkeys(calls)]
        return Judgement(tuple(verdicts), evidence, tuple(dict.fromkeys(call.output for call in calls)))

    async def close(self) -> None:
        await self._extractor.entities.close()
        await self._extractor.pairs.close()


def _counted(entities: Sequence[Entity]) -> list[Entity]:
    """Without numbers in words, which an answer need not account for."""
    return [entity for entity in entities if entity.kind != NUMERAL]
