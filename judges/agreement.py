"""How far a judge is known to agree with people, said with each verdict: from the card that the policy names."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from glassbox.contract.agreement import AgreementCard
from glassbox.contract.verdict import Failed, NotApplicable, Scored
from judges.port import Case, Judgement

AGREEMENT = "agreement_cards"
"""Key of the evidence: part -> the digest of its `card`, and what `AgreementCard.summary` says of the method that
judged it, or `foreign`: `missing` where the card is not at hand."""

FOREIGN_AGREEMENT = "foreign_agreement"
"""Flag of a verdict whose agreement card was measured with another method, or at another target, or is not here: how
far this verdict's judge agrees with people is not known."""


def with_agreement(made: Judgement, case: Case, cards: Mapping[str, AgreementCard]) -> Judgement:
    """The judgement with what the policy's cards say of its scores. `cards` by digest."""
    verdicts: list[Scored | NotApplicable | Failed] = []
    said: dict[str, dict[str, Any]] = {}
    for verdict in made.verdicts:
        settings = case.settings[verdict.part]
        digest = settings.get("agreement")
        if digest is None or not isinstance(verdict, Scored):
            verdicts.append(verdict)
            continue
        found = said[verdict.part] = _said(verdict, digest, settings.get("target"), cards)
        flags = (*verdict.flags, FOREIGN_AGREEMENT) if "foreign" in found else verdict.flags
        verdicts.append(verdict.model_copy(update={"flags": flags}))
    return Judgement(tuple(verdicts), {**made.evidence, AGREEMENT: said}, made.raw) if said else made


def _said(verdict: Scored, digest: str, target: str | None, cards: Mapping[str, AgreementCard]) -> dict[str, Any]:
    card = cards.get(digest)
    if card is None:
        return {"card": digest, "foreign": "missing"}
    method = verdict.method.digest() if verdict.method else None
    return {"card": digest} | card.summary(verdict.part, method, None if target is None else Decimal(target))
