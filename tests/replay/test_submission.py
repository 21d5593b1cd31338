"""A stored run as requests, and scorecards beside its metrics."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from glassbox.cli.replay_submit import scorecards
from glassbox.contract.request import EvaluationRequest
from glassbox.replay.compare import compare
from glassbox.replay.evaluate import Evaluation, EvaluationEngine, read_evaluation
from glassbox.replay.store import Run
from glassbox.replay.submission import PREFIX, requests, with_scorecards
from glassbox.replay.suite import Suite
from glassbox.replay.trace import Citation, Invocation, Retrieved
from tests.cli.judged import judged, settings_of
from tests.replay.builders import failure, stored, suite, trace


def test_every_answer_is_a_request_with_what_was_retrieved(runs: dict[str, Path], tidewell: Suite) -> None:
    made = list(requests(Run.open(runs["v2"]), tidewell))
    assert len({each.request.evaluation_id for each in made if each.request}) == 26
    first = EvaluationRequest.model_validate_json(made[0].body())
    assert first == made[0].request
    assert first.query == tidewell.cases["meter-cost"].question
    assert first.session_id == "run-v2"
    assert [p.document_id for p in first.retrieved_passages] == ["meters", "tariffs", "bills"]
    scores = first.scores()
    assert scores == sorted(scores or [], reverse=True)
    assert [d.text for d in first.source_documents or ()] == [p.text for p in first.retrieved_passages]
    assert first.metadata == {"suite": "tidewell", "case": "meter-cost", "repeat": "0"}


def test_the_same_run_gives_the_same_requests_and_another_policy_other_ids(
    runs: dict[str, Path], tidewell: Suite
) -> None:
    run = Run.open(runs["v2"])
    once, again, strict = (
        [each.body() for each in requests(run, tidewell, policy)] for policy in (None, None, "strict")
    )
    assert once == again
    ids = [
        {each.request.evaluation_id for each in requests(run, tidewell, policy) if each.request}
        for policy in (None, "strict")
    ]
    assert not ids[0] & ids[1]
    assert b'"policy":"strict"' in strict[0]


def test_an_error_and_an_empty_answer_have_nothing_to_judge(tmp_path: Path) -> None:
    small = suite("a", "b", "c")
    cited = Invocation(answer="Nine.", citations=(Citation(document="doc", start=0, end=5),), model="m")
    unscored = (Retrieved(document="doc"), Retrieved(document="gone", score=1.0))
    some = [
        trace("a", small, error=failure()),
        trace("b", small, invocation=Invocation(answer=" ", retrieved=unscored)),
        trace("c", small, invocation=cited),
    ]
    made = list(requests(Run.open(stored(tmp_path, small, *some)), small))
    assert [each.request is None for each in made] == [True, True, False]
    assert made[2].request is not None
    assert [p.document_id for p in made[2].request.retrieved_passages] == ["doc"]  # what it cites
    assert made[2].request.scores() is None
    assert made[2].request.model is not None
    assert (made[2].request.model.provider, made[2].request.model.name) == ("double", "m")


def record(trust: str | None = "0.900000", faithful: bool | None = True, method: str = "a") -> dict[str, Any]:
    part = {"part": "faithfulness", "state": "scored", "score": "0.750000", "meets_target": faithful}
    absent = {"part": "entities", "state": "failed", "score": None, "meets_target": None, "method_digest": None}
    return {"trust": trust, "policy_digest": "b" * 64, "parts": [part | {"method_digest": method * 64}, absent]}


def test_scorecards_stand_beside_the_metrics(evaluations: dict[str, Evaluation], tmp_path: Path) -> None:
    base = evaluations["v2"]
    found = with_scorecards(base, {("bill-due", 0): record(), ("bill-cash", 0): record(trust=None, faithful=False)})
    assert list(found.metrics)[-2:] == [f"{PREFIX}trust", f"{PREFIX}faithfulness"]
    trust, faithfulness = found.figures["judged_trust"], found.figures["judged_faithfulness"]
    assert (trust.value, trust.n) == (0.9, 1)
    assert (faithfulness.value, faithfulness.n) == (0.75, 2)
    assert {name: found.figures[name] for name in base.figures} == base.figures
    assert found.definitions != base.definitions
    assert [(each.case, each.grounded, each.faithful) for each in found.disagreements] == [("bill-cash", True, False)]
    (tmp_path / "e.json").write_bytes(found.to_bytes())
    assert read_evaluation(tmp_path / "e.json") == found


def test_judges_of_other_methods_are_not_compared_and_the_rest_is(evaluations: dict[str, Evaluation]) -> None:
    records = {(case, 0): record() for case, _ in evaluations["v2"].questions}
    one = with_scorecards(evaluations["v2"], records)
    same = with_scorecards(evaluations["v3"], records)
    other = with_scorecards(evaluations["v3"], {key: record(method="c") for key in records})
    assert {"judged_trust", "judged_faithfulness"} <= {each.metric for each in compare(one, same).changes}
    found = compare(one, other)
    assert "judged_faithfulness" not in {each.metric for each in found.changes}
    assert "judged_trust" in {each.metric for each in found.changes}
    assert found.notes[0].startswith("Judged by other methods or policies in either run, so not compared: judged_faith")


@pytest.mark.timeout(120)
def test_answers_judged_by_the_pipelines_own_code_are_joined_by_their_ids(
    runs: dict[str, Path], tidewell: Suite, tmp_path: Path
) -> None:
    run = Run.open(runs["v3"])
    made = [each for each in requests(run, tidewell) if each.case in ("bill-due", "meter-cost")]
    folder = judged(tmp_path, [each.body() for each in made])
    records = asyncio.run(scorecards(settings_of(folder), run, tidewell, None))
    assert set(records) == {("bill-due", 0), ("meter-cost", 0)}
    found = with_scorecards(EvaluationEngine(tidewell).evaluate(run), records)
    assert found.figures["judged_trust"].n == 2
    assert found.figures["judged_faithfulness"].value == 1  # quoted, though nothing is cited
    assert {each.case for each in found.disagreements} == {"bill-due", "meter-cost"}
    assert not any(each.grounded for each in found.disagreements)
