"""Windows and overlaps by array arithmetic against the definitions, written out."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from judges.ngrams import SourceWords, align, overlaps
from judges.text import best_window

tokens = st.lists(st.sampled_from("abcd"), max_size=12)
sources = st.lists(tokens, min_size=1, max_size=4).filter(any)


def _grams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _is_verbatim(sentence, source, start):
    return source[start : start + len(sentence)] == sentence


@given(sentence=st.lists(st.sampled_from("abcdx"), min_size=1, max_size=8), sources=sources)
def test_window_is_the_best_one_of_any_source_and_the_earliest(sentence, sources):
    [window] = align([sentence], SourceWords(sources))
    expected = [best_window(sentence, source, len(sentence)) for source in sources]
    most = max(each.matches for each in expected)
    assert window.matches == most
    verbatim = [
        (number, start)
        for number, source in enumerate(sources)
        for start in range(len(source))
        if _is_verbatim(sentence, source, start)
    ]
    assert window.verbatim == bool(verbatim)
    if verbatim:
        assert (window.source, window.start) == verbatim[0]
    elif most:
        number = [each.matches for each in expected].index(most)
        assert (window.source, window.start) == (number, expected[number].start)
    else:
        assert (window.source, window.start) == ([bool(source) for source in sources].index(True), 0)
    shorter = min(len(sentence), len(sources[window.source]))
    assert window.end - window.start == shorter
    assert (Counter(sentence) & Counter(sources[window.source][window.start : window.end])).total() == most


def test_a_window_equal_to_the_sentence_goes_before_an_earlier_shuffle_of_it():
    text = ["the", "dog", "bit", "the", "cat", "and", "the", "cat", "bit", "the", "dog"]
    [window] = align([["the", "cat", "bit", "the", "dog"]], SourceWords([text]))
    assert window.verbatim
    assert text[window.start : window.end] == ["the", "cat", "bit", "the", "dog"]


def test_a_window_never_spans_two_sources():
    [window] = align([["a", "b"]], SourceWords([["x", "a"], ["b", "x"]]))
    assert (window.source, window.start, window.end, window.matches) == (0, 0, 2, 1)


@given(answer=st.lists(st.sampled_from("abcdx"), max_size=15), sources=sources)
def test_overlaps_are_clipped_counts(answer, sources):
    for n, overlap in enumerate(overlaps(answer, SourceWords(sources), 4), 1):
        mine = _grams(answer, n)
        assert overlap.total == mine.total()
        assert overlap.in_each == tuple((mine & _grams(source, n)).total() for source in sources)
        union = Counter()
        for source in sources:
            union |= _grams(source, n)
        assert overlap.in_any == (mine & union).total()


def test_codes_of_long_ngrams_do_not_overflow():
    words = [f"w{i}" for i in range(70_000)]
    [*_, four] = overlaps(words, SourceWords([words]), 4)
    assert four.in_any == four.total == 69_997
