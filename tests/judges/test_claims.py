import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.claims import (
    AnswerRelevanceOutput,
    StatementGeneratorOutput,
    StatementVerdict,
    check_question,
    check_statements,
    in_order,
    user_message,
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


def test_missing_more_and_other_verdicts_are_refused():
    assert cause_of(in_order, verdicts("a"), ["a", "b"]) == "count_mismatch"
    assert cause_of(in_order, verdicts("a", "b", "b"), ["a", "b"]) == "count_mismatch"
    assert cause_of(in_order, verdicts("a", "c"), ["a", "b"]) == "malformed_output"
    assert cause_of(in_order, verdicts("a", "a"), ["a", "b"]) == "malformed_output"


def test_claims_without_a_word_and_absent_claims():
    assert (
        cause_of(check_statements, StatementGeneratorOutput(statements=["a", " ."]), some=False) == "malformed_output"
    )
    assert cause_of(check_statements, StatementGeneratorOutput(statements=[]), some=True) == "malformed_output"
    check_statements(StatementGeneratorOutput(statements=[]), some=False)


def test_a_question_without_a_word():
    assert cause_of(check_question, AnswerRelevanceOutput(question=" ?", noncommittal=0)) == "no_question"


@settings(deadline=None)
@given(st.text())
def test_no_text_can_leave_its_field(text):
    message = user_message({"answer": text})
    lines = message.split("\n")
    assert len(lines) == 2
    assert json.loads(lines[0].removeprefix("input: ")) == {"answer": text}


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
