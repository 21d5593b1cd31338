"""What the simulator remembers is what the product computes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.canonical import canonical
from glassbox.contract.composite import compose
from tests.simulation import requests, shortcuts
from tests.simulation.plan import PROFILES, draw
from tests.simulation.schedule import run

_LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(exclude_categories=["Cs"]))
)
_KEYS = st.text(st.characters(max_codepoint=127))


@given(st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(_KEYS, inner)))
def test_canonical_bytes(value: Any) -> None:
    assert shortcuts.canonical(value) == canonical(value)


def test_composed_scores() -> None:
    row = {"state": "scored", "score": "0.900000", "low": "0.900000", "high": "0.900000", "cause": None}
    rows = [{"part": part, **row} for part in ("faithfulness", "terminology")]
    policy = requests.POLICIES["current"].document
    assert shortcuts.composed(rows, policy) == compose(rows, policy)
    assert shortcuts.composed(rows, policy) is shortcuts.composed(list(rows), dict(policy))


@pytest.mark.parametrize("seed", range(3))
def test_nothing_that_is_remembered_is_changed(seed: int) -> None:
    plan = draw(PROFILES["mixed"], seed)
    first = run(plan)
    known = {key: json.dumps(value) for key, value in shortcuts._composed.items()}
    second = run(plan)
    assert (first.counts, first.faults, first.steps) == (second.counts, second.faults, second.steps)
    assert all(json.dumps(shortcuts._composed[key]) == text for key, text in known.items())
