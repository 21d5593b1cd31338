import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.lexical.statements import abstains, noncommittal, only_courtesies, statements


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The tower is tall. It opened in 1889.", ["The tower is tall.", "It opened in 1889."]),
        (
            "The tower was built in 1889 by Eiffel and it was visited by two million tourists; it is tall.",
            ["The tower was built in 1889 by Eiffel", "it was visited by two million tourists", "it is tall."],
        ),
        (
            "Backups are kept for 35 days, but the retention period can be set to 90 days.",
            ["Backups are kept for 35 days", "the retention period can be set to 90 days."],
        ),
        ("Cats and dogs are popular pets.", ["Cats and dogs are popular pets."]),
        ("The tower is red and blue.", ["The tower is red and blue."]),
        ("Hello! Was it tall? It was tall. I hope this helps!", ["It was tall."]),
        ("Yes, it opened in 1889. It is. You're welcome.", ["Yes, it opened in 1889."]),
        ("- Trams run daily\n- Buses stop at night", ["Trams run daily", "Buses stop at night"]),
        ("I don't know. The passages do not say when it opened.", []),
        ("I am not sure, but it was founded in 1920.", ["I am not sure, but it was founded in 1920."]),
        ("Paris", ["Paris"]),
        ("塔很高；它很老。你好吗？", ["塔很高", "它很老。"]),
        ("", []),
        ("!?", []),
    ],
)
def test_statements(answer, expected):
    assert statements(answer) == expected


@pytest.mark.parametrize("unit", ["the old ferry crossed and the ", "and the ", "but, ", "a; ", "I do not know, a "])
def test_one_long_sentence_is_read_in_one_pass(unit):
    text = unit * (120_000 // len(unit))
    started = time.process_time()
    statements(text)
    assert time.process_time() - started < 20  # seconds of half a one; looking at the rest at every "and" takes minutes


@given(st.text() | st.text(st.sampled_from("ab and but was; .?!\n")))
def test_statements_are_verbatim_and_in_order(answer):
    at = 0
    for statement in statements(answer):
        at = answer.index(statement, at) + len(statement)
        assert statement == statement.strip()


ABSTENTIONS = [
    "I don't know.",
    "I don’t know.",
    "I'm sorry, but I cannot answer this question from the documents I was given.",
    "Based on the provided context, I could not find the opening date.",
    "Unfortunately, there is no information about that in the context.",
    "The passages do not say when it opened.",
    "The provided context does not contain information about the price.",
    "This is not stated in the passages.",
    "I was unable to find an answer.",
    "It is unclear from the documents.",
    "Cannot be determined.",
    "No information is available.",
    "Hello! I do not know. Can I help with anything else?",
    "Ich weiß es nicht.",
    "Leider kann ich diese Frage nicht beantworten.",
    "Die Dokumente enthalten dazu keine Angaben.",
    "In den Quellen steht dazu nichts.",
    "Je ne sais pas.",
    "Les passages ne mentionnent pas la date.",
    "No lo sé.",
    "Lo siento, no tengo esa información.",
    "I do not know the date, the founder or the exact place.",
    "I do not know, I am only a language model.",
    "I cannot answer this, the passages only cover the opening hours.",
    "I don't know, the year is not stated.",
    "I cannot say, I'm afraid.",
    "Ich weiß es nicht, die Dokumente nennen nur das Jahr.",
    "Je ne sais pas, les documents n'en parlent pas.",
    "No tengo información sobre el fundador, la fecha o el lugar.",
    "Los documentos no mencionan la fecha.",
]

ANSWERS = [
    "Paris.",
    "The tower is closed.",
    "It is unknown how many stars exist.",
    "The museum does not provide parking.",
    "I am not sure, but it was founded in 1920.",
    "I cannot say for sure, Roger Quill founded it in 1950.",
    "I'm not certain: the clinic treats children under 12.",
    "I don't know – it was founded in 1950 by Roger Quill.",
    "I cannot say for sure, I think Roger Quill founded it.",
    "I'm not sure (Roger Quill founded it in 1950).",
    "I hope this helps: the clinic treats children under 12.",
    "Ich weiß es nicht, die Klinik behandelt Kinder unter 12.",
    "Ich bin nicht sicher, Roger Quill gründete sie 1950.",
    "Je ne sais pas, la clinique traite les enfants.",
    "No lo sé, la clínica trata a niños menores de 12 años.",
    "I don't know the architect. The tower opened in 1889.",
    "Not all trams stop there.",
    "Die Stadt ist nicht groß.",
    "No dogs are allowed.",
    "Hello!",
    "",
]


@pytest.mark.parametrize("answer", ABSTENTIONS)
def test_an_answer_that_declines_abstains(answer):
    assert abstains(answer)
    assert noncommittal(answer)
    assert statements(answer) == []


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_claims_does_not_abstain(answer):
    assert not abstains(answer)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It depends.", True),
        ("Maybe. I don't know.", True),
        ("It depends on the age of the passenger: children under six travel free of charge.", False),
        ("The fare is 3 euros.", False),
        ("Hello!", False),
    ],
)
def test_noncommittal(answer, expected):
    assert noncommittal(answer) is expected


@given(st.text())
def test_abstaining_answers_have_no_statements(answer):
    if abstains(answer):
        assert statements(answer) == []
        assert noncommittal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "Mi dispiace. Non lo so.",
        "Mi dispiace, ma non posso rispondere a questa domanda.",
        "Não sei.",
        "Infelizmente, não tenho informações suficientes.",
        "Dat weet ik niet.",
        "Helaas kan ik deze vraag niet beantwoorden.",
        "Nie wiem.",
        "Niestety nie mam informacji na ten temat.",
        "Не знаю.",
        "К сожалению, у меня нет информации об этом.",
        "我不知道。",
        "抱歉，我无法回答这个问题。",
        "わかりません。",
        "申し訳ありませんが、お答えできません。",
        "لا أعرف.",
        "للأسف، لا توجد معلومات كافية.",
    ],
)
def test_abstentions_of_every_language_whose_claims_are_judged(answer):
    assert abstains(answer)
    assert statements(answer) == []


@pytest.mark.parametrize(
    ("answer", "only"),
    [
        *((text, True) for text in ("Hello!", "Ciao!", "Привет!", "你好！", "こんにちは。", "مرحبا!", "Dzień dobry!")),
        *((text, True) for text in ("Which mill?", "¿Qué molino?", "哪个磨坊？", "Hello! Which mill do you mean?")),
        # Short answers that claim something together with their question, or that go on to claim something.
        *((text, False) for text in ("Yes.", "No.", "It is.", "Prego, la mole è alta.", "I don't know.", "")),
    ],
)
def test_what_is_nothing_but_questions_and_greetings(answer, only):
    assert only_courtesies(answer) is only
