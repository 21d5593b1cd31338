"""From stored traces to figures: the same bytes every time, counts that add up, and runs that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.replay.evaluate import Evaluation, EvaluationEngine, read_evaluation
from glassbox.replay.metrics import METRICS, Metric
from glassbox.replay.store import Run, StoreError
from glassbox.replay.suite import Suite
from glassbox.replay.trace import Invocation
from tests.replay.builders import failure, stored, suite, trace


def evaluated(folder: Path, of: Suite, *traces: Any, **fields: Any) -> Evaluation:
    return EvaluationEngine(of).evaluate(Run.open(stored(folder, of, *traces, **fields)))


FIGURES = {
    # version: (clean cases, keyword recall, groundedness, citation coverage, retrieval recall@3, abstained of 4, of 22)
    "v1": (15, 0.613636, 1.0, 1.0, 0.659091, 2, 1),
    "v2": (19, 0.886364, 1.0, 1.0, 1.0, 0, 0),
    "v3": (0, 0.886364, 0.0, 0.0, 1.0, 0, 0),
    "v4": (18, 0.659091, 1.0, 1.0, 1.0, 4, 4),
}


@pytest.mark.parametrize("version", FIGURES)
def test_the_deterministic_system_on_the_shipped_suite(version: str, evaluations: dict[str, Evaluation]) -> None:
    found = evaluations[version]
    names = ("keyword_recall", "groundedness", "citation_coverage", "retrieval_recall@3")
    abstained = [found.figures[name] for name in ("abstention", "wrong_abstention")]
    assert (
        found.classes["success"],
        *(found.figures[name].value for name in names),
        *(round((each.value or 0) * each.n) for each in abstained),
    ) == FIGURES[version]
    assert [each.n for each in abstained] == [4, 22]
    assert sum(found.classes.values()) == 26
    assert found.tokens == {"estimated": 26}


def test_the_same_run_gives_the_same_bytes(runs: dict[str, Path], tidewell: Suite) -> None:
    first, second = (EvaluationEngine(tidewell).evaluate(Run.open(runs["v2"])).to_bytes() for _ in range(2))
    assert first == second


def test_an_evaluation_survives_its_file(evaluations: dict[str, Evaluation], tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    path.write_bytes(evaluations["v1"].to_bytes())
    assert read_evaluation(path) == evaluations["v1"]
    assert read_evaluation(path).digest() == evaluations["v1"].digest()


def test_the_order_of_the_traces_changes_only_the_digest_of_the_run(tmp_path: Path) -> None:
    small = suite("b", "a")
    traces = [trace(case, small) for case in small.cases]
    first, second = (
        evaluated(tmp_path / name, small, *some) for name, some in (("x", traces), ("y", list(reversed(traces))))
    )
    assert first.run.digest != second.run.digest
    assert first.cases == second.cases
    assert [each.case for each in first.cases] == ["b", "a"]


def test_a_metric_that_is_added_later_applies_to_a_run_stored_before(runs: dict[str, Path], tidewell: Suite) -> None:
    shout = Metric("shout", lambda case, trace, corpus: float(trace.invocation is not None), "lower")
    found = EvaluationEngine(tidewell, {**METRICS, "shout": shout}).evaluate(Run.open(runs["v1"]))
    assert found.figures["shout"].value == 1
    assert found.figures["shout"].n == 26


def test_repeats_stand_together_and_all_count(tmp_path: Path) -> None:
    small = suite("a", "b")
    traces = [
        trace("a", small),
        trace("b", small),
        trace("b", small, repeat=1),
        trace("a", small, repeat=1, error=failure()),
    ]
    found = evaluated(tmp_path, small, *traces, repeats=2)
    assert [(each.case, each.repeat) for each in found.cases] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert found.figures["error_rate"].value == 0.25
    assert (found.figures["latency_median"].value, found.figures["latency_median"].n) == (1.5, 3)


@given(kinds=st.lists(st.sampled_from(["error", "answer", "abstain", "empty"]), min_size=1, max_size=8))
def test_counts_add_up_to_the_suite(tmp_path_factory: pytest.TempPathFactory, kinds: list[str]) -> None:
    small = suite(*(f"case-{n}" for n in range(len(kinds))))
    answers = {"answer": "It is nine.", "abstain": "I do not know.", "empty": ""}
    traces = [
        trace(case, small, error=failure())
        if kind == "error"
        else trace(case, small, invocation=Invocation(answer=answers[kind]))
        for case, kind in zip(small.cases, kinds, strict=True)
    ]
    found = evaluated(tmp_path_factory.mktemp("run"), small, *traces)
    assert sum(found.classes.values()) == len(kinds)
    assert (
        found.classes["invocation_error"]
        == kinds.count("error")
        == round((found.figures["error_rate"].value or 0) * len(kinds))
    )
    assert found.classes["wrong_abstention"] == kinds.count("abstain") + kinds.count("empty")


@pytest.mark.parametrize("field", ["digest", "corpus_digest"])
def test_a_run_of_another_suite_or_corpus_is_refused(field: str, tmp_path: Path) -> None:
    run = Run.open(stored(tmp_path, suite("a")))
    with pytest.raises(StoreError, match=f"suite.{field}") as caught:
        EvaluationEngine(suite("a", **{field: "c" * 64})).evaluate(run)
    assert "is not what was run" in caught.value.reason


def test_a_trace_of_a_case_that_the_suite_has_not_is_refused_with_its_line(tmp_path: Path) -> None:
    small = suite("a", "b")
    with pytest.raises(StoreError, match="has no case 'z'") as caught:
        evaluated(tmp_path, small, trace("a", small), trace("z", small))
    assert (caught.value.line, caught.value.field) == (2, "case")


def test_a_repeat_too_many_is_refused_with_its_line(tmp_path: Path) -> None:
    small = suite("a", "b")
    with pytest.raises(StoreError, match="repeat") as caught:
        evaluated(tmp_path, small, trace("a", small), trace("a", small, repeat=1))
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("edit", "field", "reason"),
    [
        (lambda made: made.update(schema_version="2"), "schema_version", "this build reads 1"),
        (lambda made: made["figures"]["mrr"].update(value=0.9), "", "figures: are not those of the cases"),
        (lambda made: made["classes"].update(success=26), "", "classes: do not add up to the cases"),
        (lambda made: made["cases"].pop(), "", "cases: are not those of the suite"),
        (lambda made: made["cases"][3]["values"].update(charm=1), "", "undefined metric"),
        (lambda made: made["cases"][3]["values"].update(mrr="high"), "cases.3.values.mrr", "valid number"),
        (lambda made: made.update(extra=1), "extra", "not permitted"),
    ],
)
def test_an_evaluation_that_was_edited_is_refused(
    edit: Any, field: str, reason: str, evaluations: dict[str, Evaluation], tmp_path: Path
) -> None:
    made = json.loads(evaluations["v2"].to_bytes())
    edit(made)
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps(made))
    with pytest.raises(StoreError) as caught:
        read_evaluation(path)
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_an_evaluation_cut_at_any_byte_is_refused(evaluations: dict[str, Evaluation], tmp_path: Path) -> None:
    raw, path = evaluations["v2"].to_bytes(), tmp_path / "evaluation.json"
    for end in range(0, len(raw) - 1, 997):
        path.write_bytes(raw[:end])
        with pytest.raises(StoreError):
            read_evaluation(path)
