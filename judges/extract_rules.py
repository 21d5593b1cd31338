"""The rule-based extractors of the base install: names by capitals, values by patterns, pairs by clauses."""

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from glassbox.contract.verdict import Method
from judges.extract import NAME, PAIR_LIMIT, Entity, Extractor, Pair, Pairing, Reading, Settings
from judges.lexical.statements import statements
from judges.names import HONORIFICS, name_form, terms
from judges.text import RULES, Span, Token, is_content, language, sentences
from judges.values import values

_VERSION = "2"


class RuleEntities:
    """Deterministic and without a model; the policy's labels and threshold mean nothing to it."""

    reads_queries = True  # it tells which words are names

    def method(self, settings: Settings) -> Method:
        return Method(
            name="glassbox.entities@rules",
            family="rules",
            library="judges.extract_rules",
            version=_VERSION,
            parameters={"names": "runs of capitalised words", "values": "judges.values/1", "words": RULES},
        )

    async def entities(self, texts: Sequence[str], settings: Settings) -> list[Reading]:
        return [Reading(found) for found in await asyncio.to_thread(find_entities, texts)]

    async def close(self) -> None:
        """Nothing is held."""


class RulePairs:
    """Entities that stand in one clause, whoever found them. Without a direction or a predicate."""

    directed = False

    def method(self, settings: Settings, entities: Method) -> Method:
        return Method(
            name="glassbox.relations@rules",
            family="rules",
            library="judges.extract_rules",
            version=_VERSION,
            parameters={
                "entities": entities.model_dump(mode="json"),
                "pair_limit": int(settings.get("pair_limit", PAIR_LIMIT)),
                "pairs": "unordered, both in one clause: a sentence split at ; and between verbs at and/but",
            },
        )

    async def pairs(
        self, texts: Sequence[tuple[str, Sequence[Entity]]], settings: Settings, limit: int | None
    ) -> list[Pairing]:
        return [Pairing(await asyncio.to_thread(find_pairs, text, entities, limit)) for text, entities in texts]

    async def close(self) -> None:
        """Nothing is held."""


def rule_extractor() -> Extractor:
    return Extractor(RuleEntities(), RulePairs())


# --- names ----------------------------------------------------------------------------------------------------

_PARTICLE_LISTING = (
    "and of for the de la le les des du del della di da dos das do van von der den ten bin ibn al el y e"
)
_PARTICLES = frozenset(_PARTICLE_LISTING.split())
_GERMAN_PARTICLES = frozenset(("and", "de", "la", "da", "van"))  # "von" and "der" join any two German nouns
_OPENER_LISTING = (
    "however therefore yesterday today tomorrow according additionally furthermore moreover meanwhile finally first"
    " second third overall although despite since unlike like instead similarly consequently thus hence later now"
    " often sometimes perhaps yes no please note based given within without among around near every several"
)
_OPENERS = frozenset(_OPENER_LISTING.split())
_JOINT = re.compile(r"(?:[ \u00a0]{1,3}(?:[dl]['’ʼ])?|-|)", re.IGNORECASE)
_AFTER_INITIAL = re.compile(r"\.?[ \u00a0]")
_RESTART = re.compile(r".*[:\n]\W*", re.DOTALL)
_TELLING = 2_000  # characters that tell the language
_LONGEST = 16  # terms of a name
_SHOUTED = 0.8
_SHOUTED_WORDS = 4


@dataclass(frozen=True)
class _Casing:
    """Words as the texts of an evaluation write them: `capital` with a capital away from the beginning of a sentence
    (in a longer name only if never `small`: "Lost property" is no name because of a "Lost Property Office")."""

    capital: frozenset[str]
    small: frozenset[str]


@dataclass(frozen=True)
class _Sentence:
    text: str
    offset: int
    terms: list[Token]
    shouted: bool

    @classmethod
    def of(cls, text: str, span: Span) -> "_Sentence":
        piece = text[span.start : span.end]
        found = terms(piece)
        lettered = [piece[t.start : t.end] for t in found if piece[t.start].isalpha()]
        loud = sum(word.isupper() and len(word) > 1 for word in lettered)
        return cls(piece, span.start, found, loud >= max(_SHOUTED_WORDS, _SHOUTED * len(lettered)))

    def raw(self, index: int) -> str:
        term = self.terms[index]
        return self.text[term.start : term.end]

    def gap(self, index: int) -> str:
        """What stands before a term."""
        return self.text[self.terms[index - 1].end if index else 0 : self.terms[index].start]

    def begins(self, index: int) -> bool:
        return index == 0 or _RESTART.fullmatch(self.gap(index)) is not None


def find_entities(texts: Sequence[str]) -> list[list[Entity]]:
    """The entities of each text in reading order; a word that one of the texts writes with a capital in mid-sentence
    is a name at the beginning of a sentence too."""
    read = [[_Sentence.of(text, span) for span in sentences(text)] for text in texts]
    casing = _casing(sentence for text in read for sentence in text)
    common = language("\n".join(text[:_TELLING] for text in texts))
    return [
        list(_entities(sentence_list, casing, language(text[:_TELLING]) or common))
        for text, sentence_list in zip(texts, read, strict=True)
    ]


def find_values(text: str, offset: int = 0) -> list[Entity]:
    """The values of one sentence, which stands at `offset`."""
    return [
        Entity(text[v.start : v.end], v.kind, v.start + offset, v.end + offset, v.forms, v.implies, v.bare)
        for v in values(text)
    ]


def _casing(read: Iterable[_Sentence]) -> _Casing:
    alone: set[str] = set()
    within: set[str] = set()
    small: set[str] = set()
    for sentence in read:
        after_capital = False
        for index, term in enumerate(sentence.terms):
            capital = _capital(sentence, index)
            if capital and not sentence.shouted and not sentence.begins(index):
                followed = index + 1 < len(sentence.terms) and _capital(sentence, index + 1)
                (within if after_capital or followed else alone).add(term.text)
            elif sentence.text[term.start].islower():
                small.add(term.text)
            after_capital = capital
    return _Casing(frozenset(alone | (within - small)), frozenset(small))


def _entities(read: Sequence[_Sentence], casing: _Casing, spoken: str | None) -> Iterator[Entity]:
    for sentence in read:
        found = find_values(sentence.text)
        taken = {index for index, term in enumerate(sentence.terms) if _overlaps(term, found)}
        if not sentence.shouted:
            found += _names(sentence, taken, casing, spoken)
        for entity in sorted(found, key=lambda entity: entity.start):
            yield replace(entity, start=entity.start + sentence.offset, end=entity.end + sentence.offset)


def _names(sentence: _Sentence, taken: set[int], casing: _Casing, spoken: str | None) -> Iterator[Entity]:
    index = 0
    while index < len(sentence.terms):
        run = _run(sentence, index, taken, _GERMAN_PARTICLES if spoken == "de" else _PARTICLES)
        index = run[-1] + 1 if run else index + 1
        opening = bool(run) and sentence.begins(run[0])
        while run and _empty(sentence, run[0], opening, spoken):
            opening = False
            run = run[1:]
        if run and (name := _name(sentence, run, opening, casing, spoken)):
            yield name


def _run(sentence: _Sentence, index: int, taken: set[int], particles: frozenset[str]) -> list[int]:
    """Capitalised terms from `index` on, with the particles between them; empty if it has no capital."""
    if index in taken or not _capital(sentence, index):
        return []
    run = [index]
    pending: list[int] = []
    for following in range(index + 1, min(index + _LONGEST, len(sentence.terms))):
        last = sentence.raw(following - 1)
        abbreviated = len(last) == 1 or sentence.terms[following - 1].text in HONORIFICS or "." in last
        gap = sentence.gap(following)
        if following in taken or not (_JOINT.fullmatch(gap) or (abbreviated and _AFTER_INITIAL.fullmatch(gap))):
            break
        if _capital(sentence, following):
            run += [*pending, following]
            pending = []
        elif len(pending) < 2 and _particle(sentence, following, particles):
            pending.append(following)
        else:
            break
    return run


def _capital(sentence: _Sentence, index: int) -> bool:
    first = sentence.text[sentence.terms[index].start]
    return first.isupper() or first.istitle()


def _particle(sentence: _Sentence, index: int, particles: frozenset[str]) -> bool:
    word = sentence.terms[index].text
    # "and" joins only where it is written "&": two people are two names.
    return word in particles and (word != "and" or "&" in sentence.raw(index))


def _empty(sentence: _Sentence, index: int, opening: bool, spoken: str | None) -> bool:
    """Whether a word at the head of a run belongs to the grammar and not to the name; "US" and "AT&T" are names."""
    word = sentence.terms[index].text
    if _distinctive(sentence.raw(index)):
        return False
    return not is_content(word, spoken) or (opening and word in _OPENERS)


def _name(sentence: _Sentence, run: list[int], opening: bool, casing: _Casing, spoken: str | None) -> Entity | None:
    first = sentence.terms[run[0]].text
    german = spoken == "de"
    # A capital at the beginning of a sentence, or of a German noun, says nothing by itself.
    doubtful = opening and first not in casing.capital and not _distinctive(sentence.raw(run[0]))
    alternative: list[int] = []
    if doubtful and len(run) > 1:
        if first in casing.small or german:
            run = run[1:]
            while run and sentence.terms[run[0]].text in _PARTICLES:
                run = run[1:]
        else:
            alternative = run[1:]
    elif doubtful:
        return None
    if len(run) == 1:
        raw = sentence.raw(run[0])
        if len(raw) == 1 or (german and not _distinctive(raw)) or first in HONORIFICS:
            return None
    if not run:
        return None
    start, end = sentence.terms[run[0]].start, sentence.terms[run[-1]].end
    forms = [name_form(sentence.text, [sentence.terms[n] for n in chosen]) for chosen in (run, alternative)]
    return Entity(sentence.text[start:end], NAME, start, end, tuple(dict.fromkeys(filter(None, forms))))


def _distinctive(raw: str) -> bool:
    """Capitals beyond the first letter: an acronym or a name such as "OpenAI"."""
    return any(character.isupper() for character in raw[1:])


def _overlaps(term: Token, found: Sequence[Entity]) -> bool:
    at = bisect_right(found, term.start, key=lambda entity: entity.start) - 1
    return (at >= 0 and found[at].end > term.start) or (at + 1 < len(found) and found[at + 1].start < term.end)


# --- pairs ----------------------------------------------------------------------------------------------------

_LONG = 2_000  # characters from which a sentence is a list or an attack, and is not taken apart
_MAY_SPLIT = re.compile(r"[;；]|\b(?:and|but)\b", re.IGNORECASE)


def find_pairs(text: str, entities: Sequence[Entity], limit: int | None = None) -> list[Pair]:
    """Unordered pairs of different entities in one clause, each pair once; at most `limit`."""
    starts = [entity.start for entity in entities]
    seen: set[frozenset[str]] = set()
    pairs: list[Pair] = []
    for span in sentences(text):
        inside = range(bisect_left(starts, span.start), bisect_left(starts, span.end))
        if len(inside) < 2:
            continue
        for clause in _clauses(text, span):
            members = {entities[n].key: n for n in reversed(inside) if clause.start <= starts[n] < clause.end}
            for one, other in combinations(sorted(members.values()), 2):
                both = frozenset((entities[one].key, entities[other].key))
                if both not in seen:
                    seen.add(both)
                    pairs.append(Pair(one, other, clause))
                    if len(pairs) == limit:
                        return pairs
    return pairs


def _clauses(text: str, sentence: Span) -> list[Span]:
    """The sentence cut where the offline model cuts statements; whole where it claims nothing (a question)."""
    if sentence.end - sentence.start > _LONG or not _MAY_SPLIT.search(text, sentence.start, sentence.end):
        return [sentence]
    spans = []
    position = sentence.start
    for clause in statements(text[sentence.start : sentence.end]):
        start = text.find(clause, position, sentence.end)
        if start < 0:
            return [sentence]
        position = start + len(clause)
        spans.append(Span(start, position))
    return spans or [sentence]
