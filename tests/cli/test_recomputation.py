"""What a recomputation tells apart: verdicts, evidence and methods that are not those recorded, and the ways in which a
judge may have come to its own."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassbox.cli.recomputation import Recomputation
from glassbox.contract.canonical import canonical, sha256_hex, strict_loads
from glassbox.contract.verdict import Method
from glassbox.dossier.archive import Outputs
from judges.calibration import CalibrationJudge
from judges.embedders import Embedded, input_digest
from judges.extract import Call, Extractor
from judges.extract_models import ModelEntities, ModelPairs
from judges.lexical import CHAT_MODEL
from judges.lexical.faults import Faults
from judges.llm import Endpoint, EndpointClient
from judges.port import NEEDS, Case, Judge, JudgeError, Judgement
from judges.relevance import RelevanceJudge
from judges.structure import StructureJudge
from judges.window_model import Made, Question
from tests.cli.judged import ONE, again, dossier, judged, part
from tests.own_judges import distribution

pytestmark = pytest.mark.timeout(180)

POLICIES = """
[policy.often.judges.contextual_precision.parts.llm_relevance]
repeats = 3
[policy.often.judges.semantic_faithfulness.parts]
faithfulness = {repeats = 3}
answer_relevancy = {repeats = 2, strictness = 3}
[policy.fused.judges.semantic_faithfulness.parts.faithfulness]
estimator = "fused"
"""
"""Other ways to ask than the default's."""
OWN = """
[policy.toned.judges.tone]
weight = 0.1
[policy.toned.judges.tone.parts.polite]
weight = 1
"""
TONE = """
from glassbox.contract.verdict import Method, Scored
from judges.port import Judgement

class Tone:
    kind, needs, parts = "tone", {"answer"}, {"polite": {}}

    def __init__(self, context):
        self.client = context.client

    async def judge(self, case):
        session = self.client.session(case.deadline, case.cache)
        one, other = await session.embed([case.input.answer, "please and thank you"])
        method = Method(name="tone", family="rules", library="tone", version="1")
        calls = [call.evidence() for call in session.calls]
        verdict = Scored.of("polite", abs(float(one @ other)), method=method)
        return Judgement((verdict,), {"polite": {"calls": calls}}, tuple(call.answer.raw for call in session.calls))

    async def close(self):
        pass
"""


class Altered:
    """A judge whose answer is changed before it is stored: a worker that was tampered with, or is of another build."""

    def __init__(self, judge: Judge, change: Callable[[Judgement], Judgement]) -> None:
        self._judge, self._change = judge, change
        self.kind, self.needs = judge.kind, judge.needs

    async def judge(self, case: Case) -> Judgement:
        return self._change(await self._judge.judge(case))

    async def close(self) -> None:
        await self._judge.close()


def altered(folder: Path, **verdict: Any) -> Recomputation:
    """One evaluation whose relevance verdict was changed, with evidence and record that agree with it."""

    def change(made: Judgement) -> Judgement:
        return Judgement((made.verdicts[0].model_copy(update=verdict),), made.evidence, made.raw)

    judged(folder, replaced=lambda client: {"relevance": Altered(RelevanceJudge(client), change)})
    return again(folder)


def test_a_verdict_that_does_not_follow_from_the_raw_outputs(tmp_path: Path) -> None:
    made = altered(tmp_path, **dict.fromkeys(("score", "low", "high"), Decimal("0.123456")))
    assert made.equal is False
    found = part(made, "llm_relevance")
    assert (found.source, found.result) == ("raw outputs", "differs")
    assert "score: recorded 0.123456, now 1.000000" in found.detail
    assert made.arithmetic == ()
    assert any(line.startswith("trust: recorded ") for line in made.composite)
    assert [each.result for each in made.parts if each is not found] == ["equal"] * 6


def test_a_flag_that_was_taken_away(tmp_path: Path) -> None:
    made = altered(tmp_path, flags=("order_disagrees",))
    assert part(made, "llm_relevance").detail == "flags: recorded order_disagrees, now none"
    assert made.equal is False


def test_a_changed_method_is_not_a_changed_result(tmp_path: Path) -> None:
    told = dossier(judged(tmp_path / "here")).verdicts["llm_relevance"]["method"]
    made = altered(tmp_path / "there", method=Method(**{**told, "version": "4.0.0"}))
    found = part(made, "llm_relevance")
    assert (made.equal, found.result) == (None, "other_method")
    assert found.detail == f"version is {told['version']} here, 4.0.0 on record"


def test_evidence_that_does_not_follow_from_the_raw_outputs(tmp_path: Path) -> None:
    def change(made: Judgement) -> Judgement:
        evidence = strict_loads(canonical(made.evidence), max_depth=64)
        evidence["llm_relevance"]["passages"][0]["reason"] = "because"
        return Judgement(made.verdicts, evidence, made.raw)

    judged(tmp_path, replaced=lambda client: {"relevance": Altered(RelevanceJudge(client), change)})
    made = again(tmp_path)
    assert made.equal is False
    assert {kind.evidence for kind in made.kinds} == {None, "llm_relevance.passages[0].reason"}


@pytest.mark.parametrize(("policy", "samples"), [("often", [0, 1, 2]), ("fused", [0])])
def test_the_policy_is_the_one_on_record(tmp_path: Path, policy: str, samples: list[int]) -> None:
    made = again(judged(tmp_path, policy=policy, policies=POLICIES))
    assert made.equal is True
    calls = dossier(tmp_path).sealed["grounding"]["evidence"]["faithfulness"]["calls"]
    assert sorted({call["sample"] for call in calls}) == samples


class Aliased(EndpointClient):
    """An endpoint that is asked for one model and says that another served."""

    async def post(self, path: str, body: Mapping[str, Any], deadline: float) -> bytes:
        if "messages" not in body:
            return await super().post(path, body, deadline)
        said = json.loads(await super().post(path, {**body, "model": CHAT_MODEL}, deadline))
        return json.dumps({**said, "model": "judge-2026-01-31"}).encode()


def test_the_model_that_was_asked_for_need_not_be_the_one_that_served(tmp_path: Path) -> None:
    def alias(endpoint: Endpoint, key: bytes) -> EndpointClient:
        return Aliased(replace(endpoint, model="judge-latest"), key)

    made = again(judged(tmp_path, connect=alias))
    assert made.equal is True
    assert dossier(tmp_path).verdicts["faithfulness"]["method"]["model"] == "judge-2026-01-31"


class Late:
    kind = "structure"
    needs = NEEDS["structure"]

    async def judge(self, case: Case) -> Judgement:
        raise JudgeError("timeout", "no answer in time")

    async def close(self) -> None: ...


def test_what_failed_without_an_answer_stands(tmp_path: Path) -> None:
    made = again(judged(tmp_path, replaced=lambda client: {"structure": Late()}))
    assert made.equal is True
    late = [part for part in made.parts if part.result == "not_kept"]
    assert {part.part for part in late} == {"entities", "relations"}
    assert {part.detail for part in late} == {"failed (timeout): nothing was kept"}


def test_evidence_of_another_form_is_not_a_crash(tmp_path: Path) -> None:
    found = dossier(judged(tmp_path))
    for sealed in (
        {},
        {"verdicts": [{}], "evidence": {}},
        {"verdicts": [], "evidence": {"calls": [{"output_digest": 1}]}},
    ):
        made = again(tmp_path, replace(found, sealed={**found.sealed, "relevance": sealed}))
        assert made.equal is None
        assert part(made, "llm_relevance").result == "unknown"


class ToyEmbedder:
    """A model of this process."""

    family, model = "embedding", "toy@1"
    parameters: Mapping[str, Any] = {"library": "toy 1"}

    async def embed(self, query: str, passages: Sequence[str], case: Case) -> Embedded:
        vectors = np.array([[len(text), text.count("e") + 1] for text in (query, *passages)], dtype="<f4")
        asked = input_digest(self.model, query, passages)
        call = {
            "schema": "embeddings",
            "input_digest": asked,
            "output_digest": sha256_hex(vectors.tobytes()),
            "unread": [],
        }
        return Embedded(vectors, self.model, (call,), (vectors.tobytes(),))

    async def close(self) -> None: ...


class ToyAsker:
    """Finds words with a capital, and a relation from each to the next."""

    made = Made("toy", "toy", "1", "toy@1", {})

    async def ask(self, questions: Sequence[Question]) -> list[Call]:
        return [Call(each.schema, each.digest(self.made.model), self._answer(each)) for each in questions]

    def _answer(self, question: Question) -> bytes:
        label = question.labels[0]
        hits = [[n, n + 1, label, 0.75] for n in range(len(question.mentions) - 1)]
        if question.schema == "entities":
            hits = [[*found.span(), label, 0.75] for found in re.finditer(r"\b[A-Z]\w+", question.text)]
        windows = [{"span": [0, len(question.text)], "found": hits}]
        return canonical({"windows": windows, "cut_words": 0, "cut_sentences": 0})

    async def close(self) -> None: ...


def test_models_of_this_process_say_again_what_they_said(tmp_path: Path) -> None:
    """Neither their libraries nor their weights are needed."""
    passages = [{"text": f"Anna Berg met Otto Kern in Linz{' here' * n}.", "score": 0.9 - n / 10} for n in range(6)]
    request = {
        "evaluation_id": ONE,
        "query": "Who met Otto Kern?",
        "answer": "Anna Berg met Otto Kern in Graz.",
        "retrieved_passages": passages,
    }
    models = Extractor(ModelEntities(ToyAsker()), ModelPairs(ToyAsker()))
    judged(
        tmp_path,
        [json.dumps(request).encode()],
        replaced=lambda client: {
            "calibration": CalibrationJudge(ToyEmbedder()),
            "structure": StructureJudge(models),
        },
    )
    found = dossier(tmp_path)
    made = again(tmp_path, found)
    assert made.equal is True
    for name in ("similarity_calibration", "entities", "relations"):
        assert (part(made, name).source, part(made, name).recorded["state"]) == ("raw outputs", "scored")
    lost = replace(found, outputs=Outputs(missing=frozenset(found.outputs.kept)))
    assert {each.part for each in again(tmp_path, lost).parts if each.result == "unknown"} == {
        *("llm_relevance", "similarity_calibration", "faithfulness", "answer_relevancy", "entities", "relations")
    }


def test_a_judge_of_ones_own_is_run_again_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(tmp_path / "site", "glassbox-tone", {"tone": "tone_of_ones_own:Tone"}, tone_of_ones_own=TONE)
    with monkeypatch.context() as installed:
        installed.syspath_prepend(tmp_path / "site")
        made = again(judged(tmp_path / "data", policy="toned", policies=OWN))
    found = part(made, "polite")
    assert (made.equal, found.source, found.result) == (True, "raw outputs", "equal")
    made = again(tmp_path / "data")
    assert made.equal is None
    assert "no installed package registers a judge 'tone'" in part(made, "polite").detail


@pytest.mark.parametrize("malformed", ["fewer", "not_json"])
def test_answers_that_could_not_be_used_fail_again(tmp_path: Path, malformed: Any) -> None:
    made = again(judged(tmp_path, faults=Faults(malformed=malformed, only_schema="PassageVerdicts")))
    found = part(made, "llm_relevance")
    assert found.recorded["state"] == "failed"
    assert (found.source, found.result) == ("raw outputs", "equal")
    assert made.equal is True


@pytest.mark.parametrize("fault", [{"malformed": "not_json"}, {"truncate_rate": 1.0}, {"error_rate": 1.0}])
def test_what_was_asked_again_is_asked_again(tmp_path: Path, fault: dict[str, Any]) -> None:
    made = again(judged(tmp_path, faults=Faults(**fault, only_schema="StatementGeneratorOutput", times=1)))
    assert part(made, "faithfulness").source == "raw outputs"
    assert part(made, "faithfulness").recorded["state"] == "scored"
    assert made.equal is True
    calls = dossier(tmp_path).sealed["grounding"]["evidence"]["faithfulness"]["calls"]
    assert [call["rejected"] is None for call in calls] == (
        [True, True] if "error_rate" in fault else [False, True, True]
    )
