"""What a comparison calls a regression, and what it does not: directions, tolerances, chance, noise, other suites."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.replay.compare import (
    FEWEST,
    TOLERANCES,
    Change,
    Comparison,
    ComparisonError,
    Tolerance,
    compare,
)
from glassbox.replay.evaluate import CaseResult, Definition, Evaluation, RunReference, counted, figured
from glassbox.replay.metrics import Aggregate, Better, Unit
from glassbox.replay.resampling import Measured, Values, intervals, noise
from glassbox.replay.store import SuiteReference
from glassbox.replay.taxonomy import CLASSES, Class
from tests.replay.builders import SYSTEM

Row = Sequence[float | None]


def evaluation(
    *rows: Row | float | None,
    better: Better = "higher",
    how: Aggregate = "mean",
    unit: Unit = "share",
    outcomes: Sequence[Class] | None = None,
    suite: str = "a",
    corpus: str = "b",
    version: int = 1,
    rules: str = "1",
) -> Evaluation:
    """One metric, `m`, over a case for each row: its value in each repeat, or its only value."""
    repeats = [row if isinstance(row, list | tuple) else [row] for row in rows]
    definitions = {"m": Definition(better=better, aggregate=how, unit=unit, version=version)}
    cases = tuple(
        CaseResult(
            case=f"case-{n}",
            repeat=r,
            outcome=outcomes[n] if outcomes else "success",
            values={} if value is None else {"m": value},
        )
        for n, row in enumerate(repeats)
        for r, value in enumerate(row)
    )
    reference = SuiteReference(name=suite, digest=suite * 64, corpus_digest=corpus * 64, cases=len(rows))
    return Evaluation(
        run=RunReference(run_id="r", digest="d" * 64, suite=reference, system=SYSTEM, repeats=len(repeats[0])),
        definitions="e" * 64,
        rules={"words": rules},
        metrics=definitions,
        figures=figured(definitions, cases),
        classes=counted(cases),
        tokens={},
        questions=tuple((f"case-{n}", "f" * 64) for n in range(len(rows))),
        cases=cases,
    )


def change(base: Evaluation, candidate: Evaluation, tolerance: Tolerance | None = None) -> Change:
    (only,) = compare(base, candidate, {"m": tolerance} if tolerance else None).changes
    return only


def interval(base: Values, candidate: Values, how: Aggregate) -> tuple[float, float]:
    return intervals({"m": Measured(base, candidate, how)})["m"]


def test_the_planted_regression_names_every_affected_case(evaluations: dict[str, Evaluation]) -> None:
    found = compare(evaluations["v2"], evaluations["v3"])
    assert {each.metric for each in found.of("regressed")} == {"citation_coverage", "groundedness"}
    assert all(len(each.cases) == each.worse == 26 for each in found.of("regressed"))
    assert [(each.metric, each.reason) for each in found.of("not_measured")] == [
        ("citation_precision", "applies to no case of the candidate")
    ]
    clean = {each.case for each in evaluations["v2"].cases if each.outcome == "success"}
    moved = {each.case: (each.before, each.after) for each in found.transitions}
    assert len(clean) == 19
    assert {case for case, move in moved.items() if move == ("success", "ungrounded")} == clean
    assert len(moved) == 22  # the three that were incomplete too


def test_better_retrieval_is_seen_to_be_better(evaluations: dict[str, Evaluation]) -> None:
    found = {each.metric: each for each in compare(evaluations["v1"], evaluations["v2"]).changes}
    for metric in ("keyword_recall", "retrieval_recall@1", "retrieval_recall@3", "mrr"):
        assert found[metric].verdict == "improved"
        assert (found[metric].low or 0) > 0
    assert found["tokens"].verdict == "regressed"  # three documents in the prompt instead of one
    assert found["abstention"].verdict == "unclear"  # 4 cases


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v4"])
def test_nothing_is_found_between_a_run_and_itself(version: str, evaluations: dict[str, Evaluation]) -> None:
    found = compare(evaluations[version], evaluations[version])
    assert len(found.of("unchanged", "not_applicable")) == len(found.changes)
    assert not found.transitions
    assert not any(each.cases or each.delta for each in found.changes)


def test_the_same_two_give_the_same_comparison(evaluations: dict[str, Evaluation]) -> None:
    pair = evaluations["v1"], evaluations["v4"]
    assert compare(*pair) == compare(*pair)
    assert Comparison.model_validate_json(compare(*pair).model_dump_json()) == compare(*pair)


shares = st.integers(0, 10).map(lambda n: n / 10)
pairs = st.lists(st.tuples(st.none() | shares, st.none() | shares), min_size=1, max_size=20)
hows = st.sampled_from(["mean", "median", "p95"])
betters = st.sampled_from(["higher", "lower"])
outcomes = st.lists(st.sampled_from(CLASSES), min_size=20, max_size=20)


@given(pairs, hows, betters)
def test_a_comparison_with_itself_finds_nothing(
    values: list[tuple[float | None, float | None]], how: Aggregate, better: Better
) -> None:
    same = evaluation(*(a for a, _ in values), how=how, better=better)
    found = change(same, same)
    assert found.verdict in ("unchanged", "not_applicable")
    assert found.direction == found.worse == 0


@given(pairs, hows, betters, outcomes)
def test_swapping_the_two_flips_each_direction(
    values: list[tuple[float | None, float | None]], how: Aggregate, better: Better, classes: list[Class]
) -> None:
    first = evaluation(*(a for a, _ in values), how=how, better=better)
    second = evaluation(*(b for _, b in values), how=how, better=better, outcomes=classes)
    there, back = compare(first, second), compare(second, first)
    one, other = there.changes[0], back.changes[0]
    assert one.direction == -other.direction
    assert (one.verdict == "regressed") <= (other.verdict in ("improved", "unchanged", "unclear"))
    assert (one.verdict == "improved") <= (other.verdict in ("regressed", "unchanged"))
    assert (one.verdict == "not_measured") == (other.verdict == "not_measured")
    if one.low is not None and one.high is not None:
        assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=2e-6)
    assert {(t.case, t.before, t.after) for t in there.transitions} == {
        (t.case, t.after, t.before) for t in back.transitions
    }


@pytest.mark.parametrize(
    ("better", "values", "verdict"),
    [
        ("higher", 0.5, "regressed"),
        ("lower", 0.5, "improved"),
        ("higher", 0.9, "improved"),
        ("lower", 0.9, "regressed"),
    ],
)
def test_the_direction_of_a_metric_decides(better: Better, values: float, verdict: str) -> None:
    base, candidate = (evaluation(*[each] * 8, better=better) for each in (0.7, values))
    assert change(base, candidate).verdict == verdict


@pytest.mark.parametrize(
    ("unit", "base", "candidate", "beyond"),
    [
        ("share", 0.8, 0.785, False),  # 2 % of .8 is .016
        ("share", 0.8, 0.783, True),
        ("share", 0.1, 0.096, False),  # half a point, where 2 % is less
        ("ms", 1000.0, 1190.0, False),
        ("ms", 1000.0, 1210.0, True),
        ("ms", 2.0, 40.0, False),
        ("tokens", 100.0, 103.0, True),
        ("tokens", 10.0, 11.0, False),
    ],
)
def test_a_change_matters_beyond_the_tolerance_of_its_unit(
    unit: Unit, base: float, candidate: float, beyond: bool
) -> None:
    better: Better = "higher" if unit == "share" else "lower"
    found = change(*(evaluation(*[each] * 8, unit=unit, better=better) for each in (base, candidate)))
    assert found.verdict == ("regressed" if beyond else "unchanged")


def test_a_baseline_of_zero_has_an_absolute_tolerance() -> None:
    base = evaluation(*[0.0] * 400, better="lower")
    one, ten = (evaluation(*[1.0] * n, *[0.0] * (400 - n), better="lower") for n in (1, 10))
    assert TOLERANCES["share"].absolute == 0.005
    assert change(base, one).verdict == "unchanged"
    found = change(base, ten)
    assert (found.verdict, found.relative, found.delta) == ("regressed", None, 0.025)


def test_a_tolerance_of_ones_own() -> None:
    base, candidate = (evaluation(*[each] * 8) for each in (0.8, 0.7))
    assert change(base, candidate, Tolerance(0.2, 0)).verdict == "unchanged"
    assert change(base, candidate, Tolerance(0, 0.2)).verdict == "unchanged"
    assert change(base, candidate, Tolerance(0, 0)).verdict == "regressed"
    with pytest.raises(ComparisonError, match="no metric 'n' to compare; there are m"):
        compare(base, candidate, {"n": Tolerance(0, 0)})


def test_cases_are_sorted_worst_first_with_what_became_of_them() -> None:
    base = evaluation(1, 1, 1, 1, 0, 1, 1, None)
    after: list[Class] = ["incomplete", *["success"] * 7]
    after[2] = "ungrounded"
    candidate = evaluation(0.5, 1, 0, 0.25, 1, 0.25, 0, 0.75, outcomes=after)
    found = change(base, candidate)
    assert found.verdict == "unclear"
    assert [(each.case, each.base, each.candidate, each.after) for each in found.cases] == [
        ("case-2", 1, 0, "ungrounded"),
        ("case-6", 1, 0, "success"),
        ("case-3", 1, 0.25, "success"),
        ("case-5", 1, 0.25, "success"),
        ("case-0", 1, 0.5, "incomplete"),
    ]  # case-7 did not apply before: it is in no pair


def test_a_candidate_that_no_longer_reports_its_misses_has_not_improved() -> None:
    base = evaluation(*[1.0] * 15, *[0.0] * 7)
    silent = evaluation(*[1.0] * 15, *[None] * 7)
    found = change(base, silent)
    assert (found.base.n, found.candidate.n, found.pairs, found.lost) == (22, 15, 15, 7)
    assert (found.verdict, found.delta) == ("unclear", 0)
    assert found.reason.startswith("7 cases lost")
    better = evaluation(*[1.0] * 21, None)
    assert (change(base, better).delta, change(base, better).verdict) == (pytest.approx(6 / 21, abs=1e-6), "unclear")
    worse = evaluation(*[0.0] * 15, *[None] * 7)
    assert change(base, worse).verdict == "regressed"
    assert (change(silent, base).verdict, change(silent, base).lost) == ("unchanged", 0)


def test_repeats_pair_one_by_one_and_where_their_number_differs_by_case() -> None:
    base = evaluation(*[[1.0, 0.0]] * 8)
    assert change(base, evaluation(*[[1.0, None]] * 8)).delta == 0
    assert change(base, evaluation(*[[1.0, None]] * 8)).pairs == 8
    assert change(base, evaluation(*[[0.5]] * 7, [None])).lost == 1
    assert change(base, evaluation(*[[None, 1.0]] * 4, *[[None, None]] * 4)).lost == 4
    apart = change(evaluation([1.0, None]), evaluation([None, 1.0]))
    assert (apart.verdict, apart.reason) == ("not_measured", "applies to no case in both runs")


def test_one_lost_case_of_many_is_too_few_to_tell() -> None:
    found = change(evaluation(*[1.0] * 20), evaluation(0.0, *[1.0] * 19))
    assert found.verdict == "unclear"
    assert (found.low, found.high) == (pytest.approx(-0.15, abs=0.06), 0)
    assert [each.case for each in found.cases] == ["case-0"]
    assert "too few cases" in found.reason


def test_fewer_cases_than_a_sign_test_needs_are_too_few_whatever_they_say() -> None:
    found = change(evaluation(*[1.0] * (FEWEST - 1)), evaluation(*[0.0] * (FEWEST - 1)))
    assert (found.verdict, found.low) == ("unclear", None)
    assert change(evaluation(*[1.0] * FEWEST), evaluation(*[0.0] * FEWEST)).verdict == "regressed"


def test_repeats_that_agree_show_that_one_lost_case_is_no_chance() -> None:
    base, candidate = [[1.0, 1.0]] * 20, [[0.0, 0.0], *[[1.0, 1.0]] * 19]
    found = change(evaluation(*base), evaluation(*candidate))
    assert (found.verdict, found.noise) == ("regressed", 0)


def test_a_change_within_the_noise_between_repeats_is_no_regression() -> None:
    chance = random.Random(7)

    def noisy(rate: float) -> Evaluation:
        return evaluation(*([float(chance.random() < rate) for _ in range(3)] for _ in range(60)))

    verdicts = [change(noisy(0.7), noisy(0.7)).verdict for _ in range(40)]
    assert verdicts.count("regressed") <= 4  # 2.5 % in either direction
    assert verdicts.count("within_noise") > 20
    assert change(noisy(0.9), noisy(0.4)).verdict == "regressed"


def test_a_run_without_repeats_is_taken_to_be_as_noisy_as_the_other() -> None:
    chance = random.Random(3)
    base = evaluation(*([float(chance.random() < 0.7) for _ in range(3)] for _ in range(60)))
    values = {each.case: [each.values["m"]] for each in base.cases if each.repeat == 0}
    repeated = {case: [each.values["m"] for each in base.cases if each.case == case] for case in values}
    both, one = noise(repeated, repeated, "mean"), noise(repeated, values, "mean")
    assert both is not None
    assert one == pytest.approx(both * (4 / 3 / (2 / 3)) ** 0.5, rel=1e-4)  # 1/3 + 1 instead of 1/3 + 1/3
    assert noise(values, values, "mean") is None


def test_the_noise_of_a_mean_is_what_the_formula_gives() -> None:
    chance = random.Random(5)
    values = {str(n): [chance.gauss(10, 2) for _ in range(4)] for n in range(100)}
    expected = 1.96 * (2 * 4 / 4 / 100) ** 0.5  # two runs, variance 4, 4 repeats, 100 cases
    assert noise(values, values, "mean") == pytest.approx(expected, rel=0.15)
    assert (noise(values, values, "median") or 0) > 0
    assert (noise(values, values, "p95") or 0) > 0


@pytest.mark.parametrize("how", ["mean", "median", "p95"])
def test_a_resample_of_equal_cases_gives_the_figure_itself(how: Aggregate) -> None:
    base = {str(n): [1.0, 2.0, 9.0] for n in range(10)}
    candidate = {str(n): [2.0, None, 9.5] for n in range(10)}
    expected = {"mean": 1.75, "median": 3.75, "p95": 0.5}[how]
    assert interval(base, candidate, how) == (expected, expected)


@given(st.lists(st.tuples(shares, shares), min_size=30, max_size=60), hows)
def test_an_interval_lies_within_what_the_cases_allow(values: list[tuple[float, float]], how: Aggregate) -> None:
    base = {str(n): [a] for n, (a, _) in enumerate(values)}
    candidate = {str(n): [b] for n, (_, b) in enumerate(values)}
    low, high = interval(base, candidate, how)
    assert -1 <= low <= high <= 1


def test_the_interval_of_a_mean_is_that_of_the_normal_approximation() -> None:
    chance = random.Random(11)
    deltas = [chance.gauss(0.1, 0.5) for _ in range(400)]
    low, high = interval({str(n): [0.0] for n in range(400)}, {str(n): [d] for n, d in enumerate(deltas)}, "mean")
    middle, half = sum(deltas) / 400, 1.96 * 0.5 / 20
    assert (low, high) == (pytest.approx(middle - half, abs=0.012), pytest.approx(middle + half, abs=0.012))


def test_a_figure_that_one_side_lacks_is_not_measured() -> None:
    some, none = evaluation(*[1.0] * 8), evaluation(*[None] * 8)
    assert change(some, none).reason == "applies to no case of the candidate"
    assert change(none, some).reason == "applies to no case of the base"
    assert change(none, none).verdict == "not_applicable"


def test_tokens_of_the_api_are_not_compared_with_estimates() -> None:
    base, candidate = (evaluation(*[each] * 8, unit="tokens", better="lower") for each in (10.0, 90.0))
    estimated = candidate.model_copy(update={"tokens": {"estimated": 8}})
    counted_ = base.model_copy(update={"tokens": {"api": 8}})
    found = change(counted_, estimated)
    assert (found.verdict, found.delta) == ("not_measured", None)
    assert "estimates" in found.reason


def test_runs_of_different_suites_or_corpora_are_refused() -> None:
    base = evaluation(1, 1)
    with pytest.raises(ComparisonError, match=r"different suites .*--common"):
        compare(base, evaluation(1, 1, 1, suite="c"))
    with pytest.raises(ComparisonError, match="different corpora"):
        compare(base, evaluation(1, 1, corpus="c"))


def test_a_suite_that_says_the_same_in_another_file_is_the_same_suite() -> None:
    assert compare(evaluation(1, 1), evaluation(1, 1, suite="c")).cases == 2


def test_one_file_that_was_read_by_other_columns_is_another_suite() -> None:
    base = evaluation(1, 1)
    other = base.model_copy(update={"questions": (("case-0", "0" * 64), base.questions[1])})
    with pytest.raises(ComparisonError, match="different suites"):
        compare(base, other)


def test_the_common_cases_of_two_suites() -> None:
    base = evaluation(1, 1, 1, 1, 1, 1, 1, 1)
    wider = evaluation(0, 0, 0, 0, 0, 0, 1, 1, 1, suite="c", corpus="d")
    questions = [("case-0", "0" * 64), *wider.questions[1:]]  # the first was asked in other words
    wider = wider.model_copy(update={"questions": tuple(questions)})
    found = compare(base, wider, common=True)
    assert (found.cases, found.left_out) == (7, 2)
    assert found.changes[0].candidate.n == 7
    assert found.changes[0].candidate.value == pytest.approx(2 / 7, abs=1e-6)
    assert sum(found.classes_candidate.values()) == 7
    assert "different corpora" in found.notes[0]
    with pytest.raises(ComparisonError, match="no case in common"):
        compare(base, wider.model_copy(update={"questions": (("z", "f" * 64),)}), common=True)


def test_metrics_of_other_definitions_are_refused() -> None:
    base = evaluation(1, 1)
    with pytest.raises(ComparisonError, match="m has another definition"):
        compare(base, evaluation(1, 1, version=2))
    with pytest.raises(ComparisonError, match="different rules"):
        compare(base, evaluation(1, 1, rules="2"))


def test_a_metric_that_only_one_evaluation_has_is_said_and_left_out(evaluations: dict[str, Evaluation]) -> None:
    from glassbox.replay.metrics import METRICS

    whole = evaluations["v1"]
    fewer = whole.model_copy(update={"metrics": {name: whole.metrics[name] for name in ("mrr", "tokens")}})
    found = compare(fewer, whole)
    assert [each.metric for each in found.changes] == ["mrr", "tokens"]
    assert len(METRICS) == 13
    assert found.notes[0].startswith("Only the candidate was evaluated by keyword_recall")
