"""Tokens read in array arithmetic are those of `judges.text.words`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.text import normalise, words
from judges.tokens import Tokens

JOINTS = "ab09.,' \n-_%X\t\x0c"
LATIN = JOINTS + "’ßÉ€²Ⅷ—…İ\u0660"
BEYOND = LATIN + "\u02bc\u200b\x02\u0301中ไह\u094d\U00010330"


@given(
    st.text(st.sampled_from(JOINTS)) | st.text(st.sampled_from(LATIN)) | st.text(st.sampled_from(BEYOND)) | st.text()
)
def test_tokens_are_the_words_of_the_text(text):
    tokens = Tokens.of(text)
    found = zip(tokens.words, tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    assert list(found) == [(normalise(token.text), token.start, token.end) for token in words(text)]


@pytest.mark.parametrize("text", ["It isn't 5.1 % of 1,200.", "Die „Größe“ – 5,1 %", "我喜欢 it", "so\u200bon, e.g."])
def test_a_span_reaches_from_word_to_word(text):
    tokens = Tokens.of(text)
    for first in range(len(tokens.words)):
        for end in range(first + 1, len(tokens.words) + 1):
            start, stop = tokens.span(first, end)
            assert Tokens.of(text[start:stop]).words == tokens.words[first:end]
