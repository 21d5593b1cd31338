"""From the parts' recorded figures to judge scores, trust, bounds, coverage and outcome.

Pure functions on plain dicts with the standard library alone: the offline verifier carries this file, and the
chaincode repeats it in Go against the same golden vectors (`tests/vectors`). Everything is exact rational
arithmetic on the recorded 6-place figures; each result is rounded half-even once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

PLACES = 6
"""Decimal places of every recorded figure."""

OUTCOMES = ("pass", "review", "fail", "incomplete")

_ONE = 10**PLACES
"""1.000000, counted in the last place: figures are added and compared as integers."""


def figure(value: Fraction | Decimal | int) -> str:
    """`value` as a decimal string with 6 places, rounded half to even."""
    numerator, denominator = value.as_integer_ratio()
    units, rest = divmod(numerator * _ONE, denominator)
    return _written(units + (2 * rest > denominator or (2 * rest == denominator and units % 2)))


def _written(units: int) -> str:
    sign, digits = ("-" if units < 0 else ""), str(abs(units)).rjust(PLACES + 1, "0")
    return f"{sign}{digits[:-PLACES]}.{digits[-PLACES:]}"


def _units(text: str) -> int:
    """A figure of 6 places in units of its last place."""
    return int(text.replace(".", ""))


def enabled_parts(policy: Mapping[str, Any]) -> dict[str, tuple[str, Fraction, Fraction]]:
    """Part name -> (judge, weight in the judge v, weight in the whole W) of every enabled part of a canonical policy.

    W = judge weight × v / Σ v over the judge's enabled parts (DESIGN: composite). A judge that is disabled or has
    no enabled part does not appear.
    """
    table: dict[str, tuple[str, Fraction, Fraction]] = {}
    for judge, settings in policy["judges"].items():
        if not settings["enabled"]:
            continue
        parts = {name: Fraction(_units(p["weight"]), _ONE) for name, p in settings["parts"].items() if p["enabled"]}
        total = sum(parts.values())
        for name, v in parts.items():
            table[name] = (judge, v, Fraction(_units(settings["weight"]), _ONE) * v / total if total else Fraction(0))
    return table


def meets_target(score: str | None, target: str | None) -> bool | None:
    """Whether a recorded score meets its target (score > target, or a perfect score); None without either."""
    if score is None or target is None:
        return None
    return _units(score) > _units(target) or _units(score) == _ONE


def compose(parts: Sequence[Mapping[str, Any]], policy: Mapping[str, Any]) -> dict[str, Any]:
    """Judge scores, trust, bounds, coverage, outcome and its reasons.

    `parts`: one mapping an enabled part, in any order, with `part`, `state` (scored | not_applicable | failed),
    `score`, `low`, `high` (6-place decimal strings or None) and `cause`. `policy`: a canonical policy
    (`Policy.canonical()` parsed). Returns a dict with keys `parts` (the rows completed with `judge` and
    `meets_target`, sorted), `judges`, `trust`, `trust_low`, `trust_high`, `coverage`, `outcome`, `reasons`,
    `missed_targets`, shaped as Record v1 has them. Raises `ValueError` when the parts are not exactly the
    policy's enabled parts.
    """
    table = enabled_parts(policy)
    rows = {row["part"]: row for row in parts}
    if len(rows) != len(parts) or rows.keys() != table.keys():
        raise ValueError(f"parts: want exactly {sorted(table)}, got {sorted(row['part'] for row in parts)}")

    scored = [p for p, row in rows.items() if row["state"] == "scored"]
    failed = [p for p, row in rows.items() if row["state"] == "failed"]
    weight = _in_proportion({p: w for p, (_, _, w) in table.items()})
    score = {p: _units(rows[p]["score"]) for p in scored}
    low = {p: _units(rows[p]["low"]) for p in scored} | dict.fromkeys(failed, 0)
    high = {p: _units(rows[p]["high"]) for p in scored} | dict.fromkeys(failed, _ONE)

    trust = _mean(score, weight)
    trust_low, trust_high = _mean(low, weight), _mean(high, weight)
    coverage = _ratio(scored, weight)

    targets = _targets(policy)
    met = {p: meets_target(rows[p]["score"], targets[p]) for p in table}
    missed = {p for p, ok in met.items() if ok is False}
    threshold, floor = _units(policy["threshold"]), _units(policy["min_coverage"])
    faithfulness = rows.get("faithfulness")
    abstains = faithfulness is not None and (faithfulness["state"], faithfulness["cause"]) == (
        "not_applicable",
        "abstained",
    )
    covered = _units(coverage) >= floor
    none_scored = trust is None
    if not covered:
        trust = None

    vetoed = sorted(missed & set(policy["vetoes"]))
    beyond_reach = trust_high is not None and _units(trust_high) < threshold and covered and not abstains
    incomplete = [f"failed:{p}" for p in failed]
    if trust is None:
        incomplete.append("no_scored_part" if none_scored else "low_coverage")
    if abstains and policy["abstention"] == "incomplete":
        incomplete.append("abstained")
    below = trust is not None and _units(trust) < threshold
    doubtful = sorted(missed & set(policy["review_on"]))

    if vetoed or beyond_reach:
        outcome = "fail"
    elif incomplete:
        outcome = "incomplete"
    elif below:
        outcome = "fail"
    elif doubtful:
        outcome = "review"
    else:
        outcome = "pass"
    reasons = [f"veto:{p}" for p in vetoed] + incomplete + [f"review:{p}" for p in doubtful]
    reasons += ["below_threshold"] * below + ["beyond_reach"] * beyond_reach
    return {
        "parts": sorted(
            ({**rows[p], "judge": table[p][0], "meets_target": met[p]} for p in table),
            key=lambda row: (row["judge"], row["part"]),
        ),
        "judges": _judges(table, score, policy),
        "trust": trust,
        "trust_low": trust_low,
        "trust_high": trust_high,
        "coverage": coverage,
        "outcome": outcome,
        "reasons": sorted(reasons),
        "missed_targets": sorted(missed),
    }


def _targets(policy: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: part["target"] for judge in policy["judges"].values() for name, part in judge["parts"].items()}


def _judges(
    table: Mapping[str, tuple[str, Fraction, Fraction]], score: Mapping[str, int], policy: Mapping[str, Any]
) -> list[dict[str, Any]]:
    made = []
    for judge in sorted({j for j, _, _ in table.values()}):
        v = _in_proportion({p: weight for p, (j, weight, _) in table.items() if j == judge})
        mine = {p: s for p, s in score.items() if p in v}
        made.append({"judge": judge, "score": _mean(mine, v), "coverage": _ratio(mine, v)})
    return made


def _in_proportion(weights: Mapping[str, Fraction]) -> dict[str, int]:
    """The same weights as integers: only their proportions count, and integers add exactly and fast."""
    scale = math.lcm(*(w.denominator for w in weights.values()))
    return {name: w.numerator * (scale // w.denominator) for name, w in weights.items()}


def _mean(values: Mapping[str, int], weight: Mapping[str, int]) -> str | None:
    total = sum(weight[p] for p in values)
    if not total:
        return None
    return _written(_half_even(sum(weight[p] * value for p, value in values.items()), total))


def _ratio(some: Iterable[str], weight: Mapping[str, int]) -> str:
    total = sum(weight.values())
    return _written(_half_even(sum(weight[p] for p in some) * _ONE, total) if total else 0)


def _half_even(dividend: int, divisor: int) -> int:
    """dividend / divisor, both not negative, rounded half to even."""
    quotient, rest = divmod(dividend, divisor)
    return quotient + (2 * rest > divisor or (2 * rest == divisor and quotient % 2 == 1))
