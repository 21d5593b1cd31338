import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from judges.claims import (
    AnswerRelevanceOutput,
    StatementVerdict,
    check_question,
    check_statements,
    in_order,
    pieces,
    wilson,
)
from judges.llm import EndpointError


def verdicts(*statements):
    return [StatementVerdict(statement=text, reason=str(n), verdict=n % 2) for n, text in enumerate(statements)]


def cause_of(call, *arguments, **named):
    with pytest.raises(EndpointError) as caught:
        call(*arguments, **named)
    return caught.value.cause


@settings(deadline=None)
@given(st.lists(st.text(max_size=5), max_size=6), st.randoms())
def test_verdicts_are_put_in_the_order_of_their_statements(statements, random):
    given_back = verdicts(*statements)
    random.shuffle(given_back)
    ordered = in_order(given_back, statements)
    assert [verdict.statement.split() for verdict in ordered] == [statement.split() for statement in statements]
    assert sorted(verdict.reason for verdict in ordered) == sorted(verdict.reason for verdict in given_back)


def test_the_same_statement_in_another_unicode_form_is_the_same():
    assert in_order(verdicts("cafe\u0301  is \n open"), ["caf\u00e9 is open"])[0].reason == "0"


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (["it is RED", "Open, since 5.1."], ["Open since 5.1", "It is red."]),
        (["\u201cIt\u201d is red!", "It is red."], ["It is red.", "It is red."]),
    ],
)
def test_case_and_punctuation_may_differ_where_nothing_fits_better(said, asked):
    assert [verdict.statement for verdict in in_order(verdicts(*said), asked)] == asked


def test_a_statement_word_for_word_comes_before_one_that_only_resembles_it():
    first, second = in_order(verdicts("It is red", "it is red!"), ["it is red!", "It is red"])
    assert (first.reason, second.reason) == ("1", "0")


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (["a"], ["a", "b"]),
        (["a", "b", "b"], ["a", "b"]),
        (["a", "c"], ["a", "b"]),
        (["a", "a"], ["a", "b"]),
        ([], ["a"]),
    ],
)
def test_missing_more_and_other_verdicts_are_refused(said, asked):
    assert cause_of(in_order, verdicts(*said), asked) == "malformed_output"


@pytest.mark.parametrize(
    ("said", "verdict"),
    [(1, 1), (0, 0), (True, 1), (False, 0), ("1", 1), (" Yes.", 1), ("TRUE", 1), ("not supported", 0), ("No", 0)],
)
def test_synonyms_of_a_verdict(said, verdict):
    assert StatementVerdict(statement="a", reason="", verdict=said).verdict == verdict


@pytest.mark.parametrize("said", [2, -1, 0.5, None, "", "idk", "partly", "oui", "yes and no", "1.0", [1], "n/a"])
def test_any_other_word_is_no_verdict(said):
    with pytest.raises(ValidationError):
        StatementVerdict(statement="a", reason="", verdict=said)


def test_claims_without_a_word_absent_claims_and_too_many():
    assert cause_of(check_statements, ["a", " ."], "a b", some=False) == "malformed_output"
    assert cause_of(check_statements, [], "a b", some=True) == "malformed_output"
    assert cause_of(check_statements, ["a", "b", "c"], "a b", some=True) == "malformed_output"
    check_statements([], "a b", some=False)
    check_statements(["The mill is red."], "Yes.", some=False)


@given(st.text("ab. \n", max_size=80), st.integers(1, 30))
def test_pieces_are_the_text(text, size):
    parts = pieces(text, size)
    assert "".join(parts) == text
    assert all(0 < len(part) <= size for part in parts) or not text


def test_a_piece_ends_with_a_sentence_or_else_with_a_word():
    assert pieces("It is red. It is old. It is far away.", 25) == ["It is red. It is old.", " It is far away."]
    assert pieces("word " * 5, 12) == ["word word ", "word word ", "word "]
    assert pieces("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_a_question_without_a_word():
    assert cause_of(check_question, AnswerRelevanceOutput(question=" ?", noncommittal=0)) == "no_question"


@settings(deadline=None)
@given(st.integers(1, 200), st.data())
def test_wilson_holds_the_share_and_narrows_with_n(n, data):
    k = data.draw(st.integers(0, n))
    low, high = wilson(k, n)
    assert 0 <= low <= k / n <= high <= 1
    wider = wilson(k, n, z=3)
    assert wider[0] <= low
    assert wider[1] >= high


def test_wilson_against_published_figures():
    assert [round(bound, 4) for bound in wilson(81, 263)] == [0.2553, 0.3662]  # Newcombe 1998, table I
    assert [round(bound, 4) for bound in wilson(0, 20)] == [0.0, 0.1611]
