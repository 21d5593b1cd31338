"""Terminology: sacrebleu's and rouge-score's figures on our words, and the aligned windows."""

import json
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from glassbox.contract.request import Document, JudgeInput, Passage
from glassbox.contract.verdict import NotApplicable, Scored
from judges.port import Case
from judges.terminology import Comparison, TerminologyJudge, judge_wording

tokens = st.lists(st.sampled_from("abcde"), min_size=1, max_size=30)

FERRY = (
    "The harbour ferry crosses between Harbour Square and Gull Point every 20 minutes. The crossing takes 12.5 "
    "minutes. In winds above 70 km/h the ferry is replaced by bus line 38, which runs over the Lock Bridge."
)
LOST = (
    "Objects found in vehicles are taken to the Lost Property Office, open from Monday to Friday. Lost property is "
    "kept for 60 days; afterwards it is given to charity. A handling fee of €4 isn't refunded."
)


def judged(answer, *passages, reference="aligned", documents=None):
    given = JudgeInput(
        answer=answer,
        retrieved_passages=[Passage(text=text) for text in passages],
        source_documents=documents and [Document(id=f"doc-{n}", text=text) for n, text in enumerate(documents)],
    )
    judgement = judge_wording(given, reference)
    json.dumps(judgement.evidence, allow_nan=False)
    [verdict] = judgement.verdicts
    assert verdict.part == "terminology"
    assert verdict.method is not None
    assert verdict.method.family == "rules"
    return verdict, judgement.evidence


def compare(answer, references):
    comparison = Comparison(answer, references)
    return comparison.figures(comparison.sources)


class _GivenTokens:
    def tokenize(self, text):
        return text.split()


@pytest.fixture(scope="module")
def rouge_score():
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    return scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=_GivenTokens())


@given(answer=tokens, references=st.lists(tokens, min_size=1, max_size=4))
def test_figures_are_sacrebleu_and_rouge_score_to_the_last_bit(rouge_score, answer, references):
    figures = compare(answer, references)
    texts = [" ".join(reference) for reference in references]
    for order, value in enumerate(figures.bleu, 1):
        expected = BLEU(tokenize="none", effective_order=True, max_ngram_order=order).sentence_score(
            " ".join(answer), texts
        )
        assert (value is None) == (len(answer) < order)
        if value is not None:
            assert value == min(expected.score / 100, 1.0)
    expected = rouge_score.score_multi(texts, " ".join(answer))
    assert tuple(figures.rouge_1) == tuple(expected["rouge1"])
    assert tuple(figures.rouge_2) == tuple(expected["rouge2"])
    assert tuple(figures.rouge_l) == tuple(expected["rougeL"])


@given(answer=tokens, references=st.lists(tokens, min_size=1, max_size=4))
def test_every_figure_is_a_share(answer, references):
    figures = compare(answer, references)
    shares = [figures.score, figures.bleu_score, *figures.rouge_1, *figures.rouge_2, *figures.rouge_l]
    assert all(0 <= share <= 1 for share in shares)


sentence = st.lists(
    st.sampled_from(
        [
            "the",
            "ferry",
            "Dr.",
            "3.5",
            "crosses",
            "„Harbour“",
            "U.S.",
            "at",
            "20",
            "minutes,",
            "e.g.",
            "and",
            "isn't",
            "l'eau",
            "no.",
            "7",
            "Москва",
        ]
    ),
    min_size=1,
    max_size=9,
).map(lambda chosen: " ".join(chosen).capitalize() + ".")


@given(passages=st.lists(st.lists(sentence, min_size=1, max_size=6), min_size=1, max_size=3), data=st.data())
def test_a_run_of_whole_sentences_scores_one(passages, data):
    run = data.draw(st.sampled_from(passages))
    first = data.draw(st.integers(0, len(run) - 1))
    last = data.draw(st.integers(first, len(run) - 1))
    verdict, evidence = judged(" ".join(run[first : last + 1]), *(" ".join(passage) for passage in passages))
    assert isinstance(verdict, Scored)
    assert verdict.score == 1
    assert all(window["verbatim"] for window in evidence["windows"])


@pytest.mark.parametrize("mark", ["[1]", " [2, 3]", " [1–3]", "【1】", "\N{SUPERSCRIPT ONE}"])
def test_citations_are_no_words_of_answer_or_source(mark):
    sentence = "The harbour ferry crosses between Harbour Square and Gull Point every 20 minutes"
    assert judged(f"{sentence}{mark}.", FERRY)[0].score == 1
    assert judged(f"{sentence}.", FERRY.replace("minutes.", f"minutes{mark}.", 1))[0].score == 1


def test_windows_name_their_source_and_both_spans():
    answer = "Lost property is kept for 60 days. The crossing takes 12.5 minutes."
    verdict, evidence = judged(answer, FERRY, LOST)
    assert verdict.score == 1
    texts = {"0": FERRY, "1": LOST}
    for window, expected in zip(
        evidence["windows"], ["Lost property is kept for 60 days", "The crossing takes 12.5 minutes"], strict=True
    ):
        start, end = window["answer_span"]
        assert answer[start:end] == expected
        start, end = window["source_span"]
        assert texts[window["source"]][start:end] == expected


def test_aligned_windows_see_what_whole_sources_cannot():
    answer = "The crossing takes 12.5 minutes. Lost property is kept for 60 days."
    aligned, evidence = judged(answer, FERRY, LOST)
    whole, _ = judged(answer, FERRY, LOST, reference="whole_sources")
    assert aligned.score == 1
    assert whole.score < Decimal("0.5")
    assert whole.score == round(Decimal(evidence["whole_sources"]["score"]), 6)
    assert aligned.method.digest() != whole.method.digest()


def test_paraphrase_lies_between_a_copy_and_another_subject():
    copy, _ = judged("The harbour ferry crosses between Harbour Square and Gull Point every 20 minutes.", FERRY)
    near, _ = judged("The ferry goes from Harbour Square to Gull Point every 20 minutes.", FERRY)
    other, _ = judged("Photosynthesis turns light into chemical energy inside green leaves.", FERRY)
    assert copy.score > near.score > Decimal("0.2") > other.score


def test_documents_go_before_passages_and_the_evidence_says_so():
    verdict, evidence = judged("The crossing takes 12.5 minutes.", LOST, documents=["", FERRY])
    assert verdict.score == 1
    assert evidence["sources"] == {"origin": "source_documents", "ids": ["doc-1"], "blank": 1}
    _, evidence = judged("The crossing takes 12.5 minutes.", FERRY, documents=[" "])
    assert evidence["sources"]["origin"] == "retrieved_passages"


@pytest.mark.parametrize(
    ("answer", "passages", "cause"),
    [
        ("Some answer.", [], "no_sources"),
        ("Some answer.", ["", " \u200b ", "…"], "no_sources"),
        ("🙂 … !!", [FERRY], "too_short"),
        ("I'm sorry, I cannot find this in the documents.", [FERRY], "abstained"),
        ("Паром ходит каждые двадцать минут.", [FERRY], "other_script"),
        ("Die Fähre fährt nicht und wird dann von einem Bus ersetzt.", [FERRY], "other_language"),
    ],
)
def test_what_cannot_be_told_is_not_applicable(answer, passages, cause):
    verdict, _ = judged(answer, *passages)
    assert isinstance(verdict, NotApplicable)
    assert verdict.cause == cause


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("Paris France", "Paris France"),
        ("Москва столица", "Москва столица"),
        ("我喜欢吃苹果。", "我喜欢吃苹果。"),
        ("ฉันชอบกินข้าว", "ฉันชอบกินข้าว"),
        ("أحب القهوة كثيرا", "أحب القهوة كثيرا"),
        ("मुझे हिन्दी पसंद है।", "मुझे हिन्दी पसंद है।"),
        ("Caf\u00e9 ol\u00e9", "Cafe\u0301 OLE\u0301"),
    ],
)
def test_identical_wording_is_one_in_any_script(answer, source):
    verdict, _ = judged(answer, source)
    assert verdict.score == 1


def test_orders_that_a_short_answer_lacks_are_null():
    _, evidence = judged("Paris France", "Paris France")
    assert evidence["aligned"]["bleu"] == {"1": 1.0, "2": 1.0, "3": None, "4": None}
    assert evidence["aligned"]["bleu_score"] == 1.0


def test_letters_decimals_and_negation_survive():
    assert judged("caf", "café")[0].score == 0
    assert judged("5.1", "5 1")[0].score == 0
    assert judged("It isn't refunded", "It is refunded")[0].score < 1
    assert judged("我喜欢吃苹果。", "我爱吃苹果。")[0].score > Decimal("0.3")


async def test_judge_answers_exactly_the_enabled_part():
    judge = TerminologyJudge()
    given = JudgeInput(answer="The crossing takes 12.5 minutes.", retrieved_passages=[Passage(text=FERRY)])
    settings = {"terminology": {"reference": "whole_sources"}}
    judgement = await judge.judge(Case("id", given, settings, time.monotonic() + 60))
    assert [verdict.method.name for verdict in judgement.verdicts] == ["glassbox.terminology@whole_sources"]
    assert (await judge.judge(Case("id", given, {}, time.monotonic() + 60))).verdicts == ()
    await judge.close()
