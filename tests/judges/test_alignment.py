from hypothesis import given, settings
from hypothesis import strategies as st

from judges.alignment import Aligned, locate, support

ANSWER = "The mill burned in 1911. It was rebuilt by the Aldersey family in 1913, and it still grinds rye."


def test_a_verbatim_claim_is_located_exactly():
    place = locate("The mill burned in 1911.", Aligned.of(ANSWER))
    assert place == {"start": 0, "end": 24, "alignment": "exact"}


def test_the_second_of_two_equal_claims_is_the_second_place():
    answer = Aligned.of("Yes. It is red. Yes. It is red.")
    first = locate("It is red.", answer)
    second = locate("It is red.", answer, first["end"])
    assert (first["start"], second["start"]) == (5, 21)
    assert locate("Yes.", answer, second["end"])["start"] == 0


def test_a_reworded_claim_is_located_by_its_words():
    place = locate("The Aldersey family rebuilt the mill in 1913.", Aligned.of(ANSWER))
    assert place["alignment"] == "window"
    assert ANSWER[place["start"] : place["end"]] == "rebuilt by the Aldersey family in 1913"


def test_a_claim_from_elsewhere_is_unaligned():
    assert locate("Penguins swim fast.", Aligned.of(ANSWER)) == {"alignment": "unaligned"}
    assert locate("?!", Aligned.of("...")) == {"alignment": "unaligned"}


def test_support_is_the_shortest_run_of_the_passage_that_shares_most():
    passages = [Aligned.of(text) for text in ("Rye is a grain.", "In short: " + ANSWER + " Visitors like it.")]
    found = support("The Aldersey family rebuilt it in 1913", passages)
    assert found is not None
    assert found["passage"] == 1
    assert passages[1].text[found["start"] : found["end"]] == "It was rebuilt by the Aldersey family in 1913"
    assert support("Penguins swim fast.", passages) is None
    assert support("anything", []) is None


@settings(deadline=None)
@given(st.text("ab .", max_size=30), st.lists(st.text("ab .", max_size=40), max_size=6))
def test_spans_lie_in_their_text_and_hold_a_shared_word(claim, texts):
    passages = [Aligned.of(text) for text in texts]
    found = support(claim, passages)
    if found is not None:
        passage = passages[found["passage"]]
        inside = passage.text[found["start"] : found["end"]]
        shared = Aligned.of(claim).vocabulary
        assert Aligned.of(inside).stems[0] in shared
        assert Aligned.of(inside).stems[-1] in shared


@settings(deadline=None)
@given(st.text(max_size=60), st.data())
def test_a_piece_of_the_answer_is_where_it_was_cut(answer, data):
    start = data.draw(st.integers(0, len(answer)))
    end = data.draw(st.integers(start, len(answer)))
    place = locate(answer[start:end], Aligned.of(answer))
    assert place["alignment"] == "exact"
    assert answer[place["start"] : place["end"]] == answer[start:end]
