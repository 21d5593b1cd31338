import pytest

from judges.tongues import Tongues

CLINIC = (
    "Amelia Hart founded the Brookdale Clinic in March 1987 in Leeds."
    " It employs 240 nurses and does not treat children under 12."
)
TONGUES = Tongues.of([CLINIC])
TAILS = {
    "de": "Wir hoffen, dass diese Auskunft für Sie hilfreich war und wünschen einen schönen Tag.",
    "fr": "Nous espérons que cette réponse vous a été utile et nous vous souhaitons une bonne journée.",
    "sv": "Vi hoppas att svaret på frågan var till hjälp och att ni får en bra dag på er resa.",
    "zh": "希望这个回答对您有帮助,祝您生活愉快。",
}
LIES = (
    "It employs 240 nurses and does treat children under 12.",
    "The clinic treats children.",
    "Amelia Hart founded the clinic in 1937.",
)


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS.keys())
@pytest.mark.parametrize("lie", LIES)
def test_a_tail_in_another_language_switches_nothing_off(lie, tail):
    assert TONGUES.apart(tail)
    assert TONGUES.apart(lie) is None
    for text in (f"{lie} {tail}", f"{tail} {lie}", f"{lie} {tail} {tail} {tail}"):
        assert TONGUES.wholly_apart(text, [lie, tail]) is None
        assert not TONGUES.judges_none(text, [lie, tail])


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS.keys())
def test_nor_does_one_in_the_same_sentence(tail):
    said = f"It employs 240 nurses and does treat children under 12 – {tail}"
    assert TONGUES.wholly_apart(said, [said]) is None
    assert not TONGUES.judges_none(said, [said])


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS.keys())
def test_an_answer_wholly_in_another_language_is_not_comparable(tail):
    parts = [tail, "Brookdale Clinic, 1987."]
    assert TONGUES.wholly_apart(" ".join(parts), parts) in ("other_language", "other_script")


def test_what_no_model_judges_is_in_no_language_with_rows():
    assert TONGUES.judges_none(TAILS["sv"], [TAILS["sv"]])
    assert Tongues.of([TAILS["sv"]]).judges_none(TAILS["sv"], [TAILS["sv"]])
    assert not TONGUES.judges_none(TAILS["de"], [TAILS["de"]])


def test_one_source_in_the_language_is_enough():
    assert Tongues.of([CLINIC, TAILS["de"]]).apart(TAILS["de"]) is None
    assert Tongues.of([]).apart(TAILS["de"]) is None
