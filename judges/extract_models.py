"""Entities and pairs as models find them (GLiNER, GLiREL), made into what the structure judge compares.

Values (numbers, money, dates) are read by `judges.values` here as well, because a model says where one is and not what
it amounts to. How the two are joined:

- Values are found where the policy's labels ask for a kind of value (`VALUE_LABELS`).
- A span that the model gives such a label, or whose words are all in a value, is that value and has its extent.
- Any other span is a name. A plain number or code inside it is part of it ("Boeing 747"); a sum or a date is not.
- Spans that overlap: the higher score (of two decimals) stays, then the longer, then the earlier. One span with two
  labels is one entity of two types; so are two mentions of one name.
- A pronoun or other word without content is no entity, an abbreviation ("US", "IT") is.
"""

import asyncio
import json
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from glassbox.contract.composite import figure
from glassbox.contract.judge_settings import Entities, Relations
from glassbox.contract.verdict import Method
from judges.extract import NAME, NUMERAL, PAIR_LIMIT, Call, Entity, Extractor, Pair, Pairing, Reading, Settings
from judges.extract_rules import RuleEntities, RulePairs, find_values
from judges.names import name_form, terms
from judges.text import RULES, Span, is_content, sentences
from judges.window_model import Asker, Hit, Made, ModelAsker, Question, RecordedAsker

_VALUE_LABEL_LISTING = (
    "date time year duration age money price currency amount quantity number measurement unit percentage percent"
    " cardinal ordinal email url phone code identifier version"
)
VALUE_LABELS = frozenset(_VALUE_LABEL_LISTING.split())
_PART_OF_A_NAME = frozenset(("number", NUMERAL, "code"))
_JOINED = "judges.extract_models/1"
_ENTITIES, _RELATIONS = Entities(), Relations()
_KEPT = 4_096
"""Texts whose entities are kept, so that sources which many answers share are joined once."""


class ModelEntities:
    """What an entity model finds, and the values of the text."""

    reads_queries = False

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._kept: OrderedDict[str, Reading] = OrderedDict()

    def method(self, settings: Settings) -> Method:
        labels, threshold = _asked(settings, "labels", _ENTITIES)
        parameters = {"labels": list(labels), "threshold": threshold, "values": "judges.values/1", "joined": _JOINED}
        return _method("entities", self._asker.made, parameters)

    async def entities(self, texts: Sequence[str], settings: Settings) -> list[Reading]:
        labels, threshold = _asked(settings, "labels", _ENTITIES)
        calls = await self._asker.ask([Question("entities", text, labels, threshold) for text in texts])
        return [await self._reading(text, labels, call) for text, call in zip(texts, calls, strict=True)]

    async def _reading(self, text: str, labels: Sequence[str], call: Call) -> Reading:
        if call.input_digest not in self._kept:
            said = json.loads(call.output)
            entities = await asyncio.to_thread(joined, text, _hits(said), labels)
            self._kept[call.input_digest] = Reading(entities, (call,), said["cut_words"])
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(call.input_digest)
        return self._kept[call.input_digest]

    async def close(self) -> None:
        await self._asker.close()


class ModelPairs:
    """Ordered pairs with a predicate, as a relation model finds them between given entities."""

    directed = True

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def method(self, settings: Settings, entities: Method) -> Method:
        types, threshold = _asked(settings, "types", _RELATIONS)
        parameters = {
            "types": list(types),
            "threshold": threshold,
            "both_directions": _both_directions(settings),
            "pair_limit": int(settings.get("pair_limit", PAIR_LIMIT)),
            "entities": entities.model_dump(mode="json"),
        }
        return _method("relations", self._asker.made, parameters)

    async def pairs(
        self, texts: Sequence[tuple[str, Sequence[Entity]]], settings: Settings, limit: int | None
    ) -> list[Pairing]:
        types, threshold = _asked(settings, "types", _RELATIONS)
        made = [Pairing([]) for _ in texts]
        asked = [n for n, (_, entities) in enumerate(texts) if len({entity.key for entity in entities}) > 1]
        questions = [
            Question("relations", text, types, threshold, tuple((e.start, e.end, _type(e)) for e in entities))
            for text, entities in (texts[n] for n in asked)
        ]
        for n, call in zip(asked, await self._asker.ask(questions), strict=True):
            said = json.loads(call.output)
            pairs = ordered(texts[n][1], _hits(said), _both_directions(settings))
            made[n] = Pairing(pairs[:limit], (call,), said["cut_sentences"])
        return made

    async def close(self) -> None:
        await self._asker.close()


def structure_extractor(entity_model: str | None, relation_model: str | None, device: str = "auto") -> Extractor:
    """Extractors on models, each NAME, NAME@REVISION (of a hub) or a folder; rules where there is none. `device`: auto,
    cpu or cuda. Loads the models. Raises `JudgeError` (model_missing) where a library or a model is not there."""
    from judges.gliner_models import Gliner
    from judges.glirel_models import Glirel

    return Extractor(
        ModelEntities(ModelAsker(Gliner.load(entity_model, device))) if entity_model else RuleEntities(),
        ModelPairs(ModelAsker(Glirel.load(relation_model, device))) if relation_model else RulePairs(),
    )


def recorded_extractor(methods: Mapping[str, Method], outputs: Mapping[str, bytes]) -> Extractor:
    """The extractors that made verdicts of these methods (part -> method), with what their models said then.

    `outputs`: input digest -> answer, as the evidence's `calls` join them. What was not asked then ends in `JudgeError`
    (unavailable)."""
    relations = methods.get("relations")
    entities = methods.get("entities") or (relations and Method.model_validate(relations.parameters["entities"]))
    return Extractor(
        ModelEntities(RecordedAsker(_made(entities), outputs)) if entities and _by_model(entities) else RuleEntities(),
        ModelPairs(RecordedAsker(_made(relations), outputs)) if relations and _by_model(relations) else RulePairs(),
    )


# --- entities -------------------------------------------------------------------------------------------------


def joined(text: str, hits: Iterable[Hit], labels: Sequence[str]) -> list[Entity]:
    """The entities of a text in reading order, of what a model found in its windows and the text's values."""
    names = [_named(text, span, found) for span, found in apart(hits)]
    values: list[Entity] = []
    if VALUE_LABELS.intersection(label.casefold() for label in labels):
        values = [value for span in sentences(text) for value in find_values(text[span.start : span.end], span.start)]
    starts = [value.start for value in values]
    made: list[Entity] = []
    taken: dict[int, Entity | None] = {}
    for entity in names:
        first = bisect_left(starts, entity.start)
        first -= bool(first) and values[first - 1].end > entity.start
        within = range(first, bisect_left(starts, entity.end))
        if within and _is_value(text, entity, values[within[0]].start, values[within[-1]].end):
            taken.update((n, replace(values[n], types=entity.types, score=entity.score)) for n in within)
        elif any(is_content(term.text) for term in terms(entity.text)) or _abbreviation(entity.text):
            made.append(entity)
            for n in within:
                whole = entity.start <= values[n].start and values[n].end <= entity.end
                if whole and values[n].kind in _PART_OF_A_NAME:
                    taken[n] = None
    made += (value for n, each in enumerate(values) if (value := taken.get(n, each)) is not None)
    return sorted(made, key=lambda entity: (entity.start, entity.end))


def apart(hits: Iterable[Hit]) -> Iterator[tuple[Span, dict[str, float]]]:
    """Spans that do not overlap, each with its labels and their highest scores."""
    found: dict[Span, dict[str, float]] = {}
    for start, end, label, score in hits:
        scores = found.setdefault(Span(start, end), {})
        scores[label] = max(score, scores.get(label, 0.0))
    kept: list[Span] = []
    for span in sorted(found, key=lambda span: (-max(found[span].values()), span.start - span.end, span.start)):
        at = bisect_right(kept, span)
        free = (not at or kept[at - 1].end <= span.start) and (at == len(kept) or span.end <= kept[at].start)
        if free and span.start < span.end:
            insort(kept, span)
    for span in kept:
        yield span, found[span]


def _named(text: str, span: Span, found: Mapping[str, float]) -> Entity:
    said = text[span.start : span.end]
    form = name_form(said, terms(said)) or said.casefold()
    return Entity(said, NAME, *span, (form,), types=tuple(sorted(found)), score=max(found.values()))


def _is_value(text: str, entity: Entity, start: int, end: int) -> bool:
    """Whether the entity is the values that stand from `start` to `end` rather than a name with a number in it."""
    if all(label.casefold() in VALUE_LABELS for label in entity.types):
        return True
    around = text[entity.start : max(start, entity.start)] + " " + text[min(end, entity.end) : entity.end]
    return not any(is_content(term.text) for term in terms(around))


def _abbreviation(said: str) -> bool:
    return any(character.isupper() for character in said[1:])


# --- pairs ----------------------------------------------------------------------------------------------------


def ordered(entities: Sequence[Entity], hits: Iterable[Hit], both_directions: bool) -> list[Pair]:
    """Each (head, tail) once, of two different entities, by its highest score (then the first predicate by name, then
    the mentions that come first), in reading order. Without `both_directions` only the higher of two directions."""
    best: dict[tuple[str, str], Pair] = {}
    for head, tail, predicate, score in sorted(hits, key=lambda hit: (-hit[3], hit[2], hit[0], hit[1])):
        one, other = entities[head], entities[tail]
        key = (one.key, other.key)
        if one.key == other.key or key in best or (not both_directions and key[::-1] in best):
            continue
        span = Span(min(one.start, other.start), max(one.end, other.end))
        best[key] = Pair(head, tail, span, predicate, score)
    return sorted(best.values(), key=lambda pair: (entities[pair.one].start, entities[pair.other].start))


# --- settings and methods -------------------------------------------------------------------------------------


def _asked(settings: Settings, name: str, defaults: Entities | Relations) -> tuple[tuple[str, ...], str]:
    """Labels or types, sorted, and the threshold, as the policy has them."""
    wanted = settings.get(name) or getattr(defaults, name)
    threshold = settings.get("threshold", defaults.threshold)
    return tuple(sorted(set(wanted))), figure(Decimal(str(threshold)))


def _both_directions(settings: Settings) -> bool:
    return bool(settings.get("both_directions", _RELATIONS.both_directions))


def _hits(said: Mapping[str, Any]) -> list[Hit]:
    return [tuple(hit) for window in said["windows"] for hit in window["found"]]


def _type(entity: Entity) -> str:
    return entity.types[0] if entity.types else entity.kind


def _method(part: str, made: Made, parameters: Mapping[str, Any]) -> Method:
    return Method(
        name=f"glassbox.{part}@{made.family}",
        family=made.family,
        library=made.library,
        version=made.version,
        model=made.model,
        parameters={"model": dict(made.parameters), "words": RULES, **parameters},
    )


def _by_model(method: Method) -> bool:
    return method.family != "rules"


def _made(method: Method) -> Made:
    return Made(method.family, method.library, method.version, method.model or "", method.parameters["model"])
