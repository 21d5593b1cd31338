"""Grounding: what a model says, or what an evaluation is like, and the right result.

Rows by number: 1 verdicts that are not one for each claim, 2 output that is none, 3 nothing claimed, 4 nothing
retrieved, 5 one bad evaluation among others, 6 relevancy, 9 order and concurrency, 14 answers out of all proportion."""

import asyncio
import json
import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from glassbox.contract.request import Document
from glassbox.contract.verdict import Failed, NotApplicable, Scored
from judges.grounding import GroundingJudge
from judges.run import answer as judged
from tests.conformance.conftest import data_of
from tests.conformance.grounding import (
    FAITHFUL,
    FIRE,
    REBUILT,
    RELEVANT,
    SAID,
    A,
    B,
    C,
    Cache,
    case,
    honest,
    nli,
    parts,
    question,
    statements,
)
from tests.judges.conftest import says

# --- row 1: verdicts that are not one for each claim ------------------------------------------------------------


@dataclass
class Row:
    """`first`, `then`: the verdicts that the model gives, and those when it is asked again. `claims`: the verdicts
    that count in the end, in the order of the claims; None: failed(malformed_output)."""

    first: Any
    claims: list[int] | None
    then: Any = None
    asked: int = 1
    statements: list[str] = field(default_factory=lambda: [A, B, C])


VERDICTS = {
    "all": Row(nli((A, 1), (B, 0), (C, 0)), [1, 0, 0]),
    "fewer": Row(nli((A, 1), (B, 1)), None, asked=2),
    "none": Row(nli(), None, asked=2),
    "fewer, mended": Row(nli((A, 1), (B, 1)), [1, 1, 0], nli((A, 1), (B, 1), (C, 0)), asked=2),
    "more": Row(nli((A, 1), (B, 1), (C, 0), ("The mill is red.", 1)), None, asked=2),
    "a duplicate more": Row(nli((A, 1), (B, 1), (C, 0), (A, 1)), None, asked=2),
    "a duplicate for one that is missing": Row(nli((A, 1), (A, 1), (B, 1)), None, asked=2),
    "about another claim": Row(nli((A, 1), (B, 1), ("The mill is red.", 1)), None, asked=2),
    "out of order": Row(nli((C, 0), (A, 1), (B, 1)), [1, 1, 0]),
    "other punctuation": Row(nli((A.rstrip("."), 1), (B.upper(), 1), (f"\u201c{C}\u201d", 0)), [1, 1, 0]),
    "one claim twice": Row(nli((B, 0), (A, 1)), [1, 0], statements=[A, B, A]),
    "one claim twice, two verdicts": Row(nli((B, 0), (A, 1), (A, 1)), None, statements=[A, B, A], asked=2),
    **{
        f"the word {word!r}": Row(nli((A, word), (B, 1), (C, 0)), [meaning, 1, 0])
        for word, meaning in [
            *((word, 1) for word in ("1", "true", "yes.", "Yes", "supported", True)),
            *((word, 0) for word in ("0", "false", "no", "unsupported", "Not supported.", False)),
        ]
    },
    **{
        f"the word {word!r}": Row(nli((A, word), (B, 1), (C, 0)), None, asked=2)
        for word in ("idk", "partly", "oui", "", "maybe yes", "100%", 2, -1, 0.5, None, [1], {"verdict": 1})
    },
    "a claim without a word": Row(nli((A, 1)), None, statements=[A, "…"], asked=0),
    "more claims than words": Row(nli((A, 1)), None, statements=[A] * 30, asked=0),
    "no claims where the rules see two": Row(nli(), None, statements=[], asked=0),
}


@pytest.mark.parametrize("row", VERDICTS.values(), ids=VERDICTS.keys())
async def test_row_1_exactly_one_verdict_for_each_claim(puppet, connect, row):
    said = puppet(
        **honest(
            StatementGeneratorOutput=statements(*row.statements), NLIStatementOutput=[row.first, row.then or row.first]
        )
    )
    verdicts, evidence = await parts(connect(), f"{A} {B} {C}", settings=FAITHFUL)
    verdict = verdicts["faithfulness"]
    assert len(said.asked["NLIStatementOutput"]) == row.asked
    assert len(said.asked["StatementGeneratorOutput"]) == (1 if row.asked else 2)
    if row.claims is None:
        assert (verdict.state, verdict.cause) == ("failed", "malformed_output")
        assert "Tornby" not in verdict.detail
    else:
        assert [claim["verdict"] for claim in evidence["faithfulness"]["claims"]] == row.claims
        assert float(verdict.score) == pytest.approx(sum(row.claims) / len(row.claims), abs=1e-6)


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("1", "noncommittal"),
        (True, "noncommittal"),
        ("no", "scored"),
        ("perhaps", "malformed_output"),
        (2, "malformed_output"),
    ],
)
async def test_row_1_the_words_for_noncommittal(puppet, connect, word, state):
    puppet(**honest(AnswerRelevanceOutput=question(noncommittal=word)))
    verdicts, _ = await parts(connect(), "It depends.", settings=RELEVANT)
    verdict = verdicts["answer_relevancy"]
    assert state == (verdict.state if isinstance(verdict, Scored) else verdict.cause)


# --- row 2: output that is no output ----------------------------------------------------------------------------

BROKEN = {
    "cut": (lambda text: text[:-3], "malformed_output"),
    "prose before": (lambda text: f"Here you are: {text}", "malformed_output"),
    "prose after": (lambda text: f"{text}\nI hope this helps.", "malformed_output"),
    "twice": (lambda text: text + text, "malformed_output"),
    "single quotes": (lambda text: text.replace('"', "'"), "malformed_output"),
    "a list": (lambda text: f"[{text}]", "malformed_output"),
    "an empty object": (lambda _: "{}", "malformed_output"),
    "another field": (lambda text: text[:-1] + ', "score": 1.0}', "malformed_output"),
    "a key twice": (lambda text: text[:-1] + "," + text[1:], "malformed_output"),
    "blank": (lambda _: " ", "malformed_output"),
    "no body": (lambda _: (200, {}, ""), "malformed_output"),
    "refusal": (lambda _: says("", refusal="I cannot help with that."), "refused"),
    "length": (lambda text: says(text[:-3], "length"), "truncated"),
}


@pytest.mark.parametrize("schema", SAID)
@pytest.mark.parametrize(("make", "cause"), BROKEN.values(), ids=BROKEN.keys())
async def test_row_2_what_is_no_output_fails_by_its_cause_and_spares_the_other_part(
    puppet, connect, schema, make, cause
):
    said = puppet(**honest(**{schema: make(SAID[schema])}))
    verdicts, _ = await parts(connect(max_tokens=100))
    mine, other = ("answer_relevancy", "faithfulness")[:: 1 if schema == "AnswerRelevanceOutput" else -1]
    assert (verdicts[mine].state, verdicts[mine].cause) == ("failed", cause)
    assert isinstance(verdicts[other], Scored)
    limits = [body["max_tokens"] for body in said.asked[schema]]
    assert len(limits) == (1 if cause == "refused" else 2)
    assert limits[-1] == limits[0] * (2 if cause == "truncated" else 1)


@pytest.mark.parametrize("schema", SAID)
async def test_row_2_a_length_stop_is_mended_by_a_larger_limit(puppet, connect, schema):
    puppet(**honest())
    whole, _ = await parts(connect())
    puppet(**honest(**{schema: [says(SAID[schema][:-3], "length"), SAID[schema]]}))
    assert await parts(connect()) != whole
    mended, _ = await parts(connect())
    assert mended == whole


# --- row 3: nothing claimed -------------------------------------------------------------------------------------

SILENT = {
    "I don't know.": "abstained",
    "I'm sorry, but the passages do not mention it.": "abstained",
    "Das weiß ich leider nicht.": "abstained",
    "Je ne sais pas.": "abstained",
    "No lo sé.": "abstained",
    "Mi dispiace. Non lo so.": "abstained",
    "Não sei.": "abstained",
    "Dat weet ik niet.": "abstained",
    "Nie wiem.": "abstained",
    "К сожалению, у меня нет информации об этом.": "abstained",
    "我不知道。": "abstained",
    "わかりません。": "abstained",
    "لا أعرف.": "abstained",
    "Hello!": "no_claims",
    "Hello, how can I help you today?": "no_claims",
    "Thanks! Let me know if you need anything else.": "no_claims",
    "Which mill do you mean?": "no_claims",
    "你好！": "no_claims",
    "[]": "no_claims",
    "{}": "no_claims",
    "?!…": "no_claims",
    "🙂👍🏽": "no_claims",
    "---": "no_claims",
    "\u200b": "no_claims",
}


@pytest.mark.parametrize("model", ["silent", "talkative"])
@pytest.mark.parametrize(("answer", "cause"), SILENT.items())
async def test_row_3_an_answer_without_claims_has_no_faithfulness(puppet, connect, answer, cause, model):
    """Whatever the model makes of it."""
    claims = [] if model == "silent" else ["The speaker speaks."]
    said = puppet(
        **honest(StatementGeneratorOutput=statements(*claims), NLIStatementOutput=nli(*((c, 1) for c in claims)))
    )
    verdicts, _ = await parts(connect(), answer)
    verdict = verdicts["faithfulness"]
    assert isinstance(verdict, NotApplicable)
    assert verdict.cause == cause
    assert not said.asked["NLIStatementOutput"]


@pytest.mark.parametrize("answer", ["Yes.", "No.", "Both."])
async def test_row_3_an_answer_that_claims_something_with_its_question_is_asked_about(puppet, connect, answer):
    puppet(**honest(StatementGeneratorOutput=statements(C), NLIStatementOutput=nli((C, 0))))
    verdicts, _ = await parts(connect(), answer)
    assert verdicts["faithfulness"].score == 0


async def test_row_3_where_the_rules_see_a_claim_and_the_model_does_not_it_is_flagged(puppet, connect):
    puppet(**honest(StatementGeneratorOutput=statements()))
    verdicts, _ = await parts(connect(), "Please ask your doctor about it.", settings=FAITHFUL)
    assert (verdicts["faithfulness"].cause, verdicts["faithfulness"].flags) == ("no_claims", ("claims_disputed",))


# --- row 4: nothing retrieved -----------------------------------------------------------------------------------


@pytest.mark.parametrize("passages", [(), ("",), (" \n", "…", "🙂", "\u200b")])
@pytest.mark.parametrize(
    ("empty_context", "answer", "expected"),
    [
        ("not_applicable", A, "no_passages"),
        ("unsupported", A, 0),
        ("unsupported", "I don't know.", "abstained"),
        ("unsupported", "Hello!", "no_claims"),
        ("unsupported", "[]", "no_claims"),
    ],
)
async def test_row_4_without_passages_no_model_is_asked(puppet, connect, passages, empty_context, answer, expected):
    said = puppet(**honest())
    settings = {"faithfulness": {"empty_context": empty_context}}
    verdicts, _ = await parts(connect(), answer, passages, settings)
    verdict = verdicts["faithfulness"]
    assert expected == (verdict.score if isinstance(verdict, Scored) else verdict.cause)
    assert not said.asked


async def test_row_4_blank_ones_among_good_ones_are_left_out_and_counted(puppet, connect):
    said = puppet(**honest())
    verdicts, evidence = await parts(connect(), passages=("", FIRE, " … ", REBUILT), settings=FAITHFUL)
    assert verdicts["faithfulness"].score == 1
    assert data_of(said.asked["NLIStatementOutput"][0])["passages"] == [FIRE, REBUILT]
    assert evidence["faithfulness"]["blank"] == 2
    owner = evidence["faithfulness"]["claims"][1]["support"]
    assert (owner["passage"], owner["id"]) == (1, "p1")  # as in the request, where the blank one is p0
    assert FIRE[owner["start"] : owner["end"]] == "The owner was Karla Aldersey"


async def test_row_4_source_documents_stand_in_and_are_named(puppet, connect):
    puppet(**honest())
    verdicts, evidence = await parts(
        connect(), passages=(" ",), settings=FAITHFUL, source_documents=[Document(text=FIRE + " " + REBUILT, id="d")]
    )
    assert (
        verdicts["faithfulness"].method.parameters["context"]
        == evidence["faithfulness"]["context"]
        == "source_documents"
    )


# --- row 5: one bad evaluation ----------------------------------------------------------------------------------


async def test_row_5_one_bad_evaluation_never_harms_another(puppet, connect):
    def say(body: dict[str, Any]) -> Any:
        if C in json.dumps(data_of(body)):
            return says("", refusal="I cannot help with that.") if "passages" in data_of(body) else "prose"
        schema = body["response_format"]["json_schema"]["name"]
        return honest()[schema]

    puppet(**dict.fromkeys(SAID, say))
    client = connect(call_limit_s=1.0)
    judge = GroundingJudge(client)
    alone = (await judged(judge, case())).verdicts
    cases = [case(C) if n % 3 == 1 else case() for n in range(12)]
    made = await asyncio.gather(*(judged(judge, c) for c in cases))
    for n, judgement in enumerate(made):
        if n % 3 == 1:
            assert all(isinstance(verdict, Failed) for verdict in judgement.verdicts)
        else:
            assert judgement.verdicts == alone
    assert client.stats.in_flight == 0


# --- row 6: relevancy -------------------------------------------------------------------------------------------


@dataclass
class Relevancy:
    """`vector`: of the question, where the query's is [1, 0]. `expected`: the score, or the cause why there is none."""

    expected: Any
    answer: str = A
    vector: tuple[float, ...] = (3, 4)
    noncommittal: int = 0
    claims: tuple[str, ...] = (A,)
    raw: float | None = None
    flags: tuple[str, ...] = ()
    library: float | None = None


RELEVANCIES = {
    "a cosine": Relevancy(0.6),
    "the same question": Relevancy(1.0, vector=(2, 0)),
    "a negative cosine is clamped, the raw one kept": Relevancy(0.0, vector=(-3, 4), raw=-0.6, library=-0.6),
    "opposite": Relevancy(0.0, vector=(-1, 0), raw=-1.0, library=-1.0),
    "noncommittal with claims": Relevancy(0.6, noncommittal=1, flags=("noncommittal_with_claims",), library=0.0),
    "noncommittal without claims": Relevancy("noncommittal", "It depends.", noncommittal=1, claims=()),
    "noncommittal, and the model finds no claim": Relevancy("noncommittal", "Ask a local.", noncommittal=1, claims=()),
    "abstained": Relevancy("abstained", "I don't know."),
    "abstained in Chinese": Relevancy("abstained", "我不知道。"),
    "a word is missing": Relevancy("no_claims", "🙂"),
    "a vector of zeros": Relevancy("bad_embedding", vector=(0, 0)),
    "NaN": Relevancy("bad_embedding", vector=(math.nan, 1)),
    "infinity": Relevancy("bad_embedding", vector=(math.inf, 1)),
    "another length": Relevancy("bad_embedding", vector=(1, 2, 3)),
}


@pytest.mark.parametrize("row", RELEVANCIES.values(), ids=RELEVANCIES.keys())
async def test_row_6_relevancy_is_a_cosine_or_says_why_not(puppet, connect, row):
    puppet(
        vectors={"When?": list(row.vector)},
        **honest(
            StatementGeneratorOutput=statements(*row.claims),
            NLIStatementOutput=nli(*((claim, 1) for claim in row.claims)),
            AnswerRelevanceOutput=question(noncommittal=row.noncommittal),
        ),
    )
    verdicts, evidence = await parts(connect(), row.answer)
    verdict = verdicts["answer_relevancy"]
    if isinstance(row.expected, str):
        assert verdict.cause == row.expected
        return
    assert float(verdict.score) == pytest.approx(row.expected, abs=1e-6)
    assert verdict.raw == (None if row.raw is None else pytest.approx(row.raw))
    assert verdict.flags == row.flags
    if row.library is not None:
        assert evidence["answer_relevancy"]["library_value"] == pytest.approx(row.library)


async def test_row_6_an_abstaining_answer_is_abstained_in_both_parts(client):
    verdicts, _ = await parts(client, "I don't know.")
    assert [(verdict.state, verdict.cause) for verdict in verdicts.values()] == [("not_applicable", "abstained")] * 2


async def test_row_6_strictness_is_the_library_s_and_in_the_method(puppet, connect):
    puppet(
        vectors={"one?": [1, 0], "two?": [0, 1], "three?": [3, 4]},
        **honest(AnswerRelevanceOutput=[question("one?"), question("two?", 1), question("three?")]),
    )
    verdicts, evidence = await parts(connect(), settings={"answer_relevancy": {"strictness": 3}})
    assert float(verdicts["answer_relevancy"].score) == pytest.approx(1.6 / 3, abs=1e-6)
    assert evidence["answer_relevancy"]["library_value"] == pytest.approx(1.6 / 3)
    assert verdicts["answer_relevancy"].method.parameters["strictness"] == 3


# --- row 9: order and concurrency -------------------------------------------------------------------------------


async def test_row_9_the_same_input_gives_the_same_whatever_runs_beside_it(client):
    judge = GroundingJudge(client)
    answers = [f"{A} {B}", C, "I don't know.", f"{A} {C}", " ".join([A, B, C] * 30)]
    alone = {answer: await judged(judge, case(answer)) for answer in answers}
    mixed = [answer for n in range(4) for answer in (answers if n % 2 else reversed(answers))]
    assert await asyncio.gather(*(judged(judge, case(answer)) for answer in mixed)) == [alone[a] for a in mixed]


async def test_row_9_a_second_run_asks_nothing_and_gives_the_same_bytes(client):
    cache = Cache()
    settings = {"faithfulness": {"repeats": 2}, "answer_relevancy": {"strictness": 2, "repeats": 2}}
    answer = " ".join([A, B, C] * 30)
    first = await judged(GroundingJudge(client), case(answer, settings=settings, cache=cache))
    calls = client.stats.calls
    assert await judged(GroundingJudge(client), case(answer, settings=settings, cache=cache)) == first
    assert client.stats.calls == calls


# --- row 14: answers out of all proportion ----------------------------------------------------------------------

CODE = "def mill(grain):\n    if grain == 'rye':\n        return grind(grain, stones=2)\n    raise ValueError(grain)\n"
TABLE = "| mill | rebuilt | owner |\n|---|---|---|\n| Tornby | 1913 | Karla Aldersey |\n| Nordby | 1922 | Ole Lind |\n"
RTL = "\u2067المطحنة القديمة\u2069 (Tornby) أعيد بناؤها في 1913. The owner was Karla Aldersey. בעלת הטחנה היא קרלה."
PROPORTIONS = {
    # what comes out: failed(too_long) by both parts, or a score
    "1 MB": ("The old mill of Tornby was rebuilt in 1913. " * 24_000, "too_long"),
    "1 MB without a space": ("x" * 1_000_000, "too_long"),
    "one word 10,000 times": ("mill " * 10_000, "scored"),
    "30,000 characters of sentences": (" ".join(f"The mill number {n} was rebuilt." for n in range(900)), "scored"),
    "many lines": ("mill\n" * 10_000, "scored"),
    "brackets": ("{[(" * 20_000 + "mill", "scored"),
    "only code": (CODE * 20, "scored"),
    "a table": (TABLE * 20, "scored"),
    "mixed right to left": (RTL, "scored"),
}


@pytest.mark.parametrize(("answer", "expected"), PROPORTIONS.values(), ids=PROPORTIONS.keys())
async def test_row_14_an_answer_out_of_all_proportion_has_a_bound_and_a_result(client, answer, expected):
    verdicts, _ = await parts(client, answer)
    for verdict in verdicts.values():
        assert expected == (verdict.state if isinstance(verdict, Scored) else verdict.cause)


async def test_row_14_many_claims_are_asked_in_calls_that_no_model_cuts(puppet, connect):
    claims = [f"Mill number {n} was rebuilt." for n in range(400)]

    def apart(body: dict[str, Any]) -> dict[str, Any]:
        return statements(*(claim for claim in claims if claim in data_of(body)["answer"]))

    def check(body: dict[str, Any]) -> dict[str, Any]:
        return nli(*((claim, int(claim[12] != "9")) for claim in data_of(body)["statements"]))

    said = puppet(**honest(StatementGeneratorOutput=apart, NLIStatementOutput=check))
    verdicts, evidence = await parts(connect(), " ".join(claims), settings=FAITHFUL)
    assert [claim["text"] for claim in evidence["faithfulness"]["claims"]] == claims
    assert float(verdicts["faithfulness"].score) == pytest.approx(1 - 11 / 400)
    assert max(len(data_of(body)["statements"]) for body in said.asked["NLIStatementOutput"]) <= 30
    assert max(len(data_of(body)["answer"]) for body in said.asked["StatementGeneratorOutput"]) <= 6_000
    assert max(body["max_tokens"] for asked in said.asked.values() for body in asked if "messages" in body) <= 4_096
