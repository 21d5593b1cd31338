"""A verdict is one of three states, never a number that stands for something else."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from glassbox.contract.record import _FIGURE, _PART
from glassbox.contract.verdict import (
    FAILED,
    KINDS,
    NOT_APPLICABLE,
    Failed,
    Method,
    NotApplicable,
    Scored,
    Verdict,
    part_row,
    to_figure,
)

VERDICT: TypeAdapter[Scored | NotApplicable | Failed] = TypeAdapter(Verdict)
METHOD = Method(name="ragas.faithfulness", family="llm", library="ragas", version="0.4.3", parameters={"k": ["1"]})
finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite | st.floats(-2, 2))
def test_any_finite_value_is_a_score_in_0_1(value: float) -> None:
    verdict = Scored.of("faithfulness", value)
    assert 0 <= verdict.low == verdict.score == verdict.high <= 1
    assert verdict.raw == (None if 0 <= value <= 1 else value)
    row = part_row(verdict)
    assert row["score"] == row["low"] == row["high"]
    assert _FIGURE.fullmatch(row["score"])


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_rounding_is_half_even_on_the_double(k: int, n: int) -> None:
    value = min(k / n, 1.0)
    scaled = Fraction(value) * 10**6
    below = math.floor(scaled)
    up = scaled - below > Fraction(1, 2) or (scaled - below == Fraction(1, 2) and below % 2 == 1)
    assert to_figure(value) == Decimal(below + up).scaleb(-6)


@pytest.mark.parametrize(("value", "figure"), [(0.5**7, "0.007812"), (3 * 0.5**7, "0.023438"), (0.5**21, "0.000000")])
def test_ties_go_to_even(value: float, figure: str) -> None:
    """k/128 has exactly seven decimal places, the last a 5."""
    assert part_row(Scored.of("entities", value))["score"] == figure


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_never_nan(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Scored.of("faithfulness", value)
    for bound in ("low", "high", "raw"):
        with pytest.raises(ValueError, match="finite"):
            Scored.of("faithfulness", 0.5, **{bound: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("figure", ["NaN", "Infinity", "-0.1", "1.000001", "0.0000001", "half", None])
def test_figures_from_outside_are_figures(figure: str | None) -> None:
    with pytest.raises(ValidationError):
        VERDICT.validate_python({"state": "scored", "part": "entities", "score": figure, "low": "0", "high": "1"})


def test_negative_zero_is_zero() -> None:
    assert part_row(Scored.of("similarity_calibration", -0.0))["score"] == "0.000000"
    read = VERDICT.validate_json('{"state":"scored","part":"entities","score":"-0","low":"-0.0","high":"0"}')
    assert part_row(read)["low"] == "0.000000"
    assert json.loads(read.model_dump_json())["score"] == "0.000000"


@pytest.mark.parametrize(("low", "high"), [(0.6, 1.0), (0.0, 0.4), (0.6, 0.4)])
def test_bounds_hold_the_score(low: float, high: float) -> None:
    with pytest.raises(ValidationError, match="low <= score <= high"):
        Scored.of("faithfulness", 0.5, low=low, high=high)


def test_bounds_and_raw_are_kept() -> None:
    verdict = Scored.of("faithfulness", 0.9, low=0.4, high=1.0, raw=1.7)
    assert (verdict.low, verdict.high, verdict.raw) == (Decimal("0.400000"), Decimal("1.000000"), 1.7)


def test_causes_are_closed_lists() -> None:
    assert not NOT_APPLICABLE & FAILED
    for cause in NOT_APPLICABLE:
        assert part_row(NotApplicable(part="entities", cause=cause))["cause"] == cause
        with pytest.raises(ValidationError, match="unknown cause"):
            Failed(part="entities", cause=cause)
    for cause in FAILED:
        assert part_row(Failed(part="entities", cause=cause))["cause"] == cause
        with pytest.raises(ValidationError, match="unknown cause"):
            NotApplicable(part="entities", cause=cause)


@pytest.mark.parametrize(
    "verdict",
    [
        Scored.of("faithfulness", 1 / 3, low=0.25, method=METHOD, flags=("foreign_target",)),
        Scored.of("answer_relevancy", -0.2),
        NotApplicable(part="faithfulness", cause="abstained", method=METHOD),
        Failed(part="relations", cause="timeout", detail="no answer within 30 s"),
    ],
)
def test_json_round_trip(verdict: Scored | NotApplicable | Failed) -> None:
    assert VERDICT.validate_json(verdict.model_dump_json()) == verdict
    assert VERDICT.validate_python(verdict.model_dump()) == verdict


@pytest.mark.parametrize(
    "verdict",
    [Scored.of("faithfulness", 0.5, method=METHOD), Failed(part="relations", cause="crashed")],
)
def test_a_row_is_a_part_of_the_record(verdict: Scored | Failed) -> None:
    row: dict[str, Any] = part_row(verdict)
    assert row.keys() == _PART.keys() - {"judge", "meets_target"}
    assert row["method_digest"] == (METHOD.digest() if verdict.method else None)


def test_verdicts_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Scored.of("faithfulness", 0.5).score = Decimal(1)  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        VERDICT.validate_python({"state": "failed", "part": "x", "cause": "timeout", "score": "0.5"})


def test_method_digest_tells_methods_apart() -> None:
    assert METHOD.digest() == METHOD.model_copy().digest()
    for change in ({"version": "0.4.4"}, {"model": "m"}, {"family": "lexical"}, {"parameters": {"k": ["2"]}}):
        assert METHOD.model_copy(update=change).digest() != METHOD.digest()


def test_every_part_has_one_kind() -> None:
    parts = [part for parts in KINDS.values() for part in parts]
    assert len(parts) == len(set(parts)) == 7
