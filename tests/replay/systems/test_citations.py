"""Markers in an answer become citations of the sentence that they follow."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.replay.systems.citations import read_markers


@pytest.mark.parametrize(
    ("text", "answer", "cited"),
    [
        ("It opens [a].", "It opens.", [("a", "It opens.")]),
        ("It opens. [a] It closes. [b]", "It opens. It closes.", [("a", "It opens."), ("b", "It closes.")]),
        ("It opens [a][b].", "It opens.", [("a", "It opens."), ("b", "It opens.")]),
        ("It opens [a, b; c-1].", "It opens.", [(x, "It opens.") for x in ("a", "b", "c-1")]),
        ("It opens [a] at nine [a].", "It opens at nine.", [("a", "It opens at nine.")]),
        ("[a] It opens.", " It opens.", [("a", "It opens.")]),
        ("It opens [at nine].", "It opens [at nine].", []),
        ("See [page](http://x).", "See [page](http://x).", []),
        ("It opens.", "It opens.", []),
        ("[a]", "", []),
        ("", "", []),
    ],
)
def test_markers(text: str, answer: str, cited: list[tuple[str, str]]) -> None:
    made, citations = read_markers(text)
    assert made == answer
    assert [(each.document, made[each.start : each.end]) for each in citations] == cited


def test_only_known_documents_are_taken_for_markers_where_they_are_known() -> None:
    answer, citations = read_markers("As they say [sic], it opens [a]. So [a, b].", ["a"])
    assert answer == "As they say [sic], it opens. So [a, b]."
    assert [each.document for each in citations] == ["a"]


@given(st.text(st.sampled_from("ab [](),;.!\n "), max_size=60))
def test_every_citation_lies_inside(text: str) -> None:
    answer, citations = read_markers(text)
    assert all(0 <= each.start < each.end <= len(answer) for each in citations)


@pytest.mark.parametrize("text", ["[a" * 200_000, " " * 400_000, "[a," * 200_000, "a [b]. " * 20_000])
def test_long_answers_take_no_long_time(text: str) -> None:
    begun = time.process_time()
    read_markers(text)
    assert time.process_time() - begun < 20  # seconds; it takes half a one
