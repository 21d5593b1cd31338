"""What passes, what does not and what could not be told; JUnit XML and Markdown that show why."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from glassbox.replay.compare import compare
from glassbox.replay.evaluate import Evaluation
from glassbox.replay.gate import EXIT_CODES, SHOWN, gate, junit, junit_unable, markdown, markdown_unable
from tests.replay.test_compare import evaluation


def parsed(document: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(document)  # noqa: S314


@pytest.mark.parametrize(
    ("base", "candidate", "outcome"),
    [("v2", "v3", "regressed"), ("v2", "v2", "passed"), ("v3", "v2", "passed"), ("v2", "v4", "regressed")],
)
def test_versions_of_the_system(base: str, candidate: str, outcome: str, evaluations: dict[str, Evaluation]) -> None:
    assert gate(compare(evaluations[base], evaluations[candidate])).outcome == outcome


def test_metrics_that_do_not_decide(evaluations: dict[str, Evaluation]) -> None:
    compared = compare(evaluations["v1"], evaluations["v2"])
    assert [each.metric for each in gate(compared).failures] == ["tokens"]
    decided = gate(compared, ["tokens"])
    assert (decided.outcome, [each.metric for each in decided.doubts]) == ("unmeasured", ["abstention"])
    assert gate(compared, ["tokens", "abstention"]).outcome == "passed"
    assert gate(compared, ["tokens"], allow_unclear=True).outcome == "passed"


def test_one_lost_case_of_twenty_could_not_be_told_and_one_won_passes() -> None:
    all_right, one_lost = evaluation(*[1.0] * 20), evaluation(0.0, *[1.0] * 19)
    assert gate(compare(all_right, one_lost)).outcome == "unmeasured"
    assert gate(compare(one_lost, all_right)).outcome == "passed"


def test_a_metric_that_the_candidate_lost_stops_it_and_a_new_one_does_not() -> None:
    some, none = evaluation(*[1.0] * 8), evaluation(*[None] * 8)
    lost = gate(compare(some, none), allow_unclear=True)
    assert (lost.outcome, EXIT_CODES[lost.outcome]) == ("unmeasured", 2)
    assert gate(compare(none, some)).outcome == "passed"


def test_junit_has_a_failure_for_each_regression_with_its_cases(evaluations: dict[str, Evaluation]) -> None:
    root = parsed(junit(gate(compare(evaluations["v2"], evaluations["v3"]), ["tokens"])))
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("13", "2", "1")
    failed = {case.get("name"): case.find("failure") for case in suite if case.find("failure") is not None}
    assert set(failed) == {"citation_coverage", "groundedness"}
    assert "bill-due: 1.000 -> 0.000, success -> ungrounded" in (failed["groundedness"].text or "")
    assert [case.get("name") for case in suite if case.find("error") is not None] == ["citation_precision"]
    assert [case.get("name") for case in suite if case.find("skipped") is not None] == ["tokens"]


def test_junit_of_a_gate_that_could_not_compare_takes_any_text() -> None:
    root = parsed(junit_unable("no run at /a\x00\x1b]]><b>\ud800 here"))
    error = root.find("testsuite/testcase/error")
    assert error is not None
    assert (error.get("message") or "").endswith("]]><b>\ufffd here")


def test_markdown_says_first_what_was_decided_then_shows_it(evaluations: dict[str, Evaluation]) -> None:
    text = markdown(gate(compare(evaluations["v2"], evaluations["v3"])))
    lines = text.splitlines()
    assert lines[0] == "## ❌ Replay gate: regression"
    assert "clean answers 19 → **0** of 26. Regressed: citation\\_coverage, groundedness." in lines[2]
    assert "| groundedness ↑ | 1.000 | 0.000 | −1.000 (−100.0 %) | −1.000 … −1.000 | 26 | ❌ regressed |" in lines
    assert "| ungrounded | 0 | 22 |" in lines
    assert "| `bill-due` | 1.000 | 0.000 | success → ungrounded |" in lines


def test_markdown_names_every_case_of_a_small_suite_and_the_worst_of_a_large_one(
    evaluations: dict[str, Evaluation],
) -> None:
    text = markdown(gate(compare(evaluations["v2"], evaluations["v3"])))
    assert all(f"| `{case}` | 1.000 | 0.000 |" in text for case, _ in evaluations["v2"].questions)
    many = markdown(gate(compare(evaluation(*[1.0] * 90), evaluation(*[0.0] * 90))))
    assert many.count("| `case-") == SHOWN
    assert f"| … and {90 - SHOWN} more | | | |" in many


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head(evaluations: dict[str, Evaluation]) -> None:
    for base in evaluations.values():
        for candidate in evaluations.values():
            width = 0
            for line in markdown(gate(compare(base, candidate))).splitlines():
                width = (width or line.count("|")) if line.startswith("|") else 0
                assert line.count("|") == width


def test_nothing_that_a_system_is_called_is_markup() -> None:
    made = evaluation(*[1.0] * 8)
    system = made.run.system.model_copy(update={"name": "<img src=x>|@team\n# `big`"})
    named = made.model_copy(update={"run": made.run.model_copy(update={"system": system})})
    text = markdown(gate(compare(made, named)))
    assert "\\<img src=x\\>\\|\\@\u200bteam \\# \\`big\\`" in text
    assert "\\[x\\]" in markdown_unable("[x]")


def test_a_share_of_the_base_is_left_out_where_the_base_is_zero(evaluations: dict[str, Evaluation]) -> None:
    text = markdown(gate(compare(evaluations["v2"], evaluations["v4"])))
    assert "| wrong_abstention ↓ | 0.000 | 0.182 | +0.182 | +0.045 … +0.364 | 22 | ❌ regressed |" in text
    assert "| abstention ↑ | 0.000 | 1.000 | +1.000 | – | 4 | ❔ too few to tell |" in text
    assert "| citation_precision ↑ | 0.886 | 0.972 | +0.056 (+6.1 %) |" in text  # over the 18 cases of both
    assert "| 22 → 18, 18 in both | ❔ 4 cases lost |" in text


def test_a_candidate_that_answers_less_has_not_shown_that_it_is_no_worse() -> None:
    base, silent = evaluation(*[1.0] * 15, *[0.0] * 7), evaluation(*[1.0] * 15, *[None] * 7)
    decided = gate(compare(base, silent), allow_unclear=True)
    assert (EXIT_CODES[decided.outcome], decided.sentence) == (2, "Could not tell: m")
    assert "7 cases lost" in (parsed(junit(decided))[0][0][0].get("message") or "")
    assert gate(compare(silent, base)).outcome == "passed"


def test_files_of_a_gate_are_text(tmp_path: Path, evaluations: dict[str, Evaluation]) -> None:
    decided = gate(compare(evaluations["v1"], evaluations["v1"]))
    (tmp_path / "gate.md").write_text(markdown(decided), encoding="utf-8")
    assert parsed(junit(decided)).tag == "testsuites"
    assert (tmp_path / "gate.md").read_text(encoding="utf-8").startswith("## ✅ Replay gate: no regression")
