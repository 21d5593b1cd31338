"""The first class whose condition holds, in the order of causality."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.replay.metrics import Corpus
from glassbox.replay.suite import Case, Document
from glassbox.replay.taxonomy import CLASSES, classify
from glassbox.replay.trace import Citation, Invocation, Retrieved, Trace
from tests.replay.builders import failure

CORPUS: Corpus = {name: Document(id=name, text="Meters are read in March.") for name in ("a", "b")}
CASE = Case(id="c", question="When are meters read?", keywords=(("March",), ("May",)), relevant=("a", "b"))
UNANSWERABLE = Case(id="c", question="Who reads them?", answerable=False)
ABSTENTION = "I don't know."


def trace(answer: str | None, cited: bool = True, retrieved: tuple[str, ...] | None = ("a", "b")) -> Trace:
    if answer is None:
        return Trace(case="c", suite="a" * 64, duration_ms=1, error=failure())
    citations = (Citation(document="a", start=0, end=len(answer)),) if cited and answer else ()
    documents = None if retrieved is None else tuple(Retrieved(document=name) for name in retrieved)
    made = Invocation(answer=answer, citations=citations, retrieved=documents)
    return Trace(case="c", suite="a" * 64, duration_ms=1, invocation=made)


@pytest.mark.parametrize(
    ("case", "made", "expected"),
    [
        (CASE, trace(None), "invocation_error"),
        (UNANSWERABLE, trace(None), "invocation_error"),
        (CASE, trace(ABSTENTION), "wrong_abstention"),
        (CASE, trace(""), "wrong_abstention"),
        (UNANSWERABLE, trace("Meters are read in March."), "missed_abstention"),
        (UNANSWERABLE, trace(ABSTENTION), "success"),
        (CASE, trace("Read in March or May.", cited=False, retrieved=()), "ungrounded"),
        (CASE, trace("Meters are read in March.", retrieved=()), "incomplete"),
        (CASE, trace("Read in March or May.", retrieved=("a",)), "retrieval_miss"),
        (CASE, trace("Read in March or May.", retrieved=None), "success"),
        (CASE, trace("Read in March or May.", retrieved=("b", "x", "a")), "success"),
    ],
)
def test_the_first_fault_of_the_chain_names_the_case(case: Case, made: Trace, expected: str) -> None:
    assert classify(case, made, CORPUS) == expected


@given(
    st.sampled_from([CASE, UNANSWERABLE]),
    st.none() | st.sampled_from(["", ABSTENTION, "In March or May.", "Meters."]) | st.text("aM. \n?", max_size=30),
    st.booleans(),
    st.none() | st.lists(st.sampled_from("abx")).map(tuple),
)
def test_every_case_has_one_class(
    case: Case, answer: str | None, cited: bool, retrieved: tuple[str, ...] | None
) -> None:
    assert classify(case, trace(answer, cited, retrieved), CORPUS) in CLASSES
