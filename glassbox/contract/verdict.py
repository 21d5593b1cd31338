"""A verdict: what one judge says of one part, in one of three states and never as a stand-in number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, PlainSerializer, model_validator

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.contract.composite import PLACES, figure

KINDS: Mapping[str, tuple[str, ...]] = {
    "relevance": ("llm_relevance",),
    "calibration": ("similarity_calibration",),
    "grounding": ("faithfulness", "answer_relevancy"),
    "terminology": ("terminology",),
    "structure": ("entities", "relations"),
}
"""Worker kind -> the parts it answers for."""

SKIPPED = frozenset(("sampled_out", "budget_spent"))
"""Why no part of an evaluation was judged at all: its share of the stream is not judged, or the day's tokens are
spent."""

NOT_APPLICABLE = SKIPPED | frozenset(
    (
        "no_sources",
        "no_passages",
        "no_scores",
        "too_few",
        "constant",
        "no_entities",
        "no_pairs",
        "no_claims",
        "abstained",
        "noncommittal",
        "other_language",
        "other_script",
        "too_short",
        "out_of_scope",  # of a judge of one's own, where no other says it; its evidence says why
    )
)
"""Why a part does not apply to an evaluation."""

FAILED = frozenset(
    (
        "timeout",
        "rate_limited",
        "unavailable",
        "malformed_output",
        "count_mismatch",
        "refused",
        "truncated",
        "model_missing",
        "crashed",
        "expired",
        "deadline",
        "store_unavailable",
        "request_lost",
        "document_missing",
        "document_changed",
        "erased",
        "no_question",
        "bad_embedding",
        "too_long",
    )
)
"""Why a part that does apply has no score."""


class Frozen(BaseModel):
    """Base of the messages: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_STEP = Decimal(1).scaleb(-PLACES)

Figure = Annotated[Decimal, Field(ge=0, le=1, decimal_places=PLACES), PlainSerializer(figure, return_type=str)]
"""A number in [0, 1] with 6 decimal places; a decimal string in JSON."""


class NotFinite(ValueError):
    """A score that is NaN or infinite."""


def to_figure(value: float) -> Decimal:
    """`value` in [0, 1] (clamped) rounded half-even to 6 places. Raises `NotFinite` for NaN and infinities."""
    if not math.isfinite(value):
        raise NotFinite("a score must be finite")
    clamped = min(max(value, 0.0), 1.0) + 0.0  # -0.0 + 0.0 is 0.0: a record has no negative zero
    return Decimal(clamped).quantize(_STEP, rounding=ROUND_HALF_EVEN)


class Method(Frozen):
    """How a number was made. Two numbers compare only where their methods are equal.

    `family`: `lexical` (the offline model), `llm` (a hosted model), `rules` (no model), or a model's family.
    `parameters`: JSON without floats.
    """

    name: str
    family: str
    library: str
    version: str
    model: str | None = None
    prompt_digest: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)

    def digest(self) -> str:
        """SHA-256 of the RFC 8785 bytes, hexadecimal: what the ledger record carries."""
        return sha256_hex(canonical(self.model_dump(mode="json")))


class _Verdict(Frozen):
    part: str
    method: Method | None = None
    flags: tuple[str, ...] = ()


class Scored(_Verdict):
    """A score in [0, 1] with its bounds; `raw` is the library's value where it had to be clamped."""

    state: Literal["scored"] = "scored"
    score: Figure
    low: Figure
    high: Figure
    raw: Annotated[float, AllowInfNan(False)] | None = None

    @classmethod
    def of(
        cls,
        part: str,
        value: float,
        *,
        low: float | None = None,
        high: float | None = None,
        method: Method | None = None,
        flags: tuple[str, ...] = (),
        raw: float | None = None,
    ) -> Scored:
        """Round `value` (and bounds, by default the value itself) to 6 places; a value outside [0, 1] is clamped
        and kept in `raw`. Raises `NotFinite` when `value` is not finite: such a verdict is a `Failed`."""
        clamped = value if not 0.0 <= value <= 1.0 else None
        return cls(
            part=part,
            score=to_figure(value),
            low=to_figure(value if low is None else low),
            high=to_figure(value if high is None else high),
            method=method,
            flags=flags,
            raw=clamped if raw is None else raw,
        )

    @model_validator(mode="after")
    def _bounds(self) -> Scored:
        if not self.low <= self.score <= self.high:
            raise ValueError(f"low <= score <= high does not hold: {self.low} {self.score} {self.high}")
        return self


class NotApplicable(_Verdict):
    """The part has no meaning for this evaluation; `cause` is one of `NOT_APPLICABLE`."""

    state: Literal["not_applicable"] = "not_applicable"
    cause: str

    @model_validator(mode="after")
    def _known(self) -> NotApplicable:
        if self.cause not in NOT_APPLICABLE:
            raise ValueError(f"unknown cause {self.cause!r}")
        return self


class Failed(_Verdict):
    """The part applies but could not be judged; `cause` is one of `FAILED`, `detail` never quotes the evaluation."""

    state: Literal["failed"] = "failed"
    cause: str
    detail: str = ""

    @model_validator(mode="after")
    def _known(self) -> Failed:
        if self.cause not in FAILED:
            raise ValueError(f"unknown cause {self.cause!r}")
        return self


Verdict = Annotated[Scored | NotApplicable | Failed, Field(discriminator="state")]


def part_row(verdict: Scored | NotApplicable | Failed) -> dict[str, Any]:
    """The verdict as a row for `composite.compose` (judge and meets_target are added there)."""
    figures: dict[str, str | None] = dict.fromkeys(("score", "low", "high"))
    if isinstance(verdict, Scored):
        figures = {name: figure(getattr(verdict, name)) for name in figures}
    return {
        "part": verdict.part,
        "state": verdict.state,
        **figures,
        "cause": None if isinstance(verdict, Scored) else verdict.cause,
        "method_digest": verdict.method.digest() if verdict.method else None,
    }
