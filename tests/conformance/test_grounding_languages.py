"""Grounding: languages, repeats, the author as judge, the fused estimator, and the library's own path."""

import json
from typing import Any

import pytest

from glassbox.contract.request import Model
from glassbox.contract.verdict import Scored
from judges.languages import SUPPORTED
from tests.conformance.conftest import Puppet
from tests.conformance.grounding import (
    FAITHFUL,
    PASSAGES,
    QUERY,
    REBUILT,
    RELEVANT,
    A,
    B,
    C,
    honest,
    nli,
    parts,
    question,
    statements,
)
from tests.conformance.tongues import TONGUES
from tests.judges.conftest import says

# --- languages --------------------------------------------------------------------------------------------------


def test_every_language_whose_claims_are_judged_has_a_row():
    assert set(TONGUES) == set(SUPPORTED)


@pytest.mark.parametrize("tongue", TONGUES.values(), ids=TONGUES.keys())
async def test_the_offline_model_tells_a_supported_claim_from_one_that_is_not(client, tongue):
    verdicts, evidence = await parts(client, f"{tongue.supported} {tongue.unsupported}", (tongue.passage,), FAITHFUL)
    claims = evidence["faithfulness"]["claims"]
    assert [(claim["text"], claim["verdict"]) for claim in claims] == [(tongue.supported, 1), (tongue.unsupported, 0)]
    assert float(verdicts["faithfulness"].score) == 0.5


@pytest.mark.parametrize("tongue", TONGUES.values(), ids=TONGUES.keys())
async def test_a_hosted_model_is_asked_in_the_language_and_places_are_exact(puppet, connect, tongue):
    answer = f"{tongue.supported} {tongue.unsupported}"
    said = puppet(
        StatementGeneratorOutput=statements(tongue.supported, tongue.unsupported),
        NLIStatementOutput=nli((tongue.supported, 1), (tongue.unsupported, 0)),
        AnswerRelevanceOutput=question(tongue.question),
    )
    verdicts, evidence = await parts(connect(), answer, (tongue.passage,))
    assert float(verdicts["faithfulness"].score) == 0.5
    for claim in evidence["faithfulness"]["claims"]:
        assert answer[claim["answer"]["start"] : claim["answer"]["end"]] == claim["text"]
    found = evidence["faithfulness"]["claims"][0]["support"]
    assert "1913" in tongue.passage[found["start"] : found["end"]]
    assert verdicts["answer_relevancy"].flags == ()
    assert len(said.asked["AnswerRelevanceOutput"]) == 1


@pytest.mark.parametrize(
    ("answer", "cause"),
    [("de", "other_language"), ("fr", "other_language"), ("ru", "other_script"), ("zh", "other_script")],
)
async def test_the_offline_model_does_not_judge_words_of_one_language_by_those_of_another(client, answer, cause):
    verdicts, _ = await parts(client, TONGUES[answer].supported, (f"{REBUILT} It is the only one of the county.",))
    assert verdicts["faithfulness"].cause == cause


async def test_a_hosted_model_may(puppet, connect):
    puppet(**honest(StatementGeneratorOutput=statements(B), NLIStatementOutput=nli((B, 0))))
    verdicts, _ = await parts(connect(), TONGUES["ru"].supported, PASSAGES, FAITHFUL)
    assert verdicts["faithfulness"].score == 0


FOREIGN = "When was it rebuilt, and who was the owner of it?"


@pytest.mark.parametrize("code", sorted(set(SUPPORTED) - {"en"}))
async def test_a_question_in_another_language_is_asked_for_again_by_name_and_then_flagged(puppet, connect, code):
    tongue = TONGUES[code]
    for then, flags in ((tongue.question, ()), (FOREIGN, ("question_language",))):
        said = puppet(AnswerRelevanceOutput=[question(FOREIGN), question(then)])
        verdicts, evidence = await parts(connect(), tongue.passage, (tongue.passage,), RELEVANT)
        assert verdicts["answer_relevancy"].flags == flags
        assert evidence["answer_relevancy"]["questions"][0]["question"] == then
        first, second = (body["messages"][0]["content"] for body in said.asked["AnswerRelevanceOutput"])
        assert second.startswith(first)


@pytest.mark.parametrize(
    "answer",
    [
        "오래된 방앗간은 1913년에 재건되어 지금도 호밀을 빻는다.",
        "Старий млин відбудували 1913 року, і він досі меле жито.",
        "पुरानी चक्की 1913 में फिर से बनाई गई थी।",
        "Den gamla kvarnen byggdes upp igen år 1913 och mal råg ännu på åttiotalet.",
        "הטחנה הישנה נבנתה מחדש בשנת 1913.",
    ],
)
async def test_claims_in_a_language_without_a_row_are_not_judged(puppet, connect, answer):
    said = puppet(**honest())
    verdicts, _ = await parts(connect(), answer)
    assert verdicts["faithfulness"].cause == "other_language"
    assert isinstance(verdicts["answer_relevancy"], Scored)
    assert not said.asked["StatementGeneratorOutput"]


# --- repeats, author, fused -------------------------------------------------------------------------------------


async def test_repeats_report_their_agreement_and_the_first_is_the_score(puppet, connect):
    runs = [nli((A, 1), (B, 1)), nli((A, 1), (B, 0)), nli((A, 1), (B, 1))]
    said = puppet(
        vectors={"two?": [3, 4]},
        **honest(NLIStatementOutput=runs, AnswerRelevanceOutput=[question(), question("two?"), question()]),
    )
    settings = {"faithfulness": {"repeats": 3}, "answer_relevancy": {"repeats": 3}}
    verdicts, evidence = await parts(connect(), settings=settings)
    faithfulness, relevancy = verdicts["faithfulness"], verdicts["answer_relevancy"]
    assert [float(f) for f in (faithfulness.low, faithfulness.score, faithfulness.high)] == [0.5, 1, 1]
    assert (evidence["faithfulness"]["repeats"], evidence["faithfulness"]["agreement"]) == ([1, 0.5, 1], 0.5)
    assert [float(f) for f in (relevancy.low, relevancy.score, relevancy.high)] == [0.6, 1, 1]
    assert evidence["answer_relevancy"]["repeats"] == [1, 0.6, 1]
    for verdict in verdicts.values():
        assert verdict.flags == ("repeats_disagree",)
        assert verdict.method.parameters["repeats"] == 3
    assert [body.get("seed", 0) for body in said.asked["NLIStatementOutput"]] == [0, 1, 2]
    assert len(said.asked["StatementGeneratorOutput"]) == 1


@pytest.mark.parametrize(
    ("name", "is_author"), [("served-1", True), ("provider/Asked-1", True), ("asked-2", False), (None, False)]
)
async def test_a_model_that_judges_what_it_wrote_is_named_in_flag_and_method(puppet, connect, name, is_author):
    puppet(**honest())
    author = Model(provider="p", name=name) if name else None
    verdicts, _ = await parts(connect(), model=author)
    for verdict in verdicts.values():
        assert ("judge_is_author" in verdict.flags) is is_author
        assert verdict.method.parameters.get("judge_is_author", False) is is_author


async def test_the_fused_estimator_is_one_call_under_another_name(puppet, connect):
    said = puppet(ClaimVerdictsOutput=nli((A, 1), (C, 0)))
    settings = {"faithfulness": {"estimator": "fused"}}
    verdicts, evidence = await parts(connect(), f"{A} {C}", settings=settings)
    verdict = verdicts["faithfulness"]
    assert float(verdict.score) == 0.5
    assert (verdict.method.name, verdict.method.library) == ("glassbox.faithfulness@fused", "glassbox")
    assert [claim["verdict"] for claim in evidence["faithfulness"]["claims"]] == [1, 0]
    assert [len(asked) for asked in said.asked.values()] == [1]
    puppet(**honest(StatementGeneratorOutput=statements(A, C), NLIStatementOutput=nli((A, 1), (C, 0))))
    two_step, _ = await parts(connect(), f"{A} {C}", settings=FAITHFUL)
    assert two_step["faithfulness"].score == verdict.score
    assert two_step["faithfulness"].method.digest() != verdict.method.digest()


async def test_the_fused_estimator_offline(client, lexical):
    verdicts, _ = await parts(client, f"{A} {C}", settings={"faithfulness": {"estimator": "fused"}})
    assert (float(verdicts["faithfulness"].score), lexical.calls) == (0.5, {"ClaimVerdictsOutput": 1})


# --- what is saved changes no score -----------------------------------------------------------------------------

OUTPUTS = {
    "supported": honest(),
    "half": honest(NLIStatementOutput=nli((A, 1), (B, 0))),
    "none": honest(NLIStatementOutput=nli((A, 0), (B, 0))),
    "another question": honest(AnswerRelevanceOutput=question("Which?")),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that ragas leaves open
@pytest.mark.parametrize("outputs", OUTPUTS.values(), ids=OUTPUTS.keys())
async def test_the_scores_are_those_of_the_library_s_own_path_for_fewer_tokens(
    puppet, script, connect, outputs, monkeypatch, tmp_path
):
    """Ragas with its own prompts, model and embeddings classes, on the same outputs of the same endpoint."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # it writes down who runs it
    import openai
    from ragas.embeddings import OpenAIEmbeddings
    from ragas.llms import llm_factory
    from ragas.metrics.collections import AnswerRelevancy, Faithfulness

    answer, vectors = f"{A} {B}", {"Which?": [3.0, 4.0]}
    by_title = {**outputs}

    def plain(body: dict[str, Any]) -> Any:
        if "input" in body:
            return Puppet(vectors=vectors)(body)
        text = json.dumps(body["messages"])
        title = next(schema for schema in by_title if f'\\"title\\": \\"{schema}\\"' in text)
        return says(json.dumps(by_title[title]))

    script.steps = [plain]
    async with openai.AsyncOpenAI(base_url=script.url, api_key="none", max_retries=0) as client:
        llm = llm_factory("asked-1", client=client)
        embeddings = OpenAIEmbeddings(client=client, model="vectors-1")
        faithfulness = await Faithfulness(llm=llm).ascore(QUERY, answer, list(PASSAGES))
        relevancy = await AnswerRelevancy(llm=llm, embeddings=embeddings, strictness=1).ascore(QUERY, answer)
    theirs = [body for body in script.requests if "messages" in body]
    script.requests.clear()
    puppet(vectors=vectors, **outputs)
    verdicts, _ = await parts(connect(), answer)
    ours = [body for body in script.requests if "messages" in body]
    assert float(verdicts["faithfulness"].score) == pytest.approx(faithfulness.value, abs=1e-6)
    assert float(verdicts["answer_relevancy"].score) == pytest.approx(relevancy.value, abs=1e-6)
    assert len(ours) == len(theirs) == 3
    assert len(script.requests) == 4

    def characters(bodies: list[dict[str, Any]]) -> int:
        return sum(len(message["content"]) for body in bodies for message in body["messages"])

    assert characters(ours) < 0.7 * characters(theirs)
