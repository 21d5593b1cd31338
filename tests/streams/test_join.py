from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.canonical import canonical
from glassbox.contract.events import Announced, DeadlinePassed, Judged
from glassbox.contract.policy import load_policies
from glassbox.contract.record import check_record, evidence_digest
from glassbox.contract.verdict import KINDS, Scored
from streams.join import ORPHAN_MS, Card, Dropped, Emission, Stale, Window, step
from tests.streams.events import OTHER, POLICIES, POLICY, announced, judged

PASSED = DeadlinePassed(evaluation_id="e1")
T0 = 1_700_000_000_000


def fold(events: Sequence[Announced | Judged | DeadlinePassed], times: Sequence[int] | None = None) -> list[Emission]:
    window: Window | None = None
    out = []
    for n, event in enumerate(events):
        window, emission = step(window, event, times[n] if times else T0 + n)
        out.append(emission)
    return out


def card_of(emissions: Sequence[Emission]) -> Card:
    cards = [emission for emission in emissions if isinstance(emission, Card)]
    assert len(cards) == 1
    return cards[0]


ALL = [announced(), *(judged(kind) for kind in KINDS)]


def test_the_last_answer_closes_the_window_with_a_valid_record() -> None:
    emissions = fold(ALL)
    assert emissions[:-1] == [None] * (len(ALL) - 1)
    record = card_of(emissions).record
    check_record(record, POLICY.document)
    assert (record["trust"], record["coverage"]) == ("0.900000", "1.000000")
    assert record["closed_at"] == "2023-11-14T22:13:20.005Z"
    assert record["evidence_digest"] == evidence_digest(dict.fromkeys(KINDS, "c" * 64))


def test_a_judge_of_ones_own_is_waited_for_and_counted() -> None:
    toml = "[policy.offline.judges.tone]\nweight = 1\nkind = 'style'\nparts = { polite.weight = 1, brief.weight = 1 }"
    mine = load_policies(toml)["offline"]
    events = [announced(policy=mine), *(judged(kind, policy_digest=mine.digest) for kind in KINDS)]
    verdicts = (Scored.of("polite", 0.5), Scored.of("brief", 1.0))
    own = events[-1].model_copy(update={"kind": "style", "verdicts": verdicts})
    emissions = fold([*events, own])
    assert emissions[:-1] == [None] * len(events)
    record = card_of(emissions).record
    check_record(record, mine.document)
    assert (record["trust"], record["coverage"]) == ("0.825000", "1.000000")
    assert {"judge": "tone", "score": "0.750000", "coverage": "1.000000"} in record["judges"]
    assert record["evidence_digest"] == evidence_digest(dict.fromkeys((*KINDS, "style"), "c" * 64))


@given(st.permutations(ALL))
def test_the_order_of_events_changes_only_when_it_closed(events: list[Announced | Judged]) -> None:
    record, expected = card_of(fold(events)).record, card_of(fold(ALL)).record
    assert canonical(record) == canonical(expected)


@given(st.lists(st.sampled_from(ALL), max_size=12))
def test_doubled_events_change_nothing(extra: list[Announced | Judged]) -> None:
    first = next(e for e in fold([*extra, *ALL]) if isinstance(e, Card))
    assert first.record["parts"] == card_of(fold(ALL)).record["parts"]


def test_a_deadline_closes_with_what_is_there() -> None:
    limit = T0 + 300_000
    emissions = fold([announced(), judged("terminology"), PASSED, PASSED], [T0, T0 + 1, limit - 1, limit])
    assert emissions[2] is None  # appended too early: some clock ran ahead
    record = card_of(emissions).record
    check_record(record, POLICY.document)
    assert record["outcome"] == "incomplete"
    causes = {row["part"]: row["cause"] for row in record["parts"]}
    assert causes["terminology"] is None
    assert causes["faithfulness"] == "deadline"
    assert "failed:faithfulness" in record["reasons"]


def test_a_window_without_announcement_is_dropped_not_closed() -> None:
    emissions = fold([judged("terminology"), PASSED, PASSED], [T0, T0 + ORPHAN_MS - 1, T0 + ORPHAN_MS])
    assert emissions == [None, None, Dropped()]


def test_a_deadline_for_nothing_is_stale() -> None:
    assert fold([PASSED]) == [Stale()]


@pytest.mark.parametrize(
    "stranger",
    [judged("grounding", 0.1, digest=OTHER), judged("grounding", 0.1, policy_digest=OTHER)],
    ids=["request", "policy"],
)
def test_verdicts_of_another_request_or_policy_do_not_count(stranger: Judged) -> None:
    others = [judged(kind) for kind in KINDS if kind != "grounding"]
    emissions = fold([announced(), stranger, *others, judged("grounding", 0.8)])
    scores = {row["part"]: row["score"] for row in card_of(emissions).record["parts"]}
    assert scores["faithfulness"] == "0.800000"


def test_a_failed_answer_counts_only_from_the_announced_run() -> None:
    others = [judged(kind) for kind in KINDS if kind != "grounding"]
    late = fold([announced(), judged("grounding", None, run="run0"), *others])
    assert not any(late)
    record = card_of(fold([announced(), judged("grounding", None, run="run1"), *others])).record
    assert record["outcome"] == "incomplete"


def test_a_scored_answer_counts_from_any_run_and_before_a_failed_one() -> None:
    others = [judged(kind) for kind in KINDS if kind != "grounding"]
    events = [judged("grounding", None), judged("grounding", 0.7, run="run0"), announced(), *others]
    scores = {row["part"]: row["score"] for row in card_of(fold(events)).record["parts"]}
    assert scores["faithfulness"] == "0.700000"


def test_the_first_announcement_stands_whole_and_another_request_becomes_a_claim() -> None:
    second = announced(digest=OTHER, policy=POLICIES["default"], offset=9)
    card = card_of(fold([announced(), second, *(judged(kind) for kind in KINDS)]))
    assert card.claims == (second,)
    assert card.record["policy_digest"] == POLICY.digest


def test_only_the_kinds_of_the_policy_are_waited_for() -> None:
    policy = POLICIES["direct"]
    answers = [judged(kind, policy_digest=policy.digest) for kind in policy.kinds()]
    record = card_of(fold([announced(policy=policy), *answers])).record
    check_record(record, policy.document)
    assert [row["judge"] for row in record["judges"]] == ["semantic_faithfulness", "structural_fidelity"]
