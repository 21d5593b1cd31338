"""Policies: which judges and parts count, with which weights and targets, and when trust is enough.

Written as TOML by people (`[policy.NAME]`), filled in with every default, and cited on each record by the digest of
the canonical form, so that what a score meant at the time can be proved later.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.contract.composite import PLACES, figure
from glassbox.contract.verdict import KINDS


class PolicyError(ValueError):
    """A policy that cannot be used; the message names the key that is wrong."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


_AsFigure = PlainSerializer(figure, return_type=str, when_used="json")  # 0.5 and 0.50 are one setting in a task too
Weight = Annotated[Decimal, Field(ge=0, le=1000, decimal_places=PLACES, allow_inf_nan=False), _AsFigure]
Share = Annotated[Decimal, Field(ge=0, le=1, decimal_places=PLACES, allow_inf_nan=False), _AsFigure]
Repeats = Annotated[int, Field(ge=1, le=9)]
Names = Annotated[
    tuple[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64)], ...],
    Field(min_length=1, max_length=100),
    AfterValidator(_sorted),
]
"""A set of names, sorted: the order in which people write them changes neither the digest nor a verdict."""


class Part(_Settings):
    """A part's settings. `target_family`: the method family that the target was set for; a verdict by another
    family is flagged `foreign_target`, because the figures do not compare. `agreement`: SHA-256 of the agreement card
    that says how far this part's judge agrees with people."""

    enabled: bool = True
    weight: Weight
    target: Share | None = None
    target_family: str | None = None
    agreement: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$")] = None

    @field_validator("target", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return None if value == "none" else value  # TOML has no null


class LlmRelevance(Part):
    """`repeats`: how many times the model is asked; their agreement is reported, the first answer is the score."""

    weight: Weight = Decimal("0.70")
    target: Share | None = Decimal("0.85")
    target_family: str | None = "llm"
    higher_is_better: bool = True
    repeats: Repeats = 1


class SimilarityCalibration(Part):
    """`higher_is_better`: false where the retriever reports distances."""

    weight: Weight = Decimal("0.30")
    higher_is_better: bool = True


class Faithfulness(Part):
    weight: Weight = Decimal("0.60")
    target: Share | None = Decimal("0.95")
    target_family: str | None = "llm"
    repeats: Repeats = 1


class AnswerRelevancy(Part):
    """`strictness`: questions generated from the answer, one call each."""

    weight: Weight = Decimal("0.40")
    target: Share | None = Decimal("0.80")
    target_family: str | None = "llm"
    strictness: Annotated[int, Field(ge=1, le=10)] = 1
    repeats: Repeats = 1


class Terminology(Part):
    """`reference`: what the answer's wording is compared with."""

    weight: Weight = Decimal("0.30")
    reference: Literal["aligned", "whole_sources"] = "aligned"


class Entities(Part):
    """`labels`: the types that an entity model looks for; `threshold`: its least confidence. Rules need neither."""

    weight: Weight = Decimal("0.35")
    target: Share | None = Decimal("0.90")
    labels: Names = _sorted(
        (
            *("person", "organization", "location", "product", "event", "work of art", "law"),
            *("date", "time", "money", "quantity", "percentage"),
        )
    )
    threshold: Share = Decimal("0.50")


class Relations(Part):
    """`types`: what a relation model looks for; `threshold`: its least confidence. `pair_limit`: pairs of one answer
    that are judged, in reading order. `both_directions`: a pair is asked about both ways round."""

    weight: Weight = Decimal("0.35")
    target: Share | None = Decimal("0.90")
    types: Names = _sorted(
        (
            *("works for", "member of", "founded by", "owned by", "acquired by", "part of", "located in"),
            *("born in", "died in", "married to", "parent of", "created by", "produces", "took place on"),
        )
    )
    threshold: Share = Decimal("0.50")
    pair_limit: Annotated[int, Field(ge=1, le=2000)] = 200
    both_directions: bool = True


class ContextualPrecisionParts(_Settings):
    llm_relevance: LlmRelevance = LlmRelevance()
    similarity_calibration: SimilarityCalibration = SimilarityCalibration()


class SemanticFaithfulnessParts(_Settings):
    faithfulness: Faithfulness = Faithfulness()
    answer_relevancy: AnswerRelevancy = AnswerRelevancy()


class StructuralFidelityParts(_Settings):
    terminology: Terminology = Terminology()
    entities: Entities = Entities()
    relations: Relations = Relations()


class ContextualPrecision(_Settings):
    enabled: bool = True
    weight: Weight = Decimal("0.30")
    parts: ContextualPrecisionParts = ContextualPrecisionParts()


class SemanticFaithfulness(_Settings):
    enabled: bool = True
    weight: Weight = Decimal("0.40")
    parts: SemanticFaithfulnessParts = SemanticFaithfulnessParts()


class StructuralFidelity(_Settings):
    enabled: bool = True
    weight: Weight = Decimal("0.30")
    parts: StructuralFidelityParts = StructuralFidelityParts()


class Judges(_Settings):
    contextual_precision: ContextualPrecision = ContextualPrecision()
    semantic_faithfulness: SemanticFaithfulness = SemanticFaithfulness()
    structural_fidelity: StructuralFidelity = StructuralFidelity()


MAX_BYTES = 64 * 1024
"""A policy's canonical form stands whole in every announcement."""

PART_NAMES = tuple(part for parts in KINDS.values() for part in parts)


class Policy(_Settings):
    """When an answer is trusted. Thresholds and targets are in [0, 1]; `deadline_s` in seconds."""

    schema_version: Literal["1"] = "1"
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    threshold: Share = Decimal("0.80")
    vetoes: tuple[str, ...] = ("faithfulness",)
    review_on: tuple[str, ...] = ("answer_relevancy", "entities", "llm_relevance")
    min_coverage: Share = Decimal("0.50")
    abstention: Literal["incomplete", "ignore"] = "incomplete"
    empty_context: Literal["not_applicable", "unsupported"] = "not_applicable"
    deadline_s: Annotated[Decimal, Field(gt=0, le=86400, decimal_places=PLACES, allow_inf_nan=False)] = Decimal(300)
    ledger: Mapping[Literal["channel", "chaincode"], str] = Field(default_factory=dict)
    judges: Judges = Judges()

    @field_validator("vetoes", "review_on")
    @classmethod
    def _parts_exist(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in PART_NAMES:
                raise ValueError(f"no part is called {name!r}{nearest(name, PART_NAMES)}")
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _weights(self) -> Policy:
        total = Decimal(0)
        for judge, settings, parts in self._judges():
            inner = [part.weight for _, part in parts if part.enabled]
            if not settings.enabled or not inner:
                continue
            if not sum(inner):
                raise ValueError(f"judges.{judge}.parts: the enabled weights sum to zero")
            total += settings.weight
        if not total:
            raise ValueError("judges: the enabled weights sum to zero")
        return self

    @model_validator(mode="after")
    def _can_be_read_back(self) -> Policy:
        try:
            size = len(written := canonical(self.document))
            strict_loads(written)
        except CanonicalError as error:
            raise ValueError(f"{error.field}: {error.reason}") from None
        if size > MAX_BYTES:
            raise ValueError(f"{size} bytes in canonical form; at most {MAX_BYTES}")
        return self

    def _judges(self) -> Iterator[tuple[str, Any, list[tuple[str, Part]]]]:
        for judge in type(self.judges).model_fields:
            settings = getattr(self.judges, judge)
            yield judge, settings, [(name, getattr(settings.parts, name)) for name in type(settings.parts).model_fields]

    def parts(self) -> dict[str, Part]:
        """Enabled part name -> its settings."""
        return {
            name: part
            for _, settings, parts in self._judges()
            if settings.enabled
            for name, part in parts
            if part.enabled
        }

    def kinds(self) -> tuple[str, ...]:
        """The worker kinds that have at least one enabled part, in the order of `KINDS`."""
        parts = self.parts()
        return tuple(kind for kind, names in KINDS.items() if parts.keys() & set(names))

    def kind_settings(self, kind: str) -> dict[str, dict[str, Any]]:
        """Part name -> settings as JSON, for the enabled parts of a worker kind: what a task carries."""
        parts = self.parts()
        settings = {name: parts[name].model_dump(mode="json") for name in KINDS[kind] if name in parts}
        if "faithfulness" in settings:
            settings["faithfulness"]["empty_context"] = self.empty_context
        return settings

    @cached_property
    def document(self) -> dict[str, Any]:
        """The canonical policy as a JSON value: every default filled in, every figure a 6-place decimal string."""
        made = _figures(self.model_dump())
        assert isinstance(made, dict)
        return made

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the RFC 8785 bytes of `document`, hexadecimal: what every record cites."""
        return sha256_hex(canonical(self.document))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Policy:
        """The policy back from its canonical form. Raises `PolicyError`."""
        return _validated(dict(document))


def _figures(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, Decimal | int):
        return f"{Decimal(value):.{PLACES}f}"
    if isinstance(value, Mapping):
        return {key: _figures(item) for key, item in value.items()}
    return [_figures(item) for item in value]


SHIPPED: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "rag": {"empty_context": "unsupported"},
    "direct": {"judges": {"contextual_precision": {"enabled": False}}},
    "offline": {
        # words alone miss a relation between the wrong pair everywhere else: it must not come out as a pass
        "review_on": ["answer_relevancy", "entities", "llm_relevance", "relations"],
        "judges": {
            "contextual_precision": {"parts": {"llm_relevance": {"target_family": "lexical"}}},
            "semantic_faithfulness": {
                "parts": {
                    "faithfulness": {"target_family": "lexical"},
                    "answer_relevancy": {"target": Decimal("0.20"), "target_family": "lexical"},
                }
            },
        },
    },
}
"""The policies that come with the product, as differences from the defaults."""


def load_policies(text: str) -> dict[str, Policy]:
    """The shipped policies and those of a TOML document's `[policy.NAME]` tables (a shipped name is overlaid).

    Raises `PolicyError` with the key that is wrong.
    """
    try:
        # Decimal keeps what was written, so that a seventh place is seen and 0.1 means 0.1
        tables = tomllib.loads(text, parse_float=Decimal).get("policy", {})
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not TOML: {error}") from None
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise PolicyError("policy: must be tables [policy.NAME]")
    for name, table in tables.items():
        if "name" in table:
            raise PolicyError(f"policy.{name}.name: no such key; the table's own name is the policy's")
    names = dict.fromkeys([*SHIPPED, *tables])
    return {name: _validated({"name": name, **_overlay(SHIPPED.get(name, {}), tables.get(name, {}))}) for name in names}


def _overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _overlay(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged


def _validated(values: dict[str, Any]) -> Policy:
    try:
        return Policy.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(["policy", str(values.get("name", "?")), *map(str, first["loc"])])
        if first["type"] == "extra_forbidden":
            known = _fields_at(first["loc"][:-1])
            raise PolicyError(f"{where}: no such key{nearest(str(first['loc'][-1]), known)}") from None
        raise PolicyError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    model: Any = Policy
    for step in location:
        model = model.model_fields[step].annotation
    return list(model.model_fields)


def nearest(name: str, known: Any) -> str:
    """A hint for an error message: ``; did you mean 'x'?``, or nothing where nothing is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""
