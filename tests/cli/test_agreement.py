"""Agreement with people: the figures, and that a constant judge earns nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.cli.agreement import Confusion

PAIRS = st.lists(st.tuples(st.booleans(), st.none() | st.booleans()), max_size=60)


def test_known_table() -> None:
    # Cohen (1960) style table: 20 and 15 agree, 5 and 10 do not
    pairs = [(True, True)] * 20 + [(False, True)] * 5 + [(True, False)] * 10 + [(False, False)] * 15
    confusion = Confusion.of(pairs)
    assert confusion.kappa == pytest.approx(0.4)
    assert confusion.accuracy == pytest.approx(0.7)
    assert confusion.balanced_accuracy == pytest.approx((20 / 30 + 15 / 20) / 2)
    assert confusion.constant_accuracy == pytest.approx(0.6)


def test_unjudged_are_counted_apart() -> None:
    confusion = Confusion.of([(True, None), (True, True), (False, None)])
    assert (confusion.judged, confusion.unjudged) == (1, 2)
    assert confusion.balanced_accuracy is None


def test_nothing_judged_has_no_figures() -> None:
    made = Confusion.of([]).to_json()
    assert made["balanced_accuracy"] is made["kappa"] is made["accuracy"] is None


@given(PAIRS)
def test_figures_are_in_range_and_a_constant_judge_earns_nothing(pairs: list[tuple[bool, bool | None]]) -> None:
    confusion = Confusion.of(pairs)
    assert confusion.judged + confusion.unjudged == len(pairs)
    if confusion.kappa is not None:
        assert -1 <= confusion.kappa <= 1
    constant = Confusion.of((label, True) for label, _ in pairs)
    if constant.balanced_accuracy is not None:
        assert math.isclose(constant.balanced_accuracy, 0.5)
        assert constant.kappa is not None
        assert math.isclose(constant.kappa, 0.0, abs_tol=1e-12)
