"""Windows and overlaps by array arithmetic against the definitions, written out."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import ngrams
from judges.ngrams import AnswerWords, SourceWords, align, overlaps
from judges.text import best_window

tokens = st.lists(st.sampled_from("abcd"), max_size=12)
sources = st.lists(tokens, min_size=1, max_size=4).filter(any)


def numbered(answer, sources):
    words = AnswerWords(answer)
    return words, SourceWords([words.numbered(source) for source in sources])


def windows(sentences, sources):
    words, numbers = numbered([word for sentence in sentences for word in sentence], sources)
    return align(words, map(len, sentences), numbers)


def _grams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _is_verbatim(sentence, source, start):
    return source[start : start + len(sentence)] == sentence


@given(sentence=st.lists(st.sampled_from("abcdx"), min_size=1, max_size=8), sources=sources)
def test_window_is_the_best_one_of_any_source_and_the_earliest(sentence, sources):
    [window] = windows([sentence], sources)
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


@given(sentences=st.lists(st.lists(st.sampled_from("abcdx"), min_size=1, max_size=8), max_size=6), sources=sources)
def test_sentences_do_not_touch_each_other(sentences, sources):
    assert windows(sentences, sources) == [window for each in sentences for window in windows([each], sources)]


def test_more_sentences_and_sources_than_one_table_holds():
    chance = random.Random(1)
    sources = [chance.choices("abcdefgh", k=3_000) for _ in range(3)]
    sentences = [chance.choices("abcdefghx", k=20) for _ in range(40)]
    assert windows(sentences, sources) == [window for each in sentences for window in windows([each], sources)]


@given(sentence=st.lists(st.sampled_from("abcdx"), min_size=1, max_size=8), sources=sources)
def test_beyond_the_limit_windows_are_around_the_rarest_word(sentence, sources):
    [exact] = windows([sentence], sources)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "MOST_CELLS", 0)
        [window] = windows([sentence], sources)
    assert window.verbatim == exact.verbatim
    assert bool(exact.matches) <= window.matches <= exact.matches
    assert window.end - window.start == min(len(sentence), len(sources[window.source]))
    assert (Counter(sentence) & Counter(sources[window.source][window.start : window.end])).total() == window.matches


def test_a_window_equal_to_the_sentence_goes_before_an_earlier_shuffle_of_it():
    text = ["the", "dog", "bit", "the", "cat", "and", "the", "cat", "bit", "the", "dog"]
    [window] = windows([["the", "cat", "bit", "the", "dog"]], [text])
    assert window.verbatim
    assert text[window.start : window.end] == ["the", "cat", "bit", "the", "dog"]


def test_a_window_never_spans_two_sources():
    [window] = windows([["a", "b"]], [["x", "a"], ["b", "x"]])
    assert (window.source, window.start, window.end, window.matches) == (0, 0, 2, 1)


@given(answer=st.lists(st.sampled_from("abcdx"), max_size=15), sources=sources)
def test_overlaps_are_clipped_counts(answer, sources):
    for n, overlap in enumerate(overlaps(*numbered(answer, sources), 4), 1):
        mine = _grams(answer, n)
        assert overlap.total == mine.total()
        assert overlap.in_each == tuple((mine & _grams(source, n)).total() for source in sources)
        union = Counter()
        for source in sources:
            union |= _grams(source, n)
        assert overlap.in_any == (mine & union).total()


def test_codes_of_long_ngrams_do_not_overflow():
    words = [f"w{i}" for i in range(70_000)]
    [*_, four] = overlaps(*numbered(words, [words]), 4)
    assert four.in_any == four.total == 69_997
