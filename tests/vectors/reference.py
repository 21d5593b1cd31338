"""The composite a second time, straight from the words of the specification, so that the golden vectors are not
merely what the code says. Plain fractions and the rfc8785 package, no code shared with `glassbox`."""

import copy
import hashlib
import random
from fractions import Fraction
from typing import Any

import rfc8785

JSON = dict[str, Any]
DIGEST = hashlib.sha256(b"golden").hexdigest()


def canonical(value: Any) -> str:
    """RFC 8785 by the package, not by the code under test."""
    return rfc8785.dumps(value).decode()


def digest(value: Any) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def rounded(value: Fraction) -> str:
    """Six places, half to even, by integer division."""
    whole, rest = divmod(value.numerator * 10**6, value.denominator)
    twice = 2 * rest
    if twice > value.denominator or (twice == value.denominator and whole % 2):
        whole += 1
    return f"{whole // 10**6}.{whole % 10**6:06d}"


def weighted(pairs: list[tuple[Fraction, Fraction]]) -> str | None:
    """Σ w x / Σ w, null where there is no weight."""
    total = sum(w for w, _ in pairs)
    return rounded(sum((w * x for w, x in pairs), Fraction(0)) / total) if total else None


def share(some: list[Fraction], every: list[Fraction]) -> str:
    return rounded(Fraction(sum(some), sum(every))) if sum(every) else "0.000000"


def reference(policy: JSON, given: list[JSON]) -> JSON:
    """What `compose` must answer for these parts under this canonical policy."""
    verdict = {row["part"]: row for row in given}

    # Disabled parts and judges renormalise; a judge with no enabled part counts as disabled.
    enabled: dict[str, dict[str, Fraction]] = {}
    for judge, j in policy["judges"].items():
        weights = {part: Fraction(p["weight"]) for part, p in j["parts"].items() if p["enabled"]}
        if j["enabled"] and weights:
            enabled[judge] = weights
    # W_p = w_judge × v_part / Σ v over the judge's enabled parts; parts that together weigh nothing weigh nothing
    W: dict[str, Fraction] = {}
    for judge, weights in enabled.items():
        for part, v in weights.items():
            W[part] = Fraction(policy["judges"][judge]["weight"]) * v / (sum(weights.values()) or 1)
    assert sorted(verdict) == sorted(W)

    def state(part: str) -> str:
        return str(verdict[part]["state"])

    scored = [p for p in W if state(p) == "scored"]
    failed = [p for p in W if state(p) == "failed"]
    # trust = Σ W s / Σ W over scored parts; coverage = Σ W scored / Σ W enabled
    trust = weighted([(W[p], Fraction(verdict[p]["score"])) for p in scored])
    coverage = share([W[p] for p in scored], list(W.values()))
    # a failed part is [0, 1], a scored one has the bounds that its judge reports
    lows = [(W[p], Fraction(verdict[p]["low"])) for p in scored] + [(W[p], Fraction(0)) for p in failed]
    highs = [(W[p], Fraction(verdict[p]["high"])) for p in scored] + [(W[p], Fraction(1)) for p in failed]
    trust_low, trust_high = weighted(lows), weighted(highs)

    judges = []
    for judge, weights in sorted(enabled.items()):
        mine = [p for p in weights if state(p) == "scored"]
        score = weighted([(weights[p], Fraction(verdict[p]["score"])) for p in mine])
        covers = share([weights[p] for p in mine], list(weights.values()))
        judges.append({"judge": judge, "score": score, "coverage": covers})

    # A part meets its target when score > target or score = 1; null without a target or a score.
    target = {p: policy["judges"][judge]["parts"][p]["target"] for judge, weights in enabled.items() for p in weights}
    meets: dict[str, bool | None] = {}
    for p in W:
        if state(p) != "scored" or target[p] is None:
            meets[p] = None
        else:
            s = Fraction(verdict[p]["score"])
            meets[p] = s > Fraction(target[p]) or s == 1
    misses = sorted(p for p in W if meets[p] is False)

    threshold = Fraction(policy["threshold"])
    covered = Fraction(coverage) >= Fraction(policy["min_coverage"])
    # The answer abstains exactly when faithfulness is not_applicable with cause abstained.
    abstains = any(
        row["part"] == "faithfulness" and row["state"] == "not_applicable" and row["cause"] == "abstained"
        for row in given
    )
    # In these two cases trust is null: no part (with any weight) is scored, coverage < min_coverage.
    nothing_scored = trust is None
    if not covered:
        trust = None

    reasons = []
    vetoed = [p for p in misses if p in policy["vetoes"]]
    reasons += [f"veto:{p}" for p in vetoed]
    beyond_reach = trust_high is not None and Fraction(trust_high) < threshold and covered and not abstains
    if beyond_reach:
        reasons.append("beyond_reach")
    holes = [f"failed:{p}" for p in failed]
    if nothing_scored:
        holes.append("no_scored_part")
    elif not covered:
        holes.append("low_coverage")
    if abstains and policy["abstention"] == "incomplete":
        holes.append("abstained")
    reasons += holes
    below = trust is not None and Fraction(trust) < threshold
    if below:
        reasons.append("below_threshold")
    doubtful = [p for p in misses if p in policy["review_on"]]
    reasons += [f"review:{p}" for p in doubtful]

    if vetoed or beyond_reach:
        outcome = "fail"
    elif holes:
        outcome = "incomplete"
    elif below:
        outcome = "fail"
    elif doubtful:
        outcome = "review"
    else:
        outcome = "pass"

    judge_of = {p: judge for judge, weights in enabled.items() for p in weights}
    parts = [{**verdict[p], "judge": judge_of[p], "meets_target": meets[p]} for p in W]
    return {
        "parts": sorted(parts, key=lambda row: (row["judge"], row["part"])),
        "judges": judges,
        "trust": trust,
        "trust_low": trust_low,
        "trust_high": trust_high,
        "coverage": coverage,
        "outcome": outcome,
        "reasons": sorted(reasons),
        "missed_targets": misses,
    }


def random_policy(chance: random.Random, document: JSON) -> JSON:
    """A policy of the shape of `document` with random figures, switches and lists, and weights that can be used."""
    made = copy.deepcopy(document)
    parts = [part for judge in made["judges"].values() for part in judge["parts"]]
    made["threshold"], made["min_coverage"] = random_figure(chance), random_figure(chance)
    made["vetoes"] = sorted(chance.sample(parts, chance.randrange(4)))
    made["review_on"] = sorted(chance.sample(parts, chance.randrange(4)))
    made["abstention"] = chance.choice(["incomplete", "ignore"])
    for judge in made["judges"].values():
        judge["enabled"] = chance.random() < 0.85
        judge["weight"] = random_figure(chance, 0 if chance.random() < 0.1 else 3)
        for settings in judge["parts"].values():
            settings["enabled"] = chance.random() < 0.85
            settings["weight"] = random_figure(chance, 0 if chance.random() < 0.1 else 3)
            settings["target"] = chance.choice([None, random_figure(chance)])
    enabled = [
        (Fraction(judge["weight"]), weights)
        for judge in made["judges"].values()
        if judge["enabled"] and (weights := [Fraction(p["weight"]) for p in judge["parts"].values() if p["enabled"]])
    ]
    if all(any(weights) for _, weights in enabled) and any(weight for weight, _ in enabled):
        return made
    return random_policy(chance, document)


def random_figure(chance: random.Random, most: int = 1) -> str:
    """A figure from 0 to `most`, often an end or a round one, where comparisons and ties happen."""
    return rounded(Fraction(chance.choice([0, 10**6, 500_000, chance.randrange(10**6 + 1)]) * most, 10**6))
