"""Our ROUGE against rouge-score: the same floats, not nearly the same."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.rouge import Rouge, best, longest_common_subsequence, rouge_l, rouge_n

tokens = st.lists(st.sampled_from("abcde"), max_size=40)


class _GivenTokens:
    """A tokenizer for rouge-score: texts here are tokens joined by spaces already."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


@pytest.fixture(scope="module")
def oracle():
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    return scorer.RougeScorer(["rouge1", "rouge2", "rouge3", "rougeL"], tokenizer=_GivenTokens())


@given(target=tokens, prediction=tokens)
def test_equals_rouge_score_to_the_last_bit(oracle, target, prediction):
    expected = oracle.score(" ".join(target), " ".join(prediction))
    for n in (1, 2, 3):
        assert tuple(rouge_n(target, prediction, n)) == tuple(expected[f"rouge{n}"])
    assert tuple(rouge_l(target, prediction)) == tuple(expected["rougeL"])


@given(targets=st.lists(tokens, min_size=1, max_size=4), prediction=tokens)
def test_best_of_several_targets_is_score_multi(oracle, targets, prediction):
    expected = oracle.score_multi([" ".join(t) for t in targets], " ".join(prediction))
    assert tuple(best([rouge_n(t, prediction, 2) for t in targets])) == tuple(expected["rouge2"])
    assert tuple(best([rouge_l(t, prediction) for t in targets])) == tuple(expected["rougeL"])


@given(a=tokens, b=tokens)
def test_subsequence_is_symmetric_and_bounded(a, b):
    length = longest_common_subsequence(a, b)
    assert length == longest_common_subsequence(b, a)
    assert 0 <= length <= min(len(a), len(b))
    assert longest_common_subsequence(a, a) == len(a)
    assert longest_common_subsequence(a + b, b) == len(b)


def test_identical_words_in_any_script_score_one():
    assert rouge_n(["москва", "столица"], ["москва", "столица"], 2) == Rouge(1.0, 1.0, 1.0)
    assert rouge_l([], ["a"]) == rouge_l(["a"], []) == Rouge(0.0, 0.0, 0.0)


def test_long_texts_take_well_under_a_second():
    a = [f"w{i % 977}" for i in range(6_000)]
    b = [f"w{i % 1013}" for i in range(6_000)]
    started = time.perf_counter()
    assert 0 < rouge_l(a, b).f1 < 1
    assert time.perf_counter() - started < 1
