"""ROUGE-L's bit vector; test_terminology.py holds all figures against rouge-score."""

from hypothesis import given
from hypothesis import strategies as st

from judges.rouge import Prediction, Rouge, best, rouge

tokens = st.lists(st.sampled_from("abcde"), max_size=12)


def _by_definition(a, b):
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return _by_definition(a[:-1], b[:-1]) + 1
    return max(_by_definition(a[:-1], b), _by_definition(a, b[:-1]))


def longest_common_subsequence(target, prediction, block=8_192):
    return Prediction(prediction, block).common(target)


@given(
    a=st.lists(st.sampled_from("abc"), max_size=7),
    b=st.lists(st.sampled_from("abc"), max_size=7),
    block=st.sampled_from([1, 2, 3, 8_192]),
)
def test_length_is_that_of_the_definition(a, b, block):
    assert longest_common_subsequence(a, b, block) == _by_definition(a, b)


@given(a=st.lists(st.sampled_from("abcde"), max_size=40), b=st.lists(st.sampled_from("abcde"), max_size=40))
def test_blocks_change_nothing(a, b):
    assert len({longest_common_subsequence(a, b, block) for block in (1, 7, 8_192)}) == 1


@given(a=tokens, b=tokens)
def test_subsequence_is_symmetric_and_bounded(a, b):
    length = longest_common_subsequence(a, b)
    assert length == longest_common_subsequence(b, a)
    assert 0 <= length <= min(len(a), len(b))
    assert longest_common_subsequence(a, a) == len(a)
    assert longest_common_subsequence(a + b, b) == len(b)


def test_nothing_in_common_or_nothing_at_all_is_zero():
    assert longest_common_subsequence([], ["a"]) == longest_common_subsequence(["a"], []) == 0
    assert rouge(0, 3, 0) == rouge(0, 0, 0) == Rouge(0.0, 0.0, 0.0)


def test_best_is_the_highest_f1_and_the_earliest_of_equals():
    first, second = Rouge(0.5, 0.1, 0.4), Rouge(0.1, 0.5, 0.4)
    assert best([Rouge(0.9, 0.1, 0.2), first, second]) is first


def test_long_texts_take_no_table_of_their_lengths():  # which would take longer than a test may
    a = [f"w{i % 977}" for i in range(60_000)]
    b = [f"w{i % 1013}" for i in range(60_000)]
    assert 0 < longest_common_subsequence(a, b) < 60_000
