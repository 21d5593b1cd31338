"""Kappa of people's yes and no on single scorecards."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from glassbox.agreement.reviews import holds, kappa_of


def test_who_agrees_with_missed_says_that_it_does_not_hold() -> None:
    assert [holds(met, agrees) for met, agrees in ((True, True), (True, False), (False, True), (False, False))] == [
        True,
        False,
        False,
        True,
    ]


def test_known_figures() -> None:
    assert kappa_of([]) is None
    assert kappa_of([(True, True, 5), (False, False, 3)]) is None, "people say only yes"
    full = kappa_of([(True, True, 5), (False, True, 3)])
    assert full is not None
    assert (float(full.value), float(full.low)) == (1, 1)
    # Cohen's own table (1960) has other classes; this one: 20 yes by both, 15 no by both, 5 and 10 apart
    found = kappa_of([(True, True, 20), (False, True, 15), (True, False, 5), (False, False, 10)])
    assert found is not None
    agreed, chance = Fraction(35, 50), (Fraction(30, 50) * Fraction(25, 50) + Fraction(20, 50) * Fraction(25, 50))
    assert float(found.value) == float((agreed - chance) / (1 - chance))
    assert found.low < found.value < found.high


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 30)), max_size=8))
def test_it_is_in_its_bounds(said: list[tuple[bool, bool, int]]) -> None:
    found = kappa_of(said)
    assert (found is None) == (len({holds(met, agrees) for met, agrees, _ in said}) < 2)
    assert found is None or -1 <= found.low <= found.value <= found.high <= 1
