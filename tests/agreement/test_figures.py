"""The figures of agreement, held against scikit-learn and against hand-made tables."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import metrics

from glassbox.agreement.figures import (
    BOOTSTRAP,
    ONE,
    RELIABILITY_FROM,
    Counts,
    auc,
    balanced_accuracy,
    confusion,
    estimate,
    kappa,
    meets,
    reliability,
    suggestion,
    true_negative_rate,
    true_positive_rate,
)
from glassbox.contract.composite import figure, meets_target

SCORES = st.one_of(st.integers(0, ONE), st.sampled_from([0, ONE // 4, ONE // 3, ONE // 2, ONE]))
PAIRS = st.lists(st.tuples(SCORES, st.booleans()), min_size=2, max_size=60)
TARGETS = st.integers(0, ONE)


def split(pairs: list[tuple[int, bool]]) -> tuple[list[int], list[bool]]:
    scores, labels = zip(*pairs, strict=True)
    assume(0 < sum(labels) < len(labels))
    return list(scores), list(labels)


@given(PAIRS, TARGETS)
def test_figures_are_those_of_scikit_learn(pairs: list[tuple[int, bool]], target: int) -> None:
    scores, labels = split(pairs)
    counts = Counts.of(scores, labels).at(target)
    said, recall = meets(np.array(scores), target), metrics.recall_score
    assert float(auc(Counts.of(scores, labels))) == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert float(balanced_accuracy(counts)) == pytest.approx(metrics.balanced_accuracy_score(labels, said))
    assert float(true_positive_rate(counts)) == pytest.approx(recall(labels, said))
    assert float(true_negative_rate(counts)) == pytest.approx(recall(labels, said, pos_label=False))
    assert float(kappa(counts)) == pytest.approx(metrics.cohen_kappa_score(labels, said), abs=1e-12)
    table = confusion(counts)
    (tn, fp), (fn, tp) = metrics.confusion_matrix(labels, said, labels=[False, True]).tolist()
    assert (table.true_positive, table.false_positive) == (tp, fp)
    assert (table.false_negative, table.true_negative) == (fn, tn)


@given(SCORES, TARGETS)
def test_a_score_meets_its_target_as_on_the_record(score: int, target: int) -> None:
    recorded = meets_target(figure(Decimal(score) / ONE), figure(Decimal(target) / ONE))
    assert bool(meets(np.array([score]), target)[0]) is recorded


def test_known_table() -> None:
    # Cohen (1960) style table: 20 and 15 agree, 5 and 10 do not
    scores = [ONE] * 25 + [0] * 25
    labels = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    counts = Counts.of(scores, labels)
    assert float(kappa(counts.at(0))) == pytest.approx(0.4)
    assert float(balanced_accuracy(counts.at(0))) == pytest.approx((20 / 30 + 15 / 20) / 2)


@settings(max_examples=30)
@given(st.lists(st.booleans(), min_size=2, max_size=40), SCORES, TARGETS)
def test_a_constant_judge_earns_nothing(labels: list[bool], score: int, target: int) -> None:
    assume(0 < sum(labels) < len(labels))
    counts = Counts.of([score] * len(labels), labels)
    at = counts.at(target)
    for some, statistic, nothing in ((at, balanced_accuracy, 0.5), (at, kappa, 0.0), (counts, auc, 0.5)):
        made = estimate(some, statistic)
        assert made is not None
        assert {float(made.low), float(made.value), float(made.high)} == {nothing}


@settings(max_examples=20)
@given(PAIRS, TARGETS, st.randoms())
def test_intervals_hold_the_value_and_ignore_the_order_of_the_file(pairs, target, random) -> None:
    scores, labels = split(pairs)
    shuffled = list(pairs)
    random.shuffle(shuffled)
    here, there = Counts.of(scores, labels), Counts.of(*zip(*shuffled, strict=True))
    for one, other, statistic in (
        (here.at(target), there.at(target), balanced_accuracy),
        (here.at(target), there.at(target), kappa),
        (here, there, auc),
    ):
        made = estimate(one, statistic)
        assert made == estimate(other, statistic)
        assert made is not None
        assert made.low <= made.value <= made.high


@pytest.mark.parametrize("label", [True, False])
def test_one_class_has_no_figures(label: bool) -> None:
    counts = Counts.of([1, 2, 3], [label] * 3)
    assert estimate(counts, auc) is None
    assert estimate(counts.at(0), balanced_accuracy) is None
    assert suggestion([1, 2, 3], [label] * 3) is None


def test_the_interval_is_that_of_resampling_within_each_class() -> None:
    random = np.random.default_rng(7)
    labels = random.random(400) < 0.4
    scores = np.clip(random.normal(0.45 + 0.2 * labels, 0.2), 0, 1)
    units = np.round(scores * ONE).astype(int)
    made = estimate(Counts.of(units, labels), auc)
    assert made is not None
    drawn = []
    for _ in range(500):
        some = np.concatenate([random.choice(np.flatnonzero(labels == c), (labels == c).sum()) for c in (True, False)])
        drawn.append(metrics.roc_auc_score(labels[some], units[some]))
    assert [float(made.low), float(made.high)] == pytest.approx(np.quantile(drawn, (0.025, 0.975)).tolist(), abs=0.012)


def test_portions_of_resamples_are_as_many_as_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbox.agreement.figures._CELLS", 3 * 300)
    counts = Counts.of([1, 2, 3], [True, False, True])
    portions = [some.positive.shape for some in counts.resampled()]
    assert sum(rows for rows, _ in portions) == BOOTSTRAP.resamples
    assert max(rows for rows, _ in portions) == 300


@settings(max_examples=50)
@given(PAIRS)
def test_no_target_does_better_than_the_one_suggested(pairs: list[tuple[int, bool]]) -> None:
    scores, labels = split(pairs)
    made = suggestion(scores, labels)
    counts = Counts.of(scores, labels)
    best = max(float(balanced_accuracy(counts.at(target))) for target in {0, *scores})
    if made is None:
        assert best <= 0.5 + 1e-6
        return
    assert float(balanced_accuracy(counts.at(int(made.target * ONE)))) == pytest.approx(float(made.in_sample), abs=1e-6)
    assert float(made.in_sample) == pytest.approx(best, abs=1e-6)


def test_a_target_chosen_on_noise_is_worth_nothing_on_other_labels() -> None:
    random = np.random.default_rng(3)
    scores, labels = random.integers(0, ONE, 200).tolist(), (random.random(200) < 0.5).tolist()
    made = suggestion(scores, labels)
    assert made is not None
    assert made.folds == 10
    assert made.cross_validated is not None
    assert made.cross_validated.value < made.in_sample
    assert made.cross_validated.low < Decimal("0.5") < made.in_sample


def test_a_suggested_target_has_few_places() -> None:
    made = suggestion([333333, 333333, 666667, 666667], [False, False, True, True])
    assert made is not None
    assert (made.target, made.in_sample, made.folds) == (Decimal("0.5"), 1, 2)


@pytest.mark.parametrize("scores", [[ONE, ONE], [0, 0], [1, ONE], [0, ONE]])
def test_where_no_target_beats_a_constant_judge_none_is_suggested(scores: list[int]) -> None:
    assert suggestion(scores, [True, False]) is None


def test_calibration_error_of_a_known_sample() -> None:
    scores = [950000] * 100 + [50000] * 100
    labels = [True] * 80 + [False] * 20 + [True] * 10 + [False] * 90
    found = reliability(scores, labels)
    assert found is not None
    assert float(found.expected_calibration_error) == pytest.approx((0.15 + 0.05) / 2)
    assert [(float(b.lower), b.n, float(b.mean_score), float(b.share)) for b in found.bins] == [
        (0.0, 100, 0.05, 0.1),
        (0.9, 100, 0.95, 0.8),
    ]


@settings(max_examples=20)
@given(st.lists(st.tuples(SCORES, st.booleans()), min_size=RELIABILITY_FROM, max_size=RELIABILITY_FROM + 50))
def test_bins_hold_every_score_once(pairs: list[tuple[int, bool]]) -> None:
    scores, labels = map(list, zip(*pairs, strict=True))
    found = reliability(scores, labels)
    assert found is not None
    assert sum(each.n for each in found.bins) == len(pairs)
    assert all(each.lower <= each.mean_score <= each.upper for each in found.bins)
    assert all(each.low <= each.share <= each.high for each in found.bins)
    share = sum(each.n * float(each.share) for each in found.bins) / len(pairs)
    assert math.isclose(share, sum(labels) / len(labels), abs_tol=1e-5)


def test_too_few_labels_have_no_reliability() -> None:
    assert reliability([0] * (RELIABILITY_FROM - 1), [True] * (RELIABILITY_FROM - 1)) is None
