"""What a verdict says of its judge's agreement with people: the policy's card, or that it does not fit."""

from decimal import Decimal

from glassbox.agreement.figures import BOOTSTRAP
from glassbox.agreement.measure import Opinion, part_agreement
from glassbox.contract.agreement import AgreementCard, CardData, CardPolicy
from glassbox.contract.request import JudgeInput
from glassbox.contract.verdict import Failed, Method, NotApplicable, Scored
from judges.agreement import AGREEMENT, FOREIGN_AGREEMENT, with_agreement
from judges.port import Case, Judgement

METHOD = Method(name="m", family="rules", library="glassbox", version="1")
OTHER = METHOD.model_copy(update={"version": "2"})


def card() -> AgreementCard:
    opinions = [
        Opinion(label, Scored.of("entities", score, method=METHOD), METHOD.digest())
        for label, score in ((True, 1.0), (False, 0.2), (True, 0.3), (False, 0.1))
    ]
    return AgreementCard(
        measured_on="2026-11-30",
        data=CardData(digest="d" * 64, n=4),
        policy=CardPolicy(name="mine", digest="e" * 64),
        bootstrap=BOOTSTRAP,
        parts=(part_agreement("entities", opinions, Decimal("0.9")),),
    )


CARD = card()
SETTINGS = {"agreement": CARD.digest(), "target": "0.900000"}


def said(verdict: Scored | NotApplicable | Failed, *, settings=SETTINGS, cards=None) -> Judgement:
    case = Case("e", JudgeInput(), {verdict.part: settings}, 0.0)
    return with_agreement(Judgement((verdict,), {"found": 1}, (b"raw",)), case, cards or {CARD.digest(): CARD})


def test_a_score_of_the_cards_method_carries_its_figures() -> None:
    made = said(Scored.of("entities", 0.5, method=METHOD))
    assert made.evidence["found"] == 1
    assert made.raw == (b"raw",)
    assert made.verdicts[0].flags == ()
    row = made.evidence[AGREEMENT]["entities"]
    assert (row["card"], row["n"], row["target"]) == (CARD.digest(), 4, "0.900000")
    assert row["balanced_accuracy"]["value"] == "0.750000"


def test_another_method_another_target_and_a_missing_card_are_flagged_without_figures() -> None:
    score = Scored.of("entities", 0.5, method=METHOD, flags=("near_miss",))
    for made, why in (
        (said(score.model_copy(update={"method": OTHER})), "method"),
        (said(score.model_copy(update={"method": None})), "method"),
        (said(score, settings=SETTINGS | {"target": "0.500000"}), "target"),
        (said(score, settings=SETTINGS | {"target": None}), "target"),
        (said(score, cards={"a" * 64: CARD}), "missing"),
    ):
        assert made.verdicts[0].flags == ("near_miss", FOREIGN_AGREEMENT), why
        assert made.evidence[AGREEMENT] == {"entities": {"card": CARD.digest(), "foreign": why}}


def test_what_has_no_score_or_no_card_is_left_as_it_is() -> None:
    for verdict, settings in (
        (Scored.of("entities", 0.5, method=OTHER), {"agreement": None, "target": None}),
        (Scored.of("entities", 0.5, method=OTHER), {}),
        (NotApplicable(part="entities", cause="no_entities", method=OTHER), SETTINGS),
        (Failed(part="entities", cause="timeout"), SETTINGS),
    ):
        made = said(verdict, settings=settings)
        assert made.verdicts == (verdict,)
        assert made.evidence == {"found": 1}
