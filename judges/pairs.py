"""Whether the pairs that an answer makes of its entities are those of its sources."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from judges.extract import Entity, Pair
from judges.matching import Named, Place


class Assertion(NamedTuple):
    """A pair of the answer's entities that a source asserts: by which predicate, and where its entities stand."""

    predicate: str | None
    head: Place
    tail: Place


Asserted = Mapping[tuple[int, int], Sequence[Assertion]]
"""(head, tail), as places in the list of the answer's unique entities -> where sources assert it."""


@dataclass(frozen=True)
class Related:
    """One pair of the answer, `one` and `other` being places in the list of its unique entities.

    `status`: `supported`; `reversed`: the sources assert it the other way round only; `unsupported`; `novel_entity`:
    no source has one of the two; `query_only`: only the query has; `suspected`: supported, but said where the answer
    talks to the judge. `match`: `relation` (a source asserts the pair),
    `cooccurrence` (one sentence of one source has both) or ``. `places`: those of the two entities that say so.
    `agrees`: whether a source that asserts the pair does so by the same predicate; None where there is none.
    """

    one: int
    other: int
    pair: Pair
    status: str
    match: str = ""
    places: tuple[Place, ...] = ()
    agrees: bool | None = None

    def suspected(self) -> "Related":
        """The same, said where the answer talks to the judge: it earns nothing."""
        return replace(self, status="suspected") if self.status == "supported" else self


def assertions(
    source: int, unique: Sequence[Named], entities: Sequence[Entity], pairs: Iterable[Pair]
) -> Iterator[tuple[tuple[int, int], Assertion]]:
    """The pairs of a source's entities that are pairs of the answer's, with their places there."""
    at = sorted(
        (place.start, place.end, number, place)
        for number, named in enumerate(unique)
        for place in named.places
        if place.source == source
    )
    longest = max((end - start for start, end, *_ in at), default=0)

    def same(entity: Entity) -> dict[int, Place]:
        nearby = at[bisect_left(at, (entity.start - longest,)) : bisect_left(at, (entity.end,))]
        return {number: place for _, end, number, place in nearby if end > entity.start}

    for pair in pairs:
        heads, tails = same(entities[pair.one]), same(entities[pair.other])
        for head, tail in ((head, tail) for head in heads for tail in tails if head != tail):
            yield (head, tail), Assertion(pair.predicate, heads[head], tails[tail])


def relate(
    pairs: Iterable[Pair], unique: Sequence[Named], mentions: Sequence[int], asserted: Asserted, directed: bool
) -> list[Related]:
    """Each pair of the answer once, judged. `mentions`: where the entities that `pairs` name are in `unique`."""
    chosen: dict[tuple[int, int], Pair] = {}
    for pair in pairs:
        one, other = mentions[pair.one], mentions[pair.other]
        key = (one, other) if directed else (min(one, other), max(one, other))
        if one != other:
            chosen.setdefault(key, pair)
    by_sentence = [{place.sentence: place for place in reversed(named.places)} for named in unique]

    def judged(one: int, other: int, pair: Pair) -> Related:
        said = asserted.get((one, other), ())
        if said:
            first = next((a for a in said if a.predicate == pair.predicate), said[0])
            agrees = first.predicate == pair.predicate
            return Related(one, other, pair, "supported", "relation", (first.head, first.tail), agrees)
        turned = asserted.get((other, one), ())
        if turned and (other, one) not in chosen:  # who says it both ways round does not mean the order
            return Related(one, other, pair, "reversed", "", (turned[0].tail, turned[0].head))
        if shared := by_sentence[one].keys() & by_sentence[other].keys():
            places = (by_sentence[one][min(shared)], by_sentence[other][min(shared)])
            return Related(one, other, pair, "supported", "cooccurrence", places)
        statuses = {unique[one].status, unique[other].status}
        if statuses & {"novel", "near_miss"}:
            return Related(one, other, pair, "novel_entity")
        return Related(one, other, pair, "query_only" if "query_only" in statuses else "unsupported")

    return [judged(one, other, pair) for (one, other), pair in chosen.items()]
