"""Kinds of questions, and sentences that can carry their answer."""

import pytest

from glassbox.replay.systems.question import Kind, carries, kind_of


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Is it safe to drink?", "yes_no"),
        ("Does Tidewell add fluoride?", "yes_no"),
        ("When was the dam built?", "date"),
        ("How long does it take?", "date"),
        ("In which months are meters read?", "date"),
        ("How much does it cost?", "quantity"),
        ("What is the price of a litre?", "quantity"),
        ("What is the most that a household pays?", "quantity"),
        ("From which age can I join?", "quantity"),
        ("Where can I pay?", "place"),
        ("Which town is it in?", "place"),
        ("Who signs it?", "person"),
        ("Whose pipe is it?", "person"),
        ("Which body approves the charges?", "organisation"),
        ("Why is it hard?", "reason"),
        ("How can I tell?", "manner"),
        ("What should I do?", "manner"),
        ("Which form is needed?", "other"),
        ("", "other"),
    ],
)
def test_kinds(question: str, kind: Kind) -> None:
    assert kind_of(question) == kind


@pytest.mark.parametrize(
    ("kind", "sentence", "carried"),
    [
        ("person", "Notices are signed by Ines Okafor.", True),
        ("person", "It belongs to the owner.", True),
        ("person", "Boiled water keeps.", False),
        ("quantity", "It costs £12.", True),
        ("quantity", "It is free.", True),
        ("quantity", "It costs a little.", False),
        ("date", "It is due 21 days after its date.", True),
        ("date", "It is read in March.", True),
        ("date", "It ends in 1962.", True),
        ("date", "It comes later.", False),
        ("place", "Pay at the counter.", True),
        ("place", "Pay by card.", False),
        ("reason", "It is hard because of chalk.", True),
        ("reason", "It is hard.", False),
        ("yes_no", "Anything.", True),
        ("manner", "Anything.", True),
        ("other", "Anything.", True),
    ],
)
def test_what_a_sentence_can_carry(kind: Kind, sentence: str, carried: bool) -> None:
    assert carries(kind, sentence, "?") is carried


def test_what_the_question_says_itself_is_no_answer() -> None:
    sentence = "Customers of Lake Sennen receive soft water."
    assert carries("place", sentence, "Where is the water soft?")
    assert not carries("place", "Water of Lake Sennen is soft.", "Where is Lake Sennen?")
