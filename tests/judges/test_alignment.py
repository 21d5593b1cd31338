from hypothesis import given, settings
from hypothesis import strategies as st

from judges.alignment import Aligned, Locator, support
from judges.shown import Shown, with_what_it_says

ANSWER = "The mill burned in 1911. It was rebuilt by the Aldersey family in 1913, and it still grinds rye."


def shown(text):
    return Aligned.of(Shown(text, None, ()))


def locate(claim, answer):
    return Locator(shown(answer)).locate(claim)


def test_a_verbatim_claim_is_located_exactly():
    place = locate("The mill burned in 1911.", ANSWER)
    assert place == {"start": 0, "end": 24, "alignment": "exact"}


def test_the_second_of_two_equal_claims_is_the_second_place():
    locator = Locator(shown("Yes. It is red. Yes. It is red."))
    assert [locator.locate(claim)["start"] for claim in ("It is red.", "It is red.", "Yes.")] == [5, 21, 0]


def test_places_are_those_of_the_answer_as_it_was_given():
    answer = "</answer> The m\u200bill\u200b burned. It is e\u0301tat."
    locator = Locator(Aligned.of(with_what_it_says(answer)))
    place = locator.locate("The mill burned.")
    assert answer[place["start"] : place["end"]] == "The m\u200bill\u200b burned."
    assert place["alignment"] == "as_seen"
    place = locator.locate("It is \u00e9tat.")
    assert (place["alignment"], answer[place["start"] : place["end"]]) == ("window", "It is e\u0301tat")


@given(st.text(st.sampled_from("ab .\u200b\u00ade\u0301"), max_size=30))
def test_what_is_exact_is_the_claim_to_the_character(answer):
    made = with_what_it_says(answer)
    for start in range(len(made.text)):
        claim = made.text[start : start + 4]
        place = Locator(Aligned.of(made)).locate(claim)
        if place["alignment"] in ("exact", "as_seen"):
            assert (answer[place["start"] : place["end"]] == claim) is (place["alignment"] == "exact")


def test_a_reworded_claim_is_located_by_its_words():
    place = locate("The Aldersey family rebuilt the mill in 1913.", ANSWER)
    assert place["alignment"] == "window"
    assert ANSWER[place["start"] : place["end"]] == "rebuilt by the Aldersey family in 1913"


def test_a_claim_from_elsewhere_is_unaligned():
    assert locate("Penguins swim fast.", ANSWER) == {"alignment": "unaligned"}
    assert locate("?!", "...") == {"alignment": "unaligned"}


def test_support_is_the_shortest_run_of_the_passage_that_shares_most():
    passages = [shown(text) for text in ("Rye is a grain.", "In short: " + ANSWER + " Visitors like it.")]
    found = support("The Aldersey family rebuilt it in 1913", passages)
    assert found is not None
    assert found["passage"] == 1
    assert passages[1].shown.text[found["start"] : found["end"]] == "It was rebuilt by the Aldersey family in 1913"
    assert support("Penguins swim fast.", passages) is None
    assert support("anything", []) is None


@settings(deadline=None)
@given(st.text("ab .", max_size=30), st.lists(st.text("ab .", max_size=40), max_size=6))
def test_spans_lie_in_their_text_and_hold_a_shared_word(claim, texts):
    passages = [shown(text) for text in texts]
    found = support(claim, passages)
    if found is not None:
        passage = passages[found["passage"]]
        inside = passage.shown.text[found["start"] : found["end"]]
        shared = shown(claim).vocabulary
        assert shown(inside).stems[0] in shared
        assert shown(inside).stems[-1] in shared


@settings(deadline=None)
@given(st.text(max_size=60), st.data())
def test_a_piece_of_the_answer_is_where_it_was_cut(answer, data):
    start = data.draw(st.integers(0, len(answer)))
    end = data.draw(st.integers(start, len(answer)))
    place = locate(answer[start:end], answer)
    assert place["alignment"] == "exact"
    assert answer[place["start"] : place["end"]] == answer[start:end]
