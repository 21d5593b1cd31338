"""The row of a scorecard: which part is named as the weakest, and what is said of it."""

from typing import Any

import pytest

from glassbox.cli.cards import print_table, row, short, short_id
from glassbox.contract.composite import compose
from glassbox.contract.policy import load_policies
from glassbox.contract.verdict import Failed, NotApplicable, Scored, part_row
from glassbox.dossier.arithmetic import weakest
from glassbox.dossier.reasons import suspected, why

POLICY = load_policies("")["offline"]


PASSAGES = [{"rank": 1, "verdict": "no"}, {"rank": 2, "verdict": "no"}, {"rank": 3, "verdict": "yes"}]


def card(**parts: Any) -> dict[str, Any]:
    """A scorecard with everything perfect but what is given: a score, or a verdict."""
    verdicts = []
    for name in POLICY.parts():
        given = parts.get(name, 1.0)
        verdicts.append(Scored.of(name, given) if isinstance(given, float) else given)
    return {"evaluation_id": "e-1", **compose([part_row(verdict) for verdict in verdicts], POLICY.document)}


def named(made: dict[str, Any]) -> str | None:
    part = weakest(made, POLICY.document)
    return part["part"] if part else None


def test_nothing_is_weak_where_all_is_perfect() -> None:
    assert named(card()) is None
    assert row(card(), POLICY.document, {}).weakest == ""


def test_a_missed_target_comes_before_a_lower_score_without_target() -> None:
    assert named(card(terminology=0.1, entities=0.8)) == "entities"


def test_among_missed_targets_the_one_that_costs_most() -> None:
    assert named(card(faithfulness=0.5, entities=0.4)) == "faithfulness"


def test_a_failed_part_comes_first() -> None:
    failed = Failed(part="terminology", cause="timeout")
    assert named(card(terminology=failed, faithfulness=0.0)) == "terminology"


def test_an_abstaining_answer_is_named() -> None:
    made = card(faithfulness=NotApplicable(part="faithfulness", cause="abstained"), terminology=0.2)
    assert named(made) == "faithfulness"
    assert row(made, POLICY.document, {}).weakest == "faithfulness: abstained"


def test_else_what_cost_most_trust() -> None:
    assert named(card(terminology=0.3, llm_relevance=0.95)) == "terminology"
    assert weakest(card(terminology=0.3), None) is not None, "a policy is not needed"


@pytest.mark.parametrize(
    ("part", "score", "evidence", "says"),
    [
        (
            "faithfulness",
            0.5,
            {"grounding": {"faithfulness": {"claims": [{"text": "The fare is €9.", "verdict": 0}, {"verdict": 1}]}}},
            "faithfulness 0.50: 1 of 2 claims unsupported: “The fare is €9.”",
        ),
        (
            "llm_relevance",
            0.333333,
            {"relevance": {"llm_relevance": {"passages": [*PASSAGES, {"blank": True}]}}},
            "llm_relevance 0.33: 1 of 3 passages relevant, at rank 3",
        ),
        ("faithfulness", 0.5, {}, "faithfulness 0.50"),
        ("faithfulness", 0.5, {"grounding": {"faithfulness": {}}}, "faithfulness 0.50"),
        ("faithfulness", 0.5, {"grounding": {"faithfulness": "odd"}}, "faithfulness 0.50"),
    ],
)
def test_why(part: str, score: float, evidence: dict[str, Any], says: str) -> None:
    assert why(part_row(Scored.of(part, score)), evidence) == says


@pytest.mark.parametrize(
    ("verdict", "evidence", "says"),
    [
        (Scored.of("polite", 0.5), {"tone": {"polite": {"reason": "Curt."}}}, "polite 0.50: “Curt.”"),
        (Scored.of("polite", 0.5), {"style": {"polite": {"reason": "Curt."}}}, "polite 0.50: “Curt.”"),
        (Scored.of("polite", 0.5), {"tone": {"reason": "Curt."}}, "polite 0.50: “Curt.”"),
        (Scored.of("polite", 0.5), {"tone": {"polite": {"reason": 3}}}, "polite 0.50"),
        (Scored.of("polite", 0.5), {"grounding": {"polite": {"reason": "Not its judge."}}}, "polite 0.50"),
        (
            NotApplicable(part="polite", cause="out_of_scope"),
            {"tone": {"polite": {"reason": "A table."}}},
            "polite: out of scope (“A table.”)",
        ),
    ],
)
def test_why_of_a_judge_of_ones_own(verdict: Any, evidence: dict[str, Any], says: str) -> None:
    assert why({**part_row(verdict), "judge": "tone"}, evidence) == says


def test_a_judge_of_ones_own_has_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    toml = "[policy.offline.judges.tone]\nweight = 1\nparts.polite.weight = 1"
    mine = load_policies(toml)["offline"]
    verdicts = [Scored.of(part, 0.25 if part == "polite" else 1.0) for part in mine.parts()]
    made = {"evaluation_id": "e-1", **compose([part_row(verdict) for verdict in verdicts], mine.document)}
    print_table([row(made, mine.document, {}), row({**card(), "evaluation_id": "e-2"}, POLICY.document, {})])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split()[:6] == ["evaluation", "trust", "ctx", "faith", "struct", "tone"]
    assert first.split()[:7] == ["e-1", "0.625", "1.00", "1.00", "1.00", "0.25", "fail"]
    assert second.split()[5] == "–"


def test_why_of_a_failed_part_has_its_detail() -> None:
    failed = Failed(part="terminology", cause="crashed", detail="2 verdicts instead of\x1b one")
    said = "terminology: failed, crashed (2 verdicts instead of\ufffd one)"
    assert why(part_row(failed), {"terminology": {"terminology": {}}}, failed.detail) == said
    assert row(card(terminology=failed), POLICY.document, {}, [failed.model_dump(mode="json")]).weakest == said
    assert why(part_row(failed), {}) == "terminology: failed, crashed"


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "turned \u202e round", "a\x00b", "bell\x07"])
def test_what_others_wrote_cannot_drive_the_terminal(text: str) -> None:
    evidence = {"grounding": {"faithfulness": {"claims": [{"text": text, "verdict": 0}]}}}
    assert why(part_row(Scored.of("faithfulness", 0.0)), evidence).isprintable()


def test_short_forms() -> None:
    assert short(None) == "–"
    assert (short("0.799999"), short("1.000000"), short("0.799999", 3)) == ("0.79", "1.00", "0.799")
    assert short_id("transit-fare-01") == "transit-fare-01"
    assert short_id("ab" * 32) == "abababababababab…"


def test_what_looks_like_an_attack_is_quoted_once_and_safely() -> None:
    rows = [
        {"field": "answer", "index": None, "span": [3, 21], "rule": "instruction"},
        {"field": "retrieved_passages", "index": 1, "span": [1, 3], "rule": "invisible"},
    ]
    evidence = {"grounding": {"injection_suspected": rows}, "relevance": {"injection_suspected": rows[1:]}}
    request = {"answer": "It ignore\x1b the rubric.", "retrieved_passages": [{"text": "a"}, {"text": "b\u200b\u202ec"}]}
    assert suspected(evidence, request) == [
        "answer: instruction, “ignore\ufffd the rubric”",
        "retrieved_passages[1]: invisible, U+200B U+202E at character 1",
    ]
    assert suspected(evidence)[0] == "answer: instruction, characters 3 to 21"
