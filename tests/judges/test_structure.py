"""The structure judge: entities and pairs of an answer against its sources."""

import json
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.contract.request import Document, JudgeInput, Passage
from glassbox.contract.verdict import NotApplicable, Scored
from judges.port import Case
from judges.structure import PAIR_LIMIT, StructureJudge

BOTH = {"entities": {}, "relations": {}}

ENGINES = (
    "Two tank engines worked the line from its first years. The tank engine Heron was built by Dunmore Works in 1863 "
    "and had six coupled wheels. The tank engine Curlew was built by Fenwick Brothers in 1865."
)
VIADUCT = (
    "Josiah Pell built the Wend Viaduct between 1862 and 1864 for £18,400. It stands 34 metres above the river. It "
    "was reopened on 6 April 1974, see https://wend.example/history or write to info@wend.example."
)


async def judged(answer, *passages, query="Who built it?", documents=None, settings=BOTH):
    case = JudgeInput(
        query=query,
        answer=answer,
        retrieved_passages=[Passage(text=text) for text in passages],
        source_documents=documents and [Document(text=text) for text in documents],
    )
    judge = StructureJudge()
    judgement = await judge.judge(Case("id", case, settings, time.monotonic() + 60))
    await judge.close()
    json.dumps(judgement.evidence, allow_nan=False)
    assert [verdict.part for verdict in judgement.verdicts] == list(settings)
    assert all(verdict.method.family == "rules" for verdict in judgement.verdicts)
    return {verdict.part: verdict for verdict in judgement.verdicts}, judgement.evidence


def status(evidence):
    return {row["text"]: row["status"] for row in evidence["entities"]["found"]}


async def test_everything_found_scores_one_and_says_where():
    answer = "The Wend Viaduct was built by Josiah Pell for £18,400."
    verdicts, evidence = await judged(answer, ENGINES, VIADUCT)
    assert verdicts["entities"].score == verdicts["relations"].score == 1
    for row in evidence["entities"]["found"]:
        [[start, end]] = row["spans"]
        assert answer[start:end] == row["text"]
        start, end = row["where"]["span"]
        assert row["where"]["source"] == "1"
        assert VIADUCT[start:end] == row["text"]
    for pair in evidence["relations"]["pairs"]:
        assert pair["match"] == "cooccurrence"
        assert answer[slice(*pair["clause"])].startswith("The Wend Viaduct")


async def test_invented_entity_and_changed_number_are_novel_and_name_the_nearest():
    verdicts, evidence = await judged("Josiah Pell and Calder Engineering built it for £19,400.", VIADUCT)
    assert verdicts["entities"].score == round(Decimal(1) / 3, 6)
    rows = {row["text"]: row for row in evidence["entities"]["found"]}
    assert rows["Calder Engineering"]["status"] == rows["£19,400"]["status"] == "novel"
    assert rows["£19,400"]["nearest"] == "£18,400"
    assert {pair["status"] for pair in evidence["relations"]["pairs"]} == {"novel_entity"}
    assert verdicts["relations"].score == 0


MARKED = ["{} [1].", "{}. [1]", "{} [1, 2].", "{} [1-3].", "{}【1】.", "{}.【4:0†source】", "{}.\N{SUPERSCRIPT ONE}"]


@pytest.mark.parametrize("form", MARKED)
async def test_a_citation_is_neither_a_number_nor_in_a_pair(form):
    said = "The Wend Viaduct was built by Josiah Pell between 1862 and 1864"
    plain, _ = await judged(f"{said}.", VIADUCT)
    verdicts, evidence = await judged(form.format(said), VIADUCT)
    assert set(status(evidence)) == {"Wend Viaduct", "Josiah Pell", "1862", "1864"}
    assert {part: verdict.score for part, verdict in verdicts.items()} == {
        part: verdict.score for part, verdict in plain.items()
    }


async def test_a_citation_joins_no_names_and_no_places_are_shifted():
    answer = "By Josiah Pell [2] Northgate Works¹ built the Wend Viaduct [1971] in 1862."
    _, evidence = await judged(answer, VIADUCT)
    assert status(evidence) == {
        "Josiah Pell": "supported",
        "Northgate Works": "novel",
        "Wend Viaduct": "supported",
        "1971": "novel",
        "1862": "supported",
    }
    assert all(answer[slice(*row["spans"][0])] == row["text"] for row in evidence["entities"]["found"])


async def test_a_pair_from_two_sentences_is_not_supported():
    right, _ = await judged("The tank engine Heron was built by Dunmore Works.", ENGINES)
    wrong, evidence = await judged("The tank engine Heron was built by Fenwick Brothers.", ENGINES)
    assert right["relations"].score == right["entities"].score == wrong["entities"].score == 1
    assert wrong["relations"].score == 0
    assert [pair["status"] for pair in evidence["relations"]["pairs"]] == ["unsupported"]


async def test_swapped_roles_lower_relations_alone():
    source = "Ann Lee has led Larkbase since 2019. Bob Ray has led Quellorin since 2021."
    right, _ = await judged("Ann Lee leads Larkbase. Bob Ray leads Quellorin.", source)
    swapped, _ = await judged("Ann Lee leads Quellorin. Bob Ray leads Larkbase.", source)
    assert right["relations"].score == 1
    assert swapped["relations"].score == 0
    assert swapped["entities"].score == 1


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("It cost 1200 pounds.", "It cost 1,200 pounds."),
        ("It cost $5m.", "It cost 5 million dollars."),
        ("It opened on 2024-03-01.", "It opened on March 1, 2024."),
        ("It opened in March 2024.", "It opened on 1 March 2024."),
        ("It opened in 2024.", "It opened on 1 March 2024."),
        ("It took 90 minutes.", "It took 1.5 hours."),
        ("It moved 5 people.", "It moved five people."),
        ("It runs 5 to 7 km.", "The distance is between 5 and 7 km."),
        ("We asked the U.S. Army.", "We asked the US Army."),
        ("We asked Dr. Ada Lovelace.", "We asked Ada Lovelace's friend."),
        ("We asked Lovelace.", "We asked Ada Lovelace."),
        ("We asked the Beatles.", "We asked The Beatles."),
        ("We asked Johnson & Johnson.", "We asked Johnson and Johnson."),
        ("We saw error LB-1040.", "We saw error LB1040."),
        ("We use v2.4.1.", "We use version 2.4.1."),
        ("We like CAFÉ Bleu.", "We like Cafe\u0301 Bleu."),
        ("We saw Apple's gain.", "A gain at Apple, we hear."),
        ("Es kostet 1,40 Euro.", "It costs €1.40."),
    ],
)
async def test_equal_by_normal_form_or_value(answer, source):
    verdicts, _ = await judged(answer, source)
    assert verdicts["entities"].score == 1


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("It cost $5.", "It cost $5 million."),
        ("It cost 5 dollars.", "It cost 5 euros."),
        ("It weighs 5 kg.", "It is 5 km long."),
        ("It opened on 1 March 2024.", "It opened in March 2024."),
        ("It rose by 12%.", "It rose by 12 points."),
        ("We asked Ann.", "We asked Annabel."),
        ("We asked the US.", "They asked us."),
    ],
)
async def test_not_equal(answer, source):
    verdicts, _ = await judged(answer, source)
    assert verdicts["entities"].score == 0


async def test_a_near_miss_is_no_novel_entity_but_not_supported_either():
    verdicts, evidence = await judged("It was built by Josiah Pelle and by Ann Josiah Pell.", VIADUCT)
    assert status(evidence) == {"Josiah Pelle": "near_miss", "Ann Josiah Pell": "near_miss"}
    assert {row["nearest"] for row in evidence["entities"]["found"]} == {"Josiah Pell"}
    assert verdicts["entities"].score == 0


async def test_what_only_the_query_names_is_left_out():
    verdicts, evidence = await judged(
        "At Kestrel Bay it was built by Josiah Pell.", VIADUCT, query="Who built it at Kestrel Bay?"
    )
    assert status(evidence) == {"Kestrel Bay": "query_only", "Josiah Pell": "supported"}
    assert verdicts["entities"].score == 1
    assert isinstance(verdicts["relations"], NotApplicable)
    assert verdicts["relations"].cause == "no_pairs"


async def test_mentions_of_one_entity_count_once():
    verdicts, evidence = await judged("It was Josiah Pell. We know Josiah Pell's work and Ann Lee.", VIADUCT)
    assert verdicts["entities"].score == Decimal("0.5")
    assert [len(row["spans"]) for row in evidence["entities"]["found"]] == [2, 1]


async def test_source_coverage_is_reported():
    _, evidence = await judged("It was Josiah Pell.", "We know Josiah Pell. We know Ann Lee, who paid €5.")
    assert evidence["source_coverage"] == {"covered": 1, "total": 3}


async def test_documents_go_before_passages():
    verdicts, evidence = await judged("It was Josiah Pell.", ENGINES, documents=[VIADUCT])
    assert verdicts["entities"].score == 1
    assert evidence["sources"]["origin"] == "source_documents"


@pytest.mark.parametrize(
    ("answer", "passages", "entities", "relations"),
    [
        ("It was Josiah Pell.", [], "no_sources", "no_sources"),
        ("It was Josiah Pell.", [" ", "…"], "no_sources", "no_sources"),
        ("It was built long ago.", [VIADUCT], "no_entities", "no_pairs"),
        ("🙂 … !!", [VIADUCT], "no_entities", "no_pairs"),
        ("I cannot find Josiah Pell in the documents.", [VIADUCT], "abstained", "abstained"),
        ("Мост построил инженер Иван Петров.", [VIADUCT], "other_script", "other_script"),
        ("Die Brücke hat nicht Frau Angela Merkel gebaut, sondern die SPD.", [VIADUCT], *["other_language"] * 2),
    ],
)
async def test_what_cannot_be_told_is_not_applicable(answer, passages, entities, relations):
    verdicts, _ = await judged(answer, *passages)
    assert verdicts["entities"].cause == entities
    assert verdicts["relations"].cause == relations


async def test_no_pairs_but_entities():
    verdicts, _ = await judged("It was Josiah Pell.", VIADUCT)
    assert isinstance(verdicts["entities"], Scored)
    assert verdicts["relations"].cause == "no_pairs"


async def test_pairs_are_capped_and_it_is_said():
    names = ", ".join(f"Name{chr(65 + n // 26)}{chr(97 + n % 26)}" for n in range(60))
    verdicts, evidence = await judged(f"They are {names}.", f"They are {names}.")
    assert verdicts["relations"].score == 1
    assert verdicts["relations"].flags == ("pairs_capped",)
    assert evidence["relations"]["capped"]
    assert len(evidence["relations"]["pairs"]) == PAIR_LIMIT


@pytest.mark.parametrize("part", ["entities", "relations"])
async def test_only_the_enabled_part_is_answered(part):
    verdicts, _ = await judged("The Wend Viaduct was built by Josiah Pell.", VIADUCT, settings={part: {}})
    assert verdicts[part].score == 1


words = st.sampled_from(
    "Josiah Pell Ann Lee the U.S. Army Dr. Smith's AT&T bought sold and but of, in; on 14 May 1864 5 million dollars"
    " £18,400 12 % LB-1040 v2.4.1 l'Italie Berlin München Москва 3 pm e.g. No. 7 x@y.org 20 to 40 km".split(" ")
)
sentence = (
    st.lists(words, min_size=1, max_size=12)
    .map(lambda chosen: " ".join(chosen).rstrip(".;,") + ".")
    .filter(lambda text: not text.rstrip(".").isdecimal())  # "5." before a sentence is the mark of a list
)
passage = st.lists(sentence, min_size=1, max_size=5)


@given(passages=st.lists(passage, min_size=1, max_size=3), data=st.data())
async def test_a_run_of_whole_sentences_is_supported(passages, data):
    run = data.draw(st.sampled_from(passages))
    first = data.draw(st.integers(0, len(run) - 1))
    last = data.draw(st.integers(first, len(run) - 1))
    verdicts, evidence = await judged(" ".join(run[first : last + 1]), *(" ".join(each) for each in passages))
    for verdict in verdicts.values():
        assert isinstance(verdict, NotApplicable) or verdict.score == 1, evidence


@given(answer=st.text(max_size=200), source=st.text(max_size=200))
async def test_any_text_is_answered(answer, source):
    verdicts, _ = await judged(answer, source)
    assert set(verdicts) == {"entities", "relations"}


@pytest.mark.parametrize(
    "answer",
    [
        "".join(f"Sentence {n} is about Ferry{n % 97}a and Josiah Pell. " for n in range(2_500)),
        "Josiah Pell " * 15_000,
        " ".join(f"Aa{n}b Bb{n}c," for n in range(6_000)),
        "\u202eJosiah Pell \u05d0\u05d1\u200b " * 4_000,
    ],
    ids=["sentences", "one name", "codes", "right to left"],
)
async def test_a_long_answer_takes_seconds(answer):
    assert (await judged(answer, *[ENGINES + " " + VIADUCT] * 5))[0]
