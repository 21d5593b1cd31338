"""What a policy says of each judge and part: the settings of those that come with the product, and of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from glassbox.contract.composite import PLACES, figure
from glassbox.contract.verdict import KINDS

DIGEST = r"^[0-9a-f]{64}$"
CODE = r"^[a-z][a-z0-9_]{0,63}$"


class SettingsModel(BaseModel):
    """Immutable, and an unknown key is an error."""

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


class Part(SettingsModel):
    """A part's settings. `target_family`: the method family that the target was set for; a verdict by another
    family is flagged `foreign_target`, because the figures do not compare. `agreement`: SHA-256 of the agreement card
    that says how far this part's judge agrees with people."""

    enabled: bool = True
    weight: Weight
    target: Share | None = None
    target_family: str | None = None
    agreement: Annotated[str | None, Field(pattern=DIGEST)] = None

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
    """`estimator`: claims and verdicts in two calls (Ragas), or `fused` in one, whose decomposition sees the passages:
    another figure under another method's name."""

    weight: Weight = Decimal("0.60")
    target: Share | None = Decimal("0.95")
    target_family: str | None = "llm"
    repeats: Repeats = 1
    estimator: Literal["two_step", "fused"] = "two_step"


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


class ContextualPrecisionParts(SettingsModel):
    llm_relevance: LlmRelevance = LlmRelevance()
    similarity_calibration: SimilarityCalibration = SimilarityCalibration()


class SemanticFaithfulnessParts(SettingsModel):
    faithfulness: Faithfulness = Faithfulness()
    answer_relevancy: AnswerRelevancy = AnswerRelevancy()


class StructuralFidelityParts(SettingsModel):
    terminology: Terminology = Terminology()
    entities: Entities = Entities()
    relations: Relations = Relations()


class ContextualPrecision(SettingsModel):
    enabled: bool = True
    weight: Weight = Decimal("0.30")
    parts: ContextualPrecisionParts = ContextualPrecisionParts()


class SemanticFaithfulness(SettingsModel):
    enabled: bool = True
    weight: Weight = Decimal("0.40")
    parts: SemanticFaithfulnessParts = SemanticFaithfulnessParts()


class StructuralFidelity(SettingsModel):
    enabled: bool = True
    weight: Weight = Decimal("0.30")
    parts: StructuralFidelityParts = StructuralFidelityParts()


Code = Annotated[str, StringConstraints(pattern=CODE)]
"""A name as it stands on a record."""
_OPEN = ConfigDict(frozen=True, extra="allow", json_schema_extra={"propertyNames": {"pattern": CODE}})

RESERVED_KINDS = frozenset((*KINDS, "intake", "join", "committer", "gateway"))
"""Worker kinds of the product, and its processes that judge nothing: no judge of one's own has such a kind."""


def _plain(value: Any) -> Any:
    """A setting of a judge of one's own as it stands in the canonical policy: numbers are figures of 6 places."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | Decimal):
        try:
            number = Decimal(str(value))
            if abs(number) < 10**12 and number == number.quantize(Decimal(1).scaleb(-PLACES)):
                return figure(number)
        except InvalidOperation:
            pass
        raise ValueError("must be a finite number below 10^12 with at most 6 decimal places")
    if isinstance(value, list | tuple) and not any(isinstance(item, list | tuple) for item in value):
        return tuple(_plain(item) for item in value)
    raise ValueError("must be text, a number, true, false, or a list of these")


_SCALARS: list[dict[str, Any]] = [{"type": name} for name in ("string", "number", "boolean")]
OwnSetting = Annotated[
    Any,
    BeforeValidator(_plain),
    WithJsonSchema({"anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": _SCALARS}}]}),
]


class OwnPart(Part):
    """A part of a judge of one's own. Keys beyond those of every part are the judge's own settings."""

    model_config = _OPEN
    __pydantic_extra__: dict[Code, OwnSetting] = Field(init=False)


class OwnJudge(SettingsModel):
    """A judge that a package registers. `kind`: the worker kind that answers, by default of the judge's own name."""

    enabled: bool = True
    weight: Weight
    kind: Code
    parts: Annotated[dict[Code, OwnPart], Field(min_length=1)]

    @field_validator("kind")
    @classmethod
    def _not_built_in(cls, value: str) -> str:
        if value in RESERVED_KINDS:
            raise ValueError(f"{value!r} is GlassBox's own; take another")
        return value


class Judges(SettingsModel):
    """Those that come with the product, and any number of one's own under names of their own."""

    model_config = _OPEN
    __pydantic_extra__: dict[Code, OwnJudge] = Field(init=False)

    contextual_precision: ContextualPrecision = ContextualPrecision()
    semantic_faithfulness: SemanticFaithfulness = SemanticFaithfulness()
    structural_fidelity: StructuralFidelity = StructuralFidelity()

    @model_validator(mode="before")
    @classmethod
    def _kinds(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        own = {name: table for name, table in value.items() if name not in cls.model_fields}
        kinds = {name: {"kind": name, **table} for name, table in own.items() if isinstance(table, Mapping)}
        return {**value, **kinds}

    @model_validator(mode="after")
    def _parts_once(self) -> Judges:
        owner: dict[str, str] = {}
        for judge, _, parts in self.tables():
            for part, _ in parts:
                if part in owner:
                    raise ValueError(f"{judge}.parts.{part}: {owner[part]} has a part of that name")
                owner[part] = judge
        return self

    def own(self) -> dict[str, OwnJudge]:
        """Judge name -> settings of the judges that packages register."""
        return dict(self.__pydantic_extra__ or {})

    def tables(self) -> Iterator[tuple[str, Judge, list[tuple[str, Part]]]]:
        """(judge, its settings, its parts by name), those of the product first."""
        for name in type(self).model_fields:
            judge = getattr(self, name)
            yield name, judge, [(part, getattr(judge.parts, part)) for part in type(judge.parts).model_fields]
        for name, own in self.own().items():
            yield name, own, list(own.parts.items())


Judge = ContextualPrecision | SemanticFaithfulness | StructuralFidelity | OwnJudge

PART_NAMES = tuple(part for parts in KINDS.values() for part in parts)
"""The parts of the judges that come with the product."""


def kind_of_parts(policy: Mapping[str, Any]) -> dict[str, str]:
    """Part -> the worker kind that answers for it, of a canonical policy."""
    built_in = {part: kind for kind, parts in KINDS.items() for part in parts}
    return {part: judge.get("kind") or built_in[part] for judge in policy["judges"].values() for part in judge["parts"]}
