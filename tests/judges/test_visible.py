"""Texts without what nobody sees."""

from hypothesis import given
from hypothesis import strategies as st

from judges.visible import Visible


def test_invisible_characters_go_and_places_stay():
    seen = Visible.of("Jo\u200bsiah \u202ePell\ufeff")
    assert seen.text == "Josiah Pell"
    start, end = seen.span(0, 6)
    assert "Jo\u200bsiah \u202ePell\ufeff"[start:end] == "Jo\u200bsiah"
    assert seen.span(7, 11) == (9, 13)


@given(st.text(alphabet="ab \u200b\u00ad\u202e\U000e0041é", max_size=30), st.data())
def test_a_place_of_the_seen_text_is_its_place_in_the_given_one(text, data):
    seen = Visible.of(text)
    start = data.draw(st.integers(0, len(seen.text)))
    end = data.draw(st.integers(start, len(seen.text)))
    begin, stop = seen.span(start, end)
    assert Visible.of(text[begin:stop]).text == seen.text[start:end]
    assert Visible.of(seen.text) == Visible(seen.text, seen.text)
