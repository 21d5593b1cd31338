"""How the trust score follows from the parts, in lines that a person can redo; and which part needs a look first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from glassbox.contract.composite import enabled_parts, figure


@dataclass(frozen=True)
class Line:
    """`text` = `value`, each with 6 decimal places; `value` None where there is nothing to compute, `note` says why."""

    label: str
    text: str
    value: str | None = None
    note: str = ""


def arithmetic(record: Mapping[str, Any], policy: Mapping[str, Any]) -> Iterator[Line]:
    """Of a scorecard by its canonical policy: each part's weight in the whole times its score, then sum over weight,
    coverage and bounds."""
    table = enabled_parts(policy)
    total, weight = Fraction(0), Fraction(0)
    for part in record["parts"]:
        name, w = part["part"], table[part["part"]][2]
        if part["state"] != "scored":
            yield Line(name, f"{figure(w)} × –", note=f"left out ({part['state'].replace('_', ' ')})")
            continue
        product = w * Fraction(part["score"])
        total, weight = total + product, weight + w
        yield Line(name, f"{figure(w)} × {part['score']}", figure(product))
    if weight:
        yield Line("sum", f"{figure(total)} / {figure(weight)}", figure(total / weight))
    every = sum((w for _, _, w in table.values()), Fraction(0))
    yield Line("coverage", f"{figure(weight)} / {figure(every)}", record["coverage"])
    if record["trust_low"] is not None:
        bounds = f"{record['trust_low']} to {record['trust_high']}"
        yield Line("bounds", bounds, note="failed parts count as 0 to 1")
    if record["trust"] is None:
        yield Line("trust", "–", note="too little was scored")


def weakest(card: Mapping[str, Any], policy: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The part that needs a look first: one that failed, else one that missed its target, else the one that cost
    most trust (weight times what it lacks to 1); among equals the first. None where nothing is wrong.
    `card`: a scorecard's record, or what `composite.compose` gives. Without the canonical `policy` all parts weigh the
    same."""
    weights = {part: weight for part, (_, _, weight) in enabled_parts(policy).items()} if policy else {}
    parts: list[Mapping[str, Any]] = card["parts"]

    def cost(part: Mapping[str, Any]) -> Fraction:
        lacking = Fraction(1) - Fraction(part["score"]) if part["score"] is not None else Fraction(1)
        return weights.get(part["part"], Fraction(1)) * lacking

    failed = [part for part in parts if part["state"] == "failed"]
    missed = [part for part in parts if part["meets_target"] is False]
    abstained = [part for part in parts if part["cause"] == "abstained"]
    scored = [part for part in parts if part["state"] == "scored" and part["score"] != "1.000000"]
    worst: list[Mapping[str, Any]] = next(filter(None, (failed, missed, abstained, scored)), [])
    return max(worst, key=cost, default=None)
