"""The composite: its arithmetic against a second writing of the specification, its properties, and every outcome."""

import copy
import itertools
import random
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from glassbox.contract.composite import compose, enabled_parts, figure, meets_target
from glassbox.contract.policy import Policy, load_policies
from glassbox.contract.verdict import FAILED, NOT_APPLICABLE
from tests.contract.builders import POLICIES, row, rows
from tests.vectors.reference import random_policy, reference

DEFAULT = POLICIES["default"]
PARTS = tuple(DEFAULT.parts())
W = {  # .30/.40/.30 times the weights inside each judge
    "llm_relevance": Fraction(21, 100),
    "similarity_calibration": Fraction(9, 100),
    "faithfulness": Fraction(24, 100),
    "answer_relevancy": Fraction(16, 100),
    "terminology": Fraction(9, 100),
    "entities": Fraction(105, 1000),
    "relations": Fraction(105, 1000),
}

micros = st.integers(0, 10**6)
figures = micros.map(lambda n: f"{n // 10**6}.{n % 10**6:06d}")


def part_row_of(part: str, state: str, numbers: tuple[str, str, str], cause: str) -> dict[str, Any]:
    low, score, high = sorted(numbers)
    if state == "scored":
        return {**row(part, score), "low": low, "high": high}
    return {**row(part, cause="x"), "state": state, "cause": cause}


def part_rows(part: str) -> st.SearchStrategy[dict[str, Any]]:
    scored = st.just("scored"), st.tuples(figures, figures, figures), st.just("")
    absent = st.just("not_applicable"), st.just(("", "", "")), st.sampled_from(sorted(NOT_APPLICABLE))
    failed = st.just("failed"), st.just(("", "", "")), st.sampled_from(sorted(FAILED))
    return st.one_of(*(st.builds(part_row_of, st.just(part), *case) for case in (scored, scored, absent, failed)))


ROWS = st.tuples(*map(part_rows, PARTS))
Case = tuple[dict[str, Any], list[dict[str, Any]]]


def case_of(seed: int, made: tuple[dict[str, Any], ...]) -> Case:
    policy = random_policy(random.Random(seed), DEFAULT.document)
    return policy, [r for r in made if r["part"] in enabled_parts(policy)]


cases = st.builds(case_of, st.integers(0, 2**32), ROWS)
"""A random canonical policy, and a row for each of its enabled parts."""


# --- arithmetic


@settings(max_examples=50)
@given(cases)
def test_equals_the_specification_written_a_second_time(case: Case) -> None:
    policy, parts = case
    assert compose(parts, policy) == reference(policy, parts)


@given(st.lists(figures, min_size=7, max_size=7))
def test_with_everything_scored_it_is_30_40_30_to_the_last_digit(scores: list[str]) -> None:
    s = dict(zip(PARTS, map(Fraction, scores), strict=True))
    judge_1 = (7 * s["llm_relevance"] + 3 * s["similarity_calibration"]) / 10
    judge_2 = (6 * s["faithfulness"] + 4 * s["answer_relevancy"]) / 10
    judge_3 = (30 * s["terminology"] + 35 * s["entities"] + 35 * s["relations"]) / 100
    exact = (30 * judge_1 + 40 * judge_2 + 30 * judge_3) / 100
    decimal = Decimal(exact.numerator) / Decimal(exact.denominator)  # at most 12 places: exact
    want = str(decimal.quantize(Decimal("0.000001"), rounding=ROUND_HALF_EVEN))
    made = compose([row(part, score) for part, score in zip(PARTS, scores, strict=True)], DEFAULT.document)
    assert made["trust"] == made["trust_low"] == made["trust_high"] == want
    assert made["coverage"] == "1.000000"


def test_weights_in_the_whole() -> None:
    assert {part: w for part, (_, _, w) in enabled_parts(DEFAULT.document).items()} == W
    assert sum(W.values()) == 1


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Fraction(5, 10**7), "0.000000"),
        (Fraction(15, 10**7), "0.000002"),
        (Fraction(25, 10**7), "0.000002"),
        (Fraction(25, 10**7) + Fraction(1, 10**30), "0.000003"),
        (Fraction(1, 3), "0.333333"),
        (Fraction(2, 3), "0.666667"),
        (Fraction(19_999_995, 2 * 10**7), "1.000000"),
        (Decimal("0.5"), "0.500000"),
        (1, "1.000000"),
        (0, "0.000000"),
        (Decimal("-0"), "0.000000"),
    ],
)
def test_rounding_is_half_even(value: Fraction | Decimal | int, written: str) -> None:
    assert figure(value) == written


@given(st.fractions() | st.decimals(allow_nan=False, allow_infinity=False, min_value=-100, max_value=100, places=9))
def test_rounding_is_that_of_exact_fractions(value: Fraction | Decimal) -> None:
    assert Fraction(figure(value)) == Fraction(round(Fraction(value) * 10**6), 10**6)


def test_a_sum_on_the_tie_goes_to_even() -> None:
    """W of entities is .105: 0.000100 makes 10.5 millionths, 0.000300 makes 31.5."""
    zero = dict.fromkeys(PARTS, "0.000000")
    for score, trust in (("0.000100", "0.000010"), ("0.000300", "0.000032")):
        assert compose(rows(DEFAULT, **{**zero, "entities": score}), DEFAULT.document)["trust"] == trust


# --- properties


@settings(max_examples=50)
@given(cases)
def test_composite_is_in_0_1_and_between_its_bounds(case: Case) -> None:
    policy, parts = case
    made = compose(parts, policy)
    assert "0.000000" <= made["coverage"] <= "1.000000"
    for judge in made["judges"]:
        assert judge["score"] is None or "0.000000" <= judge["score"] <= "1.000000"
    if made["trust_low"] is not None:
        assert "0.000000" <= made["trust_low"] <= made["trust_high"] <= "1.000000"
    if made["trust"] is not None and all(row["state"] != "failed" for row in parts):
        assert made["trust_low"] <= made["trust"] <= made["trust_high"]


@settings(max_examples=50)
@given(cases, st.data())
def test_whatever_a_failed_part_would_have_scored_lies_between_the_bounds(case: Case, data: st.DataObject) -> None:
    policy, parts = case
    made = compose(parts, policy)
    healed = [row(r["part"], data.draw(figures)) if r["state"] == "failed" else r for r in parts]
    trust = compose(healed, {**policy, "min_coverage": "0.000000"})["trust"]
    if trust is not None:
        assert made["trust_low"] <= trust <= made["trust_high"]


@settings(max_examples=50)
@given(cases, st.data())
def test_monotone_in_each_part(case: Case, data: st.DataObject) -> None:
    policy, parts = case
    scored = [n for n, r in enumerate(parts) if r["state"] == "scored"]
    assume(scored)
    n = data.draw(st.sampled_from(scored))
    better = data.draw(figures.filter(lambda f: f >= parts[n]["score"]))
    raised = {**parts[n], "score": better, "high": max(better, parts[n]["high"])}
    before, after = compose(parts, policy), compose([*parts[:n], raised, *parts[n + 1 :]], policy)
    for key in ("trust", "trust_low", "trust_high"):
        assert (before[key] is None) == (after[key] is None)
        assert before[key] is None or before[key] <= after[key]
    assert set(after["missed_targets"]) <= set(before["missed_targets"])
    order = ("fail", "review", "pass")
    if before["outcome"] in order and after["outcome"] in order:
        assert order.index(before["outcome"]) <= order.index(after["outcome"])


@settings(max_examples=50)
@given(cases, st.randoms(use_true_random=False))
def test_independent_of_the_order_of_verdicts(case: Case, chance: random.Random) -> None:
    policy, parts = case
    shuffled = parts.copy()
    chance.shuffle(shuffled)
    assert compose(shuffled, policy) == compose(parts, policy)


@given(ROWS)
def test_what_does_not_apply_never_changes_the_relative_weight_of_the_rest(parts: tuple[dict[str, Any], ...]) -> None:
    """Two neighbours keep their ratio W_a : W_b whatever else is not applicable: trust is their plain W mean."""
    scored = {r["part"]: Fraction(r["score"]) for r in parts if r["state"] == "scored"}
    assume(scored)
    mean = sum((W[p] * s for p, s in scored.items()), Fraction(0)) / sum((W[p] for p in scored), Fraction(0))
    assert compose(parts, {**DEFAULT.document, "min_coverage": "0.000000"})["trust"] == figure(mean)


@pytest.mark.parametrize("off", [c for n in (1, 2, 3) for c in itertools.combinations(PARTS, n)], ids="+".join)
def test_disabling_parts_renormalises_inside_their_judge(off: tuple[str, ...]) -> None:
    document = copy.deepcopy(DEFAULT.document)
    for judge in document["judges"].values():
        for part, switch in judge["parts"].items():
            switch["enabled"] = part not in off
    policy = Policy.from_document(document)
    table = enabled_parts(policy.document)
    assert table.keys() == set(PARTS) - set(off)
    for judge, written in document["judges"].items():
        left = [p for p in written["parts"] if p not in off]
        total = sum(Fraction(written["parts"][p]["weight"]) for p in left)
        for p in left:
            assert table[p] == (
                judge,
                Fraction(written["parts"][p]["weight"]),
                Fraction(written["weight"]) * Fraction(written["parts"][p]["weight"]) / total,
            )
    made = compose(rows(policy), policy.document)
    assert (made["trust"], made["coverage"]) == ("1.000000", "1.000000")


def test_disabling_is_not_the_same_as_not_applying() -> None:
    """Without calibration, relevance carries its whole judge (.30); where calibration does not apply, its own .21."""
    document = copy.deepcopy(DEFAULT.document)
    document["judges"]["contextual_precision"]["parts"]["similarity_calibration"]["enabled"] = False
    without = Policy.from_document(document)
    assert compose(rows(without, llm_relevance="0.000000"), without.document)["trust"] == "0.700000"
    scores = {"llm_relevance": "0.000000", "similarity_calibration": "no_scores"}
    assert compose(rows(DEFAULT, **scores), DEFAULT.document)["trust"] == figure(Fraction(70, 91))


def test_a_disabled_judge_is_absent() -> None:
    direct = POLICIES["direct"]
    made = compose(rows(direct, faithfulness="0.960000", answer_relevancy="0.960000"), direct.document)
    assert [j["judge"] for j in made["judges"]] == ["semantic_faithfulness", "structural_fidelity"]
    assert made["trust"] == figure((4 * Fraction("0.96") + 3) / 7)


def test_a_part_without_weight_moves_nothing_but_its_target() -> None:
    policy = load_policies("[policy.x.judges.structural_fidelity.parts.entities]\nweight = 0")["x"]
    made = compose(rows(policy, entities="0.000000"), policy.document)
    assert (made["trust"], made["outcome"]) == ("1.000000", "review")


def test_judge_scores_and_coverage() -> None:
    made = compose(rows(DEFAULT, entities="0.500000", relations="no_pairs", faithfulness="timeout"), DEFAULT.document)
    assert made["judges"] == [
        {"judge": "contextual_precision", "score": "1.000000", "coverage": "1.000000"},
        {"judge": "semantic_faithfulness", "score": "1.000000", "coverage": "0.400000"},
        {"judge": "structural_fidelity", "score": figure(Fraction(475, 650)), "coverage": "0.650000"},
    ]
    made = compose(rows(DEFAULT, faithfulness="no_claims", answer_relevancy="crashed"), DEFAULT.document)
    assert made["judges"][1] == {"judge": "semantic_faithfulness", "score": None, "coverage": "0.000000"}


@pytest.mark.parametrize(
    ("score", "target", "meets"),
    [
        ("0.950000", "0.950000", False),
        ("0.950001", "0.950000", True),
        ("1.000000", "1.000000", True),
        ("0.999999", "1.000000", False),
        ("0.000000", "0.000000", False),
        (None, "0.500000", None),
        ("0.500000", None, None),
    ],
)
def test_meets_target(score: str | None, target: str | None, meets: bool | None) -> None:
    assert meets_target(score, target) is meets


@pytest.mark.parametrize("change", ["less", "more", "twice", "other"])
def test_parts_are_exactly_the_enabled_ones(change: str) -> None:
    parts = rows(DEFAULT)
    given_ = {
        "less": parts[1:],
        "more": [*parts, row("tone")],
        "twice": [*parts, parts[0]],
        "other": [*parts[1:], row("tone")],
    }[change]
    with pytest.raises(ValueError, match="want exactly"):
        compose(given_, DEFAULT.document)


# --- outcomes, in the order of their rules


def outcome(toml: str = "", **scores: str) -> tuple[str, list[str]]:
    policy = load_policies(f"[policy.x]\n{toml}")["x"]
    made = compose(rows(policy, **scores), policy.document)
    return made["outcome"], made["reasons"]


LOW = dict.fromkeys(PARTS, "0.500000")
NONE = dict.fromkeys(PARTS, "no_sources")


@pytest.mark.parametrize(
    ("toml", "scores", "want", "reasons"),
    [
        # pass
        ("", {}, "pass", []),
        ("", {"terminology": "0.000000"}, "pass", []),
        ("", {"relations": "0.500000"}, "pass", []),  # misses its target, but nothing hangs on it
        ("", {"relations": "no_pairs", "entities": "no_entities"}, "pass", []),
        ("review_on = []", {"entities": "0.500000"}, "pass", []),
        # 4 review
        ("", {"entities": "0.900000"}, "review", ["review:entities"]),
        (
            "",
            {"entities": "0.500000", "llm_relevance": "0.850000"},
            "review",
            ["review:entities", "review:llm_relevance"],
        ),
        # 3 below the threshold, and beyond reach as well once nothing can change it
        ("vetoes = []\nreview_on = []", LOW, "fail", ["below_threshold", "beyond_reach"]),
        # 2 incomplete: each reason, and all that hold
        ("", {"entities": "timeout"}, "incomplete", ["failed:entities"]),
        (
            "",
            {"entities": "timeout", "faithfulness": "crashed"},
            "incomplete",
            ["failed:entities", "failed:faithfulness"],
        ),
        ("", NONE, "incomplete", ["no_scored_part"]),
        ("", {**NONE, "terminology": "1.000000"}, "incomplete", ["low_coverage"]),
        ("", {**NONE, "terminology": "timeout"}, "incomplete", ["failed:terminology", "no_scored_part"]),
        ("", {"faithfulness": "abstained"}, "incomplete", ["abstained"]),
        ("", {"answer_relevancy": "abstained"}, "pass", []),
        ("abstention = 'ignore'", {"faithfulness": "abstained"}, "pass", []),
        ("", {**NONE, "faithfulness": "abstained"}, "incomplete", ["abstained", "no_scored_part"]),
        # 2 before 3: a failed part outranks a trust below the threshold that could still rise
        (
            "review_on = []",
            {**dict.fromkeys(PARTS, "0.790000"), "faithfulness": "timeout"},
            "incomplete",
            ["below_threshold", "failed:faithfulness"],
        ),
        # 2 before 4
        ("", {"entities": "0.500000", "relations": "timeout"}, "incomplete", ["failed:relations", "review:entities"]),
        # 1 veto, above everything
        ("", {"faithfulness": "0.950000"}, "fail", ["veto:faithfulness"]),
        ("", {**NONE, "faithfulness": "0.100000"}, "fail", ["low_coverage", "veto:faithfulness"]),
        ("", {"faithfulness": "0.900000", "entities": "timeout"}, "fail", ["failed:entities", "veto:faithfulness"]),
        ("vetoes = ['terminology']", {"terminology": "0.000000"}, "pass", []),  # no target, no veto
        ("", {"faithfulness": "no_claims"}, "pass", []),  # a comparison with null is false
        # 1 beyond reach: even with a failed part at its best
        (
            "vetoes = []\nreview_on = []",
            {**LOW, "terminology": "timeout"},
            "fail",
            ["below_threshold", "beyond_reach", "failed:terminology"],
        ),
        # … but not for an answer that abstains, nor with too little coverage
        (
            "vetoes = []\nreview_on = []",
            {**LOW, "faithfulness": "abstained"},
            "incomplete",
            ["abstained", "below_threshold"],
        ),
        (
            "vetoes = []\nreview_on = []\nabstention = 'ignore'",
            {**LOW, "faithfulness": "abstained"},
            "fail",
            ["below_threshold"],
        ),
        ("review_on = []", {**NONE, "terminology": "0.000000"}, "incomplete", ["low_coverage"]),
    ],
)
def test_outcomes(toml: str, scores: dict[str, str], want: str, reasons: list[str]) -> None:
    assert outcome(toml, **scores) == (want, reasons)


def test_the_threshold_is_met_by_the_rounded_figure() -> None:
    """W of terminology is .09: the exact trust is .78999955, which rounds to the threshold, and .78999946."""
    toml = "vetoes = []\nreview_on = []\nthreshold = 0.790000"
    assert outcome(toml, **dict.fromkeys(PARTS, "0.790000")) == ("pass", [])
    for score, want in (("0.789995", "pass"), ("0.789994", "fail")):
        assert outcome(toml, **{**dict.fromkeys(PARTS, "0.790000"), "terminology": score})[0] == want


def test_coverage_is_compared_as_rounded_and_may_equal_its_floor() -> None:
    some = dict.fromkeys(("llm_relevance", "faithfulness"), "no_sources")  # coverage .55
    assert outcome("min_coverage = 0.55", **some)[0] == "pass"
    assert outcome("min_coverage = 0.550001", **some) == ("incomplete", ["low_coverage"])


def test_trust_is_null_exactly_without_scored_parts_or_coverage() -> None:
    document = DEFAULT.document
    for scores in (NONE, {**NONE, "terminology": "1.000000"}):
        assert compose(rows(DEFAULT, **scores), document)["trust"] is None
    made = compose(rows(DEFAULT, **NONE), document)
    assert (made["trust_low"], made["trust_high"], made["coverage"]) == (None, None, "0.000000")
    made = compose(rows(DEFAULT, **{**NONE, "terminology": "timeout"}), document)
    assert (made["trust_low"], made["trust_high"]) == ("0.000000", "1.000000")
    assert compose(rows(DEFAULT, entities="timeout"), document)["trust"] == "1.000000"


def test_a_scored_part_without_weight_is_no_score() -> None:
    """With only a weightless part scored there is no mean to take: never 0, never a pass by default."""
    policy = load_policies(
        "[policy.x]\nmin_coverage = 0\n[policy.x.judges.structural_fidelity.parts.terminology]\nweight = 0"
    )
    made = compose(rows(policy["x"], **{**NONE, "terminology": "1.000000"}), policy["x"].document)
    assert (made["trust"], made["outcome"], made["reasons"]) == (None, "incomplete", ["no_scored_part"])


def test_an_abstaining_answer_needs_the_faithfulness_part() -> None:
    policy = load_policies("[policy.x.judges.semantic_faithfulness.parts.faithfulness]\nenabled = false")["x"]
    assert compose(rows(policy, answer_relevancy="abstained"), policy.document)["outcome"] == "pass"
