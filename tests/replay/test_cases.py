"""Suites that cases are added to one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassbox.replay import cases
from glassbox.replay.cases import Added, CaseError, Incident, add_case, suites_in
from glassbox.replay.evaluate import EvaluationEngine
from glassbox.replay.store import Run
from glassbox.replay.suite import CASES, CORPUS, Failing, Observed, SuiteError, load_suite
from tests.replay.shipped import run_version

OBSERVED = Observed(
    evaluation_id="e-1",
    answer="It opened in 1864.",
    outcome="fail",
    trust="0.300000",
    failing=(
        Failing(judge="semantic_faithfulness", part="faithfulness", score="0.000000", why="1 of 1 claims unsupported"),
    ),
)
ASKED = Incident(
    question="When did the railway open?",
    texts=[("p-1", "The railway opened in 1863."), (None, "Engines were built in York.")],
    observed=OBSERVED,
    keywords=[["1863"]],
    relevant=[0],
)


def named(name: str, **more: Any) -> Incident:
    return replace(ASKED, observed=OBSERVED.model_copy(update={"evaluation_id": name}), **more)


def test_a_case_is_one_that_a_run_can_be_measured_by(tmp_path: Path) -> None:
    assert add_case(tmp_path / "mine", ASKED) == Added("e-1", True, 1)
    suite = load_suite(tmp_path / "mine")
    case = suite.cases["e-1"]
    assert (suite.name, case.relevant, case.keywords, case.observed) == ("mine", ("p-1",), (("1863",),), OBSERVED)
    assert [document.text for document in suite.corpus.values()] == [text for _, text in ASKED.texts]
    run = Run.open(run_version(tmp_path / "run", suite, "v2"), suite)
    assert EvaluationEngine(suite).evaluate(run).figures["keyword_recall"].n == 1
    assert (tmp_path / "mine" / CASES).stat().st_mode & 0o777 == 0o600


def test_the_same_evaluation_is_one_case(tmp_path: Path) -> None:
    add_case(tmp_path, ASKED)
    before = (tmp_path / CASES).read_bytes()
    assert add_case(tmp_path, replace(ASKED, question="Another?")) == Added("e-1", False, 1)
    assert (tmp_path / CASES).read_bytes() == before


def test_documents_are_shared_and_never_mistaken(tmp_path: Path) -> None:
    add_case(tmp_path, ASKED)
    add_case(
        tmp_path,
        named("e-2", texts=[("p-1", "Another text."), ("p-9", "The railway opened in 1863.")], relevant=[0, 1]),
    )
    suite = load_suite(tmp_path)
    assert len(suite.corpus) == 3
    one, other = suite.cases["e-2"].relevant
    assert (suite.corpus[one].text, other) == ("Another text.", "p-1")
    long = named("a:" + "b" * 120)
    assert add_case(tmp_path, long).case == long.case_id
    assert long.case_id.startswith("evaluation-")


def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    names = [f"e-{n}" for n in range(24)] * 2
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda name: add_case(tmp_path, named(name)), names))
    assert sum(each.added for each in done) == 24
    assert sorted(load_suite(tmp_path).cases) == sorted(set(names))
    assert {path.name for path in tmp_path.iterdir()} == {CASES, CORPUS, ".lock"}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"texts": [(None, " ")]}, "passages"),
        ({"relevant": [2]}, "expectation.relevant"),
        ({"answerable": False}, "expectation"),
        ({"question": "?"}, "question"),
    ],
)
def test_what_makes_no_case(tmp_path: Path, changed: dict[str, Any], field: str) -> None:
    wrong = {"relevant": [], "keywords": []} | changed if "texts" in changed else changed
    with pytest.raises(CaseError) as raised:
        add_case(tmp_path, replace(ASKED, **wrong))
    assert raised.value.field == field
    assert not (tmp_path / CASES).exists()


def test_a_full_or_damaged_suite_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "MOST_CASES", 1)
    add_case(tmp_path / "a", ASKED)
    with pytest.raises(CaseError, match="has 1 cases"):
        add_case(tmp_path / "a", named("e-2"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / CASES).write_text("{")
    with pytest.raises((SuiteError, FileNotFoundError)):
        add_case(tmp_path / "b", ASKED)
    assert [suite.name for suite in suites_in(tmp_path)] == ["a"]
    assert list(suites_in(tmp_path / "none")) == []
