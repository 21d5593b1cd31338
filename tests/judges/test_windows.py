"""Windows over a long text: nothing is left out, sentences stay whole where they can."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.text import sentences, word_spans
from judges.windows import sentence_starts, windows


def fitting(costs, limit):
    total = [0, *accumulate(costs)]
    return lambda start, end: total[end] - total[start] <= limit


@pytest.mark.parametrize(
    ("costs", "starts", "limit", "expected"),
    [
        ([1] * 6, [0, 3], 10, [(0, 6)]),
        ([1] * 6, [0, 3], 5, [(0, 3), (3, 6)]),
        ([1] * 8, [0, 2, 4, 6], 4, [(0, 4), (2, 6), (4, 8)]),
        ([1] * 9, [0, 4], 4, [(0, 4), (4, 8), (7, 9)]),
        ([1, 9, 1], [0], 4, [(0, 1), (1, 2), (2, 3)]),
        ([], [], 4, []),
    ],
    ids=["one window", "two sentences", "overlap by a sentence", "a sentence cut", "a word beyond the window", "none"],
)
def test_windows(costs, starts, limit, expected):
    assert windows(len(costs), starts, fitting(costs, limit))[0] == expected


sizes = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=8), max_size=12)


@given(sizes, st.integers(1, 20))
def test_every_word_is_read_and_whole_sentences_where_they_fit(per_sentence, limit):
    costs = [cost for sentence in per_sentence for cost in sentence]
    starts = [*accumulate([0, *map(len, per_sentence)])][:-1]
    fits = fitting(costs, limit)
    made, cut = windows(len(costs), starts, fits)
    assert {n for start, end in made for n in range(start, end)} == set(range(len(costs)))
    assert all(fits(start, end) or end - start == 1 for start, end in made)
    assert made == sorted(made)
    assert all(one[1] < other[1] for one, other in pairwise(made))
    bounds = [*starts, len(costs)]
    assert cut == sum(not fits(start, end) for start, end in pairwise(bounds))
    for start, end in pairwise(bounds):
        assert not fits(start, end) or any(one <= start and end <= other for one, other in made)


def test_sentence_starts_are_words():
    text = "- One two. Three!\n2. Four five"
    words = word_spans(text)
    begins = sentence_starts(words, sentences(text))
    assert [text[words[n][0] :].split()[0] for n in begins] == ["One", "Three!", "Four"]
    assert sentence_starts([], []) == []
