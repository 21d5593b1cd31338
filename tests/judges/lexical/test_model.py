import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.lexical import model
from judges.lexical.model import embed, question_back, relevance, support
from judges.lexical.statements import statements
from judges.text import sentences

PASSAGE = (
    "The Wend Viaduct was built by Josiah Pell between 1862 and 1864 for £18,400. It has nine arches of local"
    " sandstone and stands 34 metres above the river. Freight trains may not cross it before dawn."
)


@pytest.mark.parametrize(
    ("statement", "verdict", "why"),
    [
        ("It has nine arches of local sandstone", "covered", "1.00"),
        ("It has 9 arches of local sandstone", "covered", "1.00"),
        ("Josiah Pell built the Wend Viaduct for £18400.00", "covered", "1.00"),
        ("It has seven arches of local sandstone", "unsupported", "number absent: 7"),
        ("It was built for £18,900 by Josiah Pell", "unsupported", "number absent: 18900"),
        ("The Wend Viaduct was built by Edmund Harcastle", "unsupported", "name absent: edmund"),
        ("It was not built of local sandstone", "unsupported", "negated on one side only: buil"),
        ("Trains may cross it above the river", "unsupported", "negated on one side only: cross"),
        ("Freight trains can't cross it before dawn", "covered", "1.00"),
        ("Nobody likes arches of local sandstone", "undecided", "novel"),
        ("It stands 34 metres above a deep quiet gorge river", "unsupported", "3 novel content words in a row"),
        ("Nine arches of local stone blocks", "unsupported", "0.60 of the content words, 2 novel in a row"),
        ("Coffee grows on tall mountains", "unsupported", "4 novel content words in a row"),
        ("It stands 34 metres above the wide river", "undecided", "0.83"),
        ("!!!", "unsupported", "no words"),
    ],
)
def test_support_of_a_statement(statement, verdict, why):
    found = support(statement, [PASSAGE])
    assert (found.verdict, found.passage) == (verdict, 0)
    assert found.reason.startswith(f"lexical:{verdict} ")
    assert why in found.reason


@pytest.mark.parametrize(
    ("statement", "passage", "verdict"),
    [
        ("Hunde müssen nicht angeleint sein.", "Hunde müssen angeleint sein, und zwar immer.", "unsupported"),
        ("Hunde müssen angeleint sein.", "Hunde müssen nicht angeleint sein.", "unsupported"),
        ("Les chiens ne sont pas admis.", "Les chiens sont admis dans le parc.", "unsupported"),
        ("Los perros nunca viajan gratis.", "Los perros viajan gratis en el tren.", "unsupported"),
        ("Der Preis beträgt 1,40 Euro.", "Für Hunde beträgt der Preis 1.40 Euro.", "covered"),
        ("Die Stadt liegt am Fluss.", "Eine kleine Stadt liegt am großen Fluss, und sie ist alt.", "covered"),
        ("Цена билета 5 евро.", "Цена билета 7 евро.", "unsupported"),
        ("塔は1889年に建てられた。", "塔は1889年に建てられた。高い。", "covered"),
        ("Doses are 5.10 mg.", "All doses are 5.1 mg.", "covered"),
        ("It opened on June 7th.", "It opened on 7 June.", "covered"),
    ],
)
def test_support_in_other_languages_and_spellings(statement, passage, verdict):
    assert support(statement, [passage]).verdict == verdict


NEGATED = {
    "zh": ("诊所治疗儿童。", "诊所不治疗儿童。"),
    "zh, not yet": ("诊所治疗儿童。", "诊所没有治疗儿童。"),
    "ja": ("診療所は子供を治療します。", "診療所は子供を治療しません。"),
    "ja, plain": ("診療所は子供を治療する。", "診療所は子供を治療しない。"),
    "ja, past": ("診療所は子供を治療した。", "診療所は子供を治療しなかった。"),
    "ru": ("Клиника лечит детей.", "Клиника не лечит детей."),
    "ru, never": ("Клиника лечила детей.", "Клиника никогда не лечила детей."),
    "ar": ("تعالج العيادة الأطفال.", "لا تعالج العيادة الأطفال."),
    "it": ("La clinica cura i bambini.", "La clinica non cura i bambini."),
    "pt": ("A clínica trata crianças.", "A clínica não trata crianças."),
    "pt, never": ("A clínica trata crianças.", "A clínica nunca trata crianças."),
    "nl": ("De kliniek behandelt kinderen.", "De kliniek behandelt geen kinderen."),
    "nl, not": ("De kliniek behandelt kinderen.", "De kliniek behandelt kinderen niet."),
    "de, at the end": ("Die Klinik behandelt Kinder.", "Die Klinik behandelt Kinder nicht."),
    "pl": ("Klinika leczy dzieci.", "Klinika nie leczy dzieci."),
    "fr": ("La clinique traite les enfants.", "La clinique ne traite pas les enfants."),
    "es": ("La clínica trata a niños.", "La clínica no trata a niños."),
}


@pytest.mark.parametrize(("plain", "negated"), NEGATED.values(), ids=NEGATED.keys())
def test_a_negation_on_one_side_only_supports_nothing(plain, negated):
    assert support(plain, [negated]).verdict == "unsupported"
    assert support(negated, [plain]).verdict == "unsupported"
    assert support(plain, [plain]).verdict == support(negated, [negated]).verdict == "covered"


@pytest.mark.parametrize(
    ("statement", "passage"),
    [
        ("诊所治疗儿童。", "诊所非常好，治疗儿童。"),
        ("Il est né en mai 1950.", "Roger Quill est né en mai 1950 dans une petite ville."),
        ("Sie wurde im Mai 1950 gegründet.", "Die Klinik wurde im Mai 1950 gegründet."),
    ],
)
def test_what_only_looks_like_a_negation_is_none(statement, passage):
    assert support(statement, [passage]).verdict != "unsupported"


def test_one_passage_alone_must_support_a_statement():
    halves = ["The viaduct has nine arches.", "It was made of local sandstone by hand."]
    assert support("The viaduct has nine arches made of local sandstone by hand", halves).verdict == "unsupported"
    assert support("It was made of local sandstone by hand", halves).passage == 1


def test_words_scattered_over_a_long_passage_do_not_add_up():
    scattered = ("viaduct " + "filler " * 40) + ("arches " + "filler " * 40) + "sandstone river"
    assert support("The viaduct arches cross sandstone river banks", [scattered]).verdict == "unsupported"


def test_without_passages_nothing_is_supported():
    assert support("It has nine arches", []) == model.Support(
        "unsupported", "lexical:unsupported no passage was given", None
    )


def test_a_citation_mark_is_not_a_number_of_the_answer():
    for mark in ("[3]", "[2, 3]", "[1-3]", "【3】"):
        assert support(f"It has nine arches of local sandstone {mark}.", [PASSAGE]).verdict == "covered"


LISTED = (
    "the a is was not never no isn't and but or 5 1,200 three Paris Marie Curie Dr Dr. U.S. e.g. he it you I built"
    ' has river rivers tower opened großen nicht café Москва 東京 です yes no, well; ( ) "it" [1] 3.5 2. - drive'
    " driven before may"
)
WORDS = st.sampled_from(LISTED.split())
SENTENCE = st.tuples(
    st.lists(WORDS, min_size=1, max_size=14), st.sampled_from([". ", "! ", ".\n", "\n- ", "。", "... "])
)
PASSAGES = st.lists(SENTENCE, min_size=1, max_size=12).map(
    lambda made: "".join(" ".join(listed) + stop for listed, stop in made)
)


@settings(max_examples=300, deadline=None)
@given(st.data(), PASSAGES | st.text(max_size=200))
def test_whole_sentences_of_a_passage_are_covered(data, passage):
    spans = sentences(passage)
    if not spans:
        return
    first = data.draw(st.integers(0, len(spans) - 1))
    last = data.draw(st.integers(first, len(spans) - 1))
    answer = passage[spans[first].start : spans[last].end]
    for statement in statements(answer):
        assert support(statement, ["Some other text.", passage]).verdict == "covered", statement


@given(st.text(), st.lists(st.text(), max_size=3))
def test_support_is_total_and_deterministic(statement, passages):
    once = support(statement, passages)
    assert once == support(statement, passages)
    assert once.reason.startswith(f"lexical:{once.verdict} ")


def test_relevance_weighs_rare_words_more():
    passages = [
        "The night lines run on weekends, and a supplement is charged.",
        "The day lines run on weekdays.",
        "Bicycles may be carried on the day lines.",
    ]
    found = relevance("Which supplement is charged on night lines?", passages)
    assert [r.relevant for r in found] == [True, False, False]
    assert found[0].reason == "lexical: 1.00 of the query's weighted content words"


def test_relevance_threshold_is_on_weighted_coverage():
    # Two of three equally rare words, 0.59: the third, which no passage has, weighs more than either.
    assert [r.relevant for r in relevance("zebra lion tiger", ["zebra lion", "other"])] == [False] * 2
    assert relevance("zebra lion tiger", ["zebra lion tiger"])[0].relevant


def test_relevance_against_a_reference_answer():
    found = relevance(
        "Who built it?",
        ["The Wend Viaduct was built by Josiah Pell.", "Who built it? Nobody knows."],
        "Josiah Pell built the Wend Viaduct.",
    )
    assert [r.relevant for r in found] == [True, False]
    short = relevance("Who built the viaduct?", ["Pell built the viaduct."], "Pell")
    assert short[0].reason.endswith("of the query's weighted content words")


def test_relevance_of_nothing():
    assert relevance("Which supplement?", []) == []
    assert relevance("?", ["text"])[0].relevant is False


@pytest.mark.parametrize(
    ("answer", "question"),
    [
        ("The tower is tall, and the towers of Paris are taller.", "What about tower tall Paris taller?"),
        ("One two three four five six seven eight.", "What about two three four five six seven?"),
        ("It is.", "What about It is?"),
        ("Die Hauptstadt ist nicht Bonn, sie ist Berlin.", "What about Hauptstadt Bonn Berlin?"),
        ("?!", ""),
    ],
)
def test_question_back(answer, question):
    assert question_back(answer) == question


@given(st.text())
def test_embedding_is_a_unit_vector(text):
    vector = embed(text)
    assert len(vector) == model.DIMENSIONS
    assert math.isclose(math.fsum(x * x for x in vector), 1.0)
    assert vector == embed(text)


def test_embedding_of_nothing_and_of_function_words():
    assert embed("")[0] == 1.0
    assert embed("It is.") != embed("")
    assert embed("the tower") == embed("Towers!")


def test_two_words_that_cancel_still_make_a_vector():
    seen: dict[tuple[int, float], str] = {}
    for word in (f"w{n}x" for n in range(20_000)):
        axis, sign = model._axis(word)
        if opposite := seen.get((axis, -sign)):
            assert embed(f"{word} {opposite}")[0] == 1.0
            return
        seen[axis, sign] = word
    pytest.fail("no two words share an axis")


def balanced_accuracy(predicted: list[bool], truth: list[bool]) -> float:
    of = {label: [p == label for p, t in zip(predicted, truth, strict=True) if t == label] for label in (True, False)}
    return sum(sum(hits) / len(hits) for hits in of.values()) / 2


def test_agreement_with_people_on_begin():
    """The issue's criterion: no worse than plain content coverage on knowledge-grounded dialogue answers."""
    beside = Path(__file__).parents[3] / "../shared/data/begin-dev.jsonl"
    path = Path(os.environ.get("GLASSBOX_BEGIN_DATA", beside))
    if not path.is_file():
        pytest.skip("Set GLASSBOX_BEGIN_DATA to begin-dev.jsonl (BEGIN, CC BY 4.0) to check agreement with people.")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    truth = [row["label"]["supported"] for row in rows]
    verdicts = [[support(s, row["retrieved_passages"]).verdict for s in statements(row["answer"])] for row in rows]
    supported = balanced_accuracy([all(v != "unsupported" for v in found) for found in verdicts], truth)
    covered = balanced_accuracy([all(v == "covered" for v in found) for found in verdicts], truth)
    assert supported >= 0.86
    assert covered >= 0.80
