"""Agreement cards: how far the judges agree with people, measured once on labelled evaluations and cited by digest.

A card holds figures, digests and codes, and no text of an evaluation. A policy names one by the SHA-256 of its RFC 8785
bytes, so that the ledger's policy digest also stands for how far the judge was known to agree with people.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, ValidationError, model_validator

from glassbox.contract.canonical import CanonicalError, canonical, sha256_hex, strict_loads
from glassbox.contract.composite import PLACES, figure
from glassbox.contract.verdict import Figure, Frozen, Method

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
SignedFigure = Annotated[Decimal, Field(ge=-1, le=1, decimal_places=PLACES), PlainSerializer(figure, return_type=str)]
"""A number in [-1, 1] with 6 decimal places; a decimal string in JSON."""


class CardError(ValueError):
    """Bytes that are no agreement card; the message names the field that is wrong."""


class Estimate(Frozen):
    """A figure and its interval: the percentiles of the bootstrap."""

    value: SignedFigure
    low: SignedFigure
    high: SignedFigure


class Confusion(Frozen):
    """Counts of what the judge said, right (true) or wrong by the label: positive is a score that meets the target."""

    true_positive: Count
    false_positive: Count
    false_negative: Count
    true_negative: Count


class Bin(Frozen):
    """Scores from `lower` up to `upper`: how many, their mean, and the share that people call positive, with
    Wilson's 95 % interval."""

    lower: Figure
    upper: Figure
    n: Annotated[int, Field(ge=1)]
    mean_score: Figure
    share: Figure
    low: Figure
    high: Figure


class Reliability(Frozen):
    """Whether a score means what it says: the bins that hold a score, and the expected calibration error."""

    expected_calibration_error: Figure
    bins: tuple[Bin, ...]


class Suggestion(Frozen):
    """The target with the highest balanced accuracy on these labels (`in_sample`, too good by construction), and the
    balanced accuracy of choosing a target so, on labels that had no part in the choice (`cross_validated`)."""

    target: Figure
    in_sample: Figure
    cross_validated: Estimate | None
    folds: Count


class MethodAgreement(Frozen):
    """The figures of one part as judged by one method. `n` have a score, `positives` of them a positive label.

    What depends on a target is null without one; what needs both classes is null where one has no example.
    `undecided`: their bounds lie on both sides of the target. `decided`: balanced accuracy of the others.
    """

    digest: Digest | None
    method: Method | None
    target: Figure | None
    n: Annotated[int, Field(ge=1)]
    positives: Count
    undecided: Count | None
    confusion: Confusion | None
    balanced_accuracy: Estimate | None
    decided: Estimate | None
    true_positive_rate: Estimate | None
    true_negative_rate: Estimate | None
    kappa: Estimate | None
    accuracy: Figure | None
    constant_accuracy: Figure
    auc: Estimate | None
    reliability: Reliability | None
    suggestion: Suggestion | None

    @model_validator(mode="after")
    def _digest_is_the_methods(self) -> MethodAgreement:
        if self.method is not None and self.method.digest() != self.digest:
            raise ValueError("digest is not that of the method")
        return self


class PartAgreement(Frozen):
    """One part: how many have a label, how many of those a positive one, and what became of them. `not_applicable`
    and `failed` by cause; `unjudged` were refused, or are not where the verdicts were looked for."""

    part: str
    labelled: Count
    positives: Count
    not_applicable: dict[str, Count]
    failed: dict[str, Count]
    unjudged: Count
    methods: tuple[MethodAgreement, ...]


class CardData(Frozen):
    """What was judged. `digest`: SHA-256 of the RFC 8785 array of the sorted SHA-256 of each canonical
    `{"labels": …, "request": …}`."""

    digest: Digest
    n: Count


class CardPolicy(Frozen):
    """The policy whose targets the scores were held against."""

    name: str
    digest: Digest


class Bootstrap(Frozen):
    """How the intervals were made: resamples within each class, and the share between the percentiles."""

    resamples: Count
    confidence: Figure
    seed: Count


class AgreementCard(Frozen):
    """How far the judges agree with people's labels, and all it takes to know what that was measured on."""

    schema_version: Literal["1"] = "1"
    measured_on: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    data: CardData
    policy: CardPolicy
    bootstrap: Bootstrap
    parts: tuple[PartAgreement, ...]

    def canonical(self) -> bytes:
        """The card's RFC 8785 bytes: what is written, and what its digest is of."""
        return canonical(self.model_dump(mode="json"))

    def digest(self) -> str:
        """SHA-256 of the canonical bytes, hexadecimal: what a policy names."""
        return sha256_hex(self.canonical())

    def part(self, name: str) -> PartAgreement | None:
        return next((part for part in self.parts if part.part == name), None)

    def summary(self, part: str, method_digest: str | None, target: Decimal | None) -> dict[str, Any]:
        """How far a judge of this method agrees with people at this target, as JSON for a verdict's evidence.

        `balanced_accuracy` (value, low, high), `n` and `target`; or `foreign`: `method` where the card's figures are
        of other methods, `target` where they are of this method at another target. Such figures do not compare, so
        they are left out.
        """
        found = self.part(part)
        rows = [row for row in found.methods if row.digest == method_digest] if found else []
        at_target = next((row for row in rows if row.target == target), None)
        if at_target is None:
            return {"foreign": "target" if rows else "method"}
        return at_target.model_dump(mode="json", include={"balanced_accuracy", "n", "target"})


def read_card(raw: bytes) -> AgreementCard:
    """A card from its JSON, however it is spaced. Raises `CardError`."""
    try:
        return AgreementCard.model_validate(strict_loads(raw))
    except CanonicalError as error:
        raise CardError(f"{error.field}: {error.reason}" if error.field else error.reason) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise CardError(f"{where}: {first['msg']}" if where else first["msg"]) from None
