"""What the structure judge asks of a text: which entities it names, and which of them it puts together.

`EntityExtractor` and `PairExtractor` are the ports. Rules (`judges.extract_rules`) and models
(`judges.extract_models`) find entities and pairs in their own ways and are judged alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from glassbox.contract.canonical import sha256_hex
from glassbox.contract.judge_settings import Relations
from glassbox.contract.verdict import Method
from judges.text import Span

NAME = "name"
NUMERAL = "numeral"
PAIR_LIMIT = Relations().pair_limit
"""Pairs of an answer that are judged where the policy does not say."""

Settings = Mapping[str, Any]
"""A part's settings in the policy."""


@dataclass(frozen=True, slots=True)
class Entity:
    """`text` stands at `[start, end)` of the text that it was found in.

    `forms`: each normal form it can be read as; two entities are one where a form is equal. The first names it.
    `implies`, `bare`: as in `values.Value`. A name's first form is its words, ready to be looked for in a text; a
    second one leaves out a word that may only begin the sentence ("Yesterday Apple").
    `types`: the labels under which a model found it, sorted; `score`: the highest confidence, in [0, 1].
    """

    text: str
    kind: str
    start: int
    end: int
    forms: tuple[str, ...]
    implies: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    score: float | None = None

    @property
    def key(self) -> str:
        return self.forms[0]


class Pair(NamedTuple):
    """Two entities that the text puts together, by their places in the list of entities, and the span that does.

    Where the extractor is directed, `one` is the head and `other` the tail of `predicate`."""

    one: int
    other: int
    span: Span
    predicate: str | None = None
    score: float | None = None


class Call(NamedTuple):
    """What a model was asked and what it said, so that both can be found again by digest.

    `input_digest`: SHA-256 of the canonical question; `output`: canonical JSON (`judges.extract_models`)."""

    schema: str
    input_digest: str
    output: bytes

    def evidence(self) -> dict[str, str]:
        return {
            "schema": self.schema,
            "input_digest": self.input_digest,
            "output_digest": sha256_hex(self.output),
        }


@dataclass(frozen=True)
class Reading:
    """The entities of a text in reading order. `cut`: words too long for the model's window, read in part."""

    entities: Sequence[Entity]
    calls: tuple[Call, ...] = ()
    cut: int = 0


@dataclass(frozen=True)
class Pairing:
    """The pairs of a text in reading order. `cut`: sentences with so many entities or words that only those near each
    other were asked about."""

    pairs: list[Pair]
    calls: tuple[Call, ...] = ()
    cut: int = 0


class EntityExtractor(Protocol):
    """Finds entities. An implementation may gather the calls of many evaluations into a batch.

    `reads_queries`: whether it wants the query among the texts. A model is spared it: what a query names is looked for
    by its words, for which rules suffice."""

    reads_queries: bool

    def method(self, settings: Settings) -> Method:
        """How the part `entities` is judged under its settings."""
        ...

    async def entities(self, texts: Sequence[str], settings: Settings) -> list[Reading]:
        """A reading of each text. The texts belong to one evaluation. Raises `JudgeError`."""
        ...

    async def close(self) -> None: ...


class PairExtractor(Protocol):
    """Finds pairs. `directed`: whether its pairs have a head and a tail; then sources are asked for theirs too."""

    directed: bool

    def method(self, settings: Settings, entities: Method) -> Method:
        """How the part `relations` is judged under its settings, with entities found by that method."""
        ...

    async def pairs(
        self, texts: Sequence[tuple[str, Sequence[Entity]]], settings: Settings, limit: int | None
    ) -> list[Pairing]:
        """For each text with its entities at most `limit` different pairs that it puts together. Raises
        `JudgeError`."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Extractor:
    """Both halves of what the structure judge asks."""

    entities: EntityExtractor
    pairs: PairExtractor
