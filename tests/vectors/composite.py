"""Vectors of the composite: policy and parts in, every figure and the outcome out."""

import random

from glassbox.contract.policy import load_policies
from tests.vectors.reference import JSON, random_figure, random_policy, reference

POLICIES = {name: policy.document for name, policy in load_policies("").items()}
DEFAULT = POLICIES["default"]
PARTS = [part for judge in DEFAULT["judges"].values() for part in judge["parts"]]


def part(name: str, score: str | None = None, *, cause: str | None = None, low: str = "", high: str = "") -> JSON:
    if score is not None:
        figures = {"score": score, "low": low or score, "high": high or score}
        return {"part": name, "state": "scored", **figures, "cause": None}
    state = "failed" if cause in ("timeout", "crashed", "malformed_output") else "not_applicable"
    return {"part": name, "state": state, "score": None, "low": None, "high": None, "cause": cause}


def parts(policy: JSON, default: str = "1.000000", **given: str) -> list[JSON]:
    """A row an enabled part; `given`: a figure, `low/score/high`, or a cause."""
    made = []
    for judge in policy["judges"].values():
        for name, settings in judge["parts"].items():
            if judge["enabled"] and settings["enabled"]:
                value = given.get(name, default)
                if not value[0].isdigit():
                    made.append(part(name, cause=value))
                else:
                    low, score, high = value.split("/") if "/" in value else (value,) * 3
                    made.append(part(name, score, low=low, high=high))
    return made


def overlaid(below: JSON, above: JSON) -> JSON:
    made = {**below}
    for key, value in above.items():
        made[key] = overlaid(made[key], value) if isinstance(value, dict) and key in made else value
    return made


def switched(judge: str, **settings: JSON) -> JSON:
    return {"judges": {judge: {"parts": settings}}}


ZERO = {"weight": "0.000000"}
OFF = {"enabled": False}
OWN_PART = {"enabled": True, "weight": "1.000000", "target": None, "target_family": None, "agreement": None}
CUSTOM: dict[str, JSON] = {
    "no lists": {"vetoes": [], "review_on": []},
    "ignore abstention": {"abstention": "ignore"},
    "any coverage": {"min_coverage": "0.000000"},
    "coverage .55": {"min_coverage": "0.550000"},
    "coverage .550001": {"min_coverage": "0.550001"},
    "veto without target": {"vetoes": ["terminology"]},
    "threshold .79": {"threshold": "0.790000", "vetoes": [], "review_on": []},
    "threshold 1": {"threshold": "1.000000"},
    "thirds": {
        "judges": {
            "contextual_precision": {"weight": "1.000000"},
            "semantic_faithfulness": {"weight": "1.000000"},
            "structural_fidelity": {"weight": "1.000000"},
        }
    },
    "one judge": {"judges": {"contextual_precision": OFF, "structural_fidelity": OFF}},
    "a judge of no parts": switched("contextual_precision", llm_relevance=OFF, similarity_calibration=OFF),
    "no calibration": switched("contextual_precision", similarity_calibration=OFF),
    "no faithfulness": switched("semantic_faithfulness", faithfulness=OFF),
    "entities weightless": switched("structural_fidelity", entities=ZERO),
    "terminology weightless, any coverage": {
        "min_coverage": "0.000000",
        **switched("structural_fidelity", terminology=ZERO),
    },
    "a judge weightless": {"judges": {"structural_fidelity": ZERO}},
    "halves": {
        "judges": {
            "contextual_precision": {"weight": "0.500000", "parts": {"similarity_calibration": OFF}},
            "semantic_faithfulness": {"weight": "0.500000", "parts": {"answer_relevancy": OFF}},
            "structural_fidelity": OFF,
        }
    },
    "a perfect score meets a target of 1": switched("structural_fidelity", entities={"target": "1.000000"}),
    "large weights": {
        "judges": {"contextual_precision": {"weight": "1000.000000"}, "semantic_faithfulness": {"weight": "0.000001"}}
    },
    "nothing enabled": {"judges": dict.fromkeys(DEFAULT["judges"], OFF)},
    "weightless parts alone in a judge": switched("semantic_faithfulness", faithfulness=ZERO, answer_relevancy=ZERO),
    "seventy judges": {
        "judges": {
            f"judge_{n}": {
                "enabled": True,
                "weight": f"{7919 * n % 9999}.{n:06d}",
                "kind": "own",
                "parts": {
                    f"part_{n}_{m}": {**OWN_PART, "weight": f"{(n + 1) * (m + 1) * 104729 % 9999}.{999999 - n:06d}"}
                    for m in range(2)
                },
            }
            for n in range(70)
        }
    },
    "a judge of one's own": {
        "vetoes": ["faithfulness", "polite"],
        "judges": {
            "tone": {
                "enabled": True,
                "weight": "0.250000",
                "kind": "tone",
                "parts": {
                    "brief": OWN_PART,
                    "polite": {**OWN_PART, "weight": "2.000000", "target": "0.500000", "words": ["please"]},
                },
            }
        },
    },
}

N_A = "no_sources"
CASES: list[tuple[str, str, JSON]] = [  # (what it shows, policy, part -> figure or cause; `default`: the others)
    ("all perfect", "default", {}),
    ("all zero", "default", {"default": "0.000000"}),
    ("all different", "default", {p: f"0.{n}{n + 1}{n + 2}456" for n, p in enumerate(PARTS, 1)}),
    ("everything scored is .30/.40/.30", "default", {"llm_relevance": "0.123457", "relations": "0.654321"}),
    ("half-even: 10.5 millionths round down", "no lists", {"default": "0.000000", "entities": "0.000100"}),
    ("half-even: 31.5 millionths round up", "no lists", {"default": "0.000000", "entities": "0.000300"}),
    ("half-even: 0.0000005", "halves", {"llm_relevance": "0.000001", "faithfulness": "0.000000"}),
    ("half-even: 0.0000015", "halves", {"llm_relevance": "0.000001", "faithfulness": "0.000002"}),
    ("half-even: 0.9999995 rounds to 1", "halves", {"llm_relevance": "0.999999", "faithfulness": "1.000000"}),
    ("a third", "thirds", {"default": "0.000000", "llm_relevance": "1.000000", "similarity_calibration": "1.000000"}),
    ("trust on the threshold passes", "threshold .79", {"default": "0.790000"}),
    (
        "trust that rounds up to the threshold passes",
        "threshold .79",
        {"default": "0.790000", "terminology": "0.789995"},
    ),
    ("trust that rounds down below it fails", "threshold .79", {"default": "0.790000", "terminology": "0.789994"}),
    ("a perfect answer meets a threshold of 1", "threshold 1", {}),
    ("score equal to target misses it", "default", {"entities": "0.900000"}),
    ("score just above target meets it", "default", {"entities": "0.900001"}),
    ("a perfect score meets a target of 1", "a perfect score meets a target of 1", {}),
    ("just below a target of 1", "a perfect score meets a target of 1", {"entities": "0.999999"}),
    ("review, two parts", "default", {"llm_relevance": "0.850000", "entities": "0.100000"}),
    ("a missed target outside both lists", "default", {"relations": "0.500000"}),
    ("vetoed", "default", {"faithfulness": "0.950000"}),
    ("vetoed before incomplete", "default", {"faithfulness": "0.500000", "entities": "timeout"}),
    ("vetoed with low coverage: trust null", "default", {"default": N_A, "faithfulness": "0.100000"}),
    ("a veto of a part without target never falls", "veto without target", {"terminology": "0.000000"}),
    ("a vetoed part that does not apply", "default", {"faithfulness": "no_claims"}),
    ("below the threshold", "default", {"default": "0.500000", "faithfulness": "1.000000"}),
    (
        "below the threshold, upper bound above",
        "no lists",
        {
            "default": "0.700000",
            "faithfulness": "0.600000/0.700000/1.000000",
            "answer_relevancy": "0.500000/0.700000/1.000000",
        },
    ),
    ("beyond reach with a failed part", "no lists", {"default": "0.500000", "terminology": "timeout"}),
    ("failed, still within reach", "no lists", {"default": "0.790000", "faithfulness": "crashed"}),
    ("one failed", "default", {"relations": "timeout"}),
    ("two failed, two judges", "default", {"relations": "timeout", "faithfulness": "malformed_output"}),
    ("all failed", "default", {"default": "crashed"}),
    ("failed and review", "default", {"relations": "timeout", "entities": "0.500000"}),
    ("a low bound below the score", "default", {"faithfulness": "0.250000/0.960000/1.000000"}),
    ("nothing applies", "default", {"default": N_A}),
    ("one failed, the rest not applicable", "default", {"default": N_A, "terminology": "timeout"}),
    ("low coverage", "default", {"default": N_A, "terminology": "1.000000"}),
    ("low coverage below the threshold is not beyond reach", "no lists", {"default": N_A, "terminology": "0.000000"}),
    ("coverage on its floor", "coverage .55", {"llm_relevance": N_A, "faithfulness": N_A}),
    ("coverage just below its floor", "coverage .550001", {"llm_relevance": N_A, "faithfulness": N_A}),
    ("any coverage will do", "any coverage", {"default": N_A, "terminology": "1.000000"}),
    ("any coverage, none scored", "any coverage", {"default": N_A}),
    ("neighbours keep their weight", "default", {"similarity_calibration": "no_scores", "llm_relevance": "0.900000"}),
    ("a disabled part gives its weight away", "no calibration", {"llm_relevance": "0.900000"}),
    ("abstains", "default", {"faithfulness": "abstained"}),
    ("abstains, ignored", "ignore abstention", {"faithfulness": "abstained"}),
    (
        "abstains, ignored, below the threshold",
        "ignore abstention",
        {"default": "0.500000", "faithfulness": "abstained"},
    ),
    (
        "abstains below the threshold is not beyond reach",
        "default",
        {"default": "0.500000", "faithfulness": "abstained"},
    ),
    ("abstains and nothing else applies", "default", {"default": N_A, "faithfulness": "abstained"}),
    ("another part's abstained is no abstention", "default", {"answer_relevancy": "abstained"}),
    ("faithfulness disabled: nobody abstains", "no faithfulness", {"answer_relevancy": "abstained"}),
    ("a judge disabled", "direct", {"faithfulness": "0.960000", "entities": "0.950000"}),
    ("one judge only", "one judge", {"faithfulness": "0.960000"}),
    ("a judge whose parts are all disabled", "a judge of no parts", {"faithfulness": "0.960000"}),
    ("a weightless part moves nothing but its target", "entities weightless", {"entities": "0.000000"}),
    ("a weightless part that fails", "entities weightless", {"entities": "timeout"}),
    (
        "only a weightless part is scored",
        "terminology weightless, any coverage",
        {"default": N_A, "terminology": "1.000000"},
    ),
    ("a judge of one's own counts by its weight", "a judge of one's own", {"brief": "0.000000", "polite": "0.750001"}),
    ("a judge of one's own vetoes", "a judge of one's own", {"polite": "0.500000"}),
    ("a judge of one's own fails", "a judge of one's own", {"polite": "timeout", "brief": N_A}),
    ("a weightless judge", "a judge weightless", {"terminology": "0.000000"}),
    (
        "a weightless judge alone",
        "a judge weightless",
        {"default": N_A, "terminology": "1.000000", "entities": "1.000000"},
    ),
    ("large and tiny weights", "large weights", {"llm_relevance": "0.999999", "faithfulness": "0.000001"}),
    ("nothing is enabled", "nothing enabled", {}),
    ("weightless parts alone in a judge", "weightless parts alone in a judge", {"faithfulness": "0.000000"}),
    (
        "weights whose common denominator has hundreds of digits",
        "seventy judges",
        {"default": "0.123457", "part_3_0": "0.999999", "part_68_1": "timeout", "part_50_0": N_A},
    ),
    ("offline policy", "offline", {"answer_relevancy": "0.210000"}),
    ("offline policy, target missed", "offline", {"answer_relevancy": "0.200000"}),
    ("rag policy", "rag", {"faithfulness": "0.000000"}),
]
RANDOM_CASES = 40


def composite_vectors() -> JSON:
    policies = POLICIES | {name: overlaid(DEFAULT, change) for name, change in CUSTOM.items()}
    rows = [(name, policy, parts(policies[policy], **given)) for name, policy, given in CASES]
    chance = random.Random(8785)
    for n in range(RANDOM_CASES):
        name = f"random {n}"
        policies[name] = random_policy(chance, DEFAULT)
        rows.append((name, name, [random_part(chance, row) for row in parts(policies[name])]))
    return {
        "policies": {name: policy for name, policy in policies.items() if name in {used for _, used, _ in rows}},
        "cases": [
            {"name": name, "policy": policy, "parts": given, "expect": expected(reference(policies[policy], given))}
            for name, policy, given in rows
        ],
    }


def expected(made: JSON) -> JSON:
    """The answer without repeating the rows: of those only what is added, part -> [judge, meets_target]."""
    return {**made, "parts": {row["part"]: [row["judge"], row["meets_target"]] for row in made["parts"]}}


def random_part(chance: random.Random, row: JSON) -> JSON:
    fate = chance.random()
    if fate < 0.15:
        return part(row["part"], cause="timeout")
    if fate < 0.35:
        return part(row["part"], cause=chance.choice(["no_claims", "abstained"]))
    low, score, high = sorted(random_figure(chance) for _ in range(3))
    return part(row["part"], score, low=low, high=high)
