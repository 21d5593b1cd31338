"""Each metric against small answers whose figure is plain to see, its range over any answer, and hostile answers."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbox.replay.metrics import METRICS, RULES, Corpus, Metric, aggregated, citing, definitions_digest, said
from glassbox.replay.suite import Case, Document
from glassbox.replay.trace import Citation, Invocation, Retrieved, Trace, Usage
from tests.replay.builders import failure

CORPUS: Corpus = {
    "meters": Document(id="meters", title="Meters", text="Meters are read in March and in September. Each has a seal."),
    "bills": Document(id="bills", title="Bills", text="A bill is due 21 days after its date."),
}
CASE = Case(
    id="c", question="When are meters read?", keywords=(("March",), ("September", "autumn")), relevant=("meters",)
)
UNANSWERABLE = Case(id="u", question="Who reads them?", answerable=False)
ABSTENTION = "The documents do not say."


def trace(answer: str = "", *cited: tuple[str, int, int], retrieved: Any = None, usage: Any = None) -> Trace:
    documents = None if retrieved is None else tuple(Retrieved(document=name) for name in retrieved)
    citations = tuple(Citation(document=name, start=start, end=end) for name, start, end in cited)
    made = Invocation(answer=answer, citations=citations, retrieved=documents, usage=usage)
    return Trace(case="c", suite="a" * 64, duration_ms=12.5, invocation=made)


ERROR = Trace(case="c", suite="a" * 64, duration_ms=30_000, error=failure())


def value(name: str, made: Trace, case: Case = CASE) -> float | None:
    return METRICS[name].value(case, made, CORPUS)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("In March and September.", 1),
        ("In MARCH, and in autumn.", 1),
        ("In March.", 0.5),
        ("On a march.", 0.5),  # case folded: the word, not its meaning
        ("In Marches.", 0),  # on word bounds
        (ABSTENTION, 0),
        ("", 0),
    ],
)
def test_keyword_recall(answer: str, expected: float) -> None:
    assert value("keyword_recall", trace(answer)) == expected


def test_an_abstention_that_names_a_keyword_has_answered_nothing() -> None:
    case = CASE.model_copy(update={"keywords": (("documents",),)})
    assert value("keyword_recall", trace(ABSTENTION), case) == 0


def test_citations_belong_to_the_sentences_that_they_overlap() -> None:
    answer = "In March. In May. In June."
    made = trace(answer, ("meters", 0, 9), ("bills", 3, 17), ("nowhere", 9, 10)).invocation
    assert made is not None
    assert [(answer[s.start : s.end], sorted(d)) for s, d in citing(made)] == [
        ("In March.", ["bills", "meters"]),
        ("In May.", ["bills"]),
        ("In June.", []),
    ]


def test_citation_coverage_and_precision() -> None:
    made = trace("In March. In May.", ("meters", 0, 9), ("bills", 0, 9), ("bills", 1, 3))
    assert value("citation_coverage", made) == 0.5
    assert value("citation_precision", made) == 0.5  # documents, however often each is cited
    assert value("citation_precision", trace("In March.")) is None
    assert value("citation_precision", trace("In March.", ("bills", 0, 9)), UNANSWERABLE) is None


@pytest.mark.parametrize(
    ("answer", "cited", "expected"),
    [
        ("Meters are read in March.", "meters", 1),
        ("Meters are read in March.", "bills", 0),
        ("Meters are read in March.", None, 0),
        ("Meters are read in March.", "no-such-document", 0),
        ("Meters need batteries.", "meters", 0),  # one content word of three
        ("Meters need reading, seals.", "meters", 1),  # by stems, three of four
    ],
)
def test_groundedness(answer: str, cited: str | None, expected: float) -> None:
    citations = [(cited, 0, len(answer))] if cited else []
    assert value("groundedness", trace(answer, *citations)) == expected


def test_whether_to_answer() -> None:
    assert value("abstention", trace(ABSTENTION), UNANSWERABLE) == 1
    assert value("abstention", trace("A man."), UNANSWERABLE) == 0
    assert value("wrong_abstention", trace(ABSTENTION)) == 1
    assert value("wrong_abstention", trace("In March.")) == 0
    assert value("abstention", trace(ABSTENTION)) is None
    assert value("wrong_abstention", trace(ABSTENTION), UNANSWERABLE) is None


def test_retrieval() -> None:
    two = CASE.model_copy(update={"relevant": ("meters", "bills")})
    made = trace("In March.", retrieved=["x", "meters", "meters"])
    assert value("retrieval_recall@1", made, two) == 0
    assert value("retrieval_recall@3", made, two) == 0.5
    assert value("mrr", made, two) == 0.5
    assert value("mrr", trace("In March.", retrieved=[])) == 0
    assert value("mrr", trace("In March.")) is None  # the system does not say what it retrieved
    assert value("mrr", made, UNANSWERABLE) is None


def test_latency_tokens_and_errors() -> None:
    usage = Usage(prompt_tokens=7, completion_tokens=3, provenance="api")
    assert value("latency_median", trace("In March.")) == 12.5
    assert value("tokens", trace("In March.", usage=usage)) == 10
    assert value("tokens", trace("In March.")) is None
    assert value("error_rate", trace("In March.")) == 0


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("case", [CASE, UNANSWERABLE], ids=["answerable", "unanswerable"])
def test_an_error_counts_as_an_error_and_as_nothing_else(name: str, case: Case) -> None:
    assert value(name, ERROR, case) == (1 if name == "error_rate" else None)


def test_aggregates() -> None:
    values = [float(n) for n in range(1, 21)]
    assert aggregated("p95", values) == 19
    assert aggregated("p95", [*values, 21.0]) == 20
    assert aggregated("p95", [3.0]) == 3
    assert aggregated("median", values) == 10.5
    assert aggregated("mean", []) is None


text = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)
spans = st.lists(
    st.tuples(st.sampled_from(["meters", "bills", "x"]), st.integers(0, 200), st.integers(1, 50)), max_size=6
)


@given(
    text, spans, st.lists(st.sampled_from(["meters", "bills", "x"]), max_size=4), st.sampled_from([CASE, UNANSWERABLE])
)
def test_a_share_is_a_share_of_any_answer(
    answer: str, marks: list[tuple[str, int, int]], retrieved: list[str], case: Case
) -> None:
    inside = [(name, start, min(start + size, len(answer))) for name, start, size in marks if start < len(answer)]
    made = trace(answer, *inside, retrieved=retrieved)
    for metric in METRICS.values():
        found = metric.value(case, made, CORPUS)
        if metric.unit == "share" and found is not None:
            assert 0 <= found <= 1


@given(text)
def test_an_answer_always_has_a_sentence(answer: str) -> None:
    found = said(answer)
    assert found
    assert all(0 <= a.start <= a.end <= b.start for a, b in pairwise(found))


def test_an_answer_of_a_megabyte_with_thousands_of_citations() -> None:
    sentence = "Meters are read in March </script> each year. "
    answer = sentence * (2**20 // len(sentence))
    marks = [("meters", n, n + 5) for n in range(0, len(answer) - 5, 120)]
    made = trace(answer, *marks)
    found = {name: value(name, made) for name in METRICS}
    assert found["keyword_recall"] == 0.5
    assert 0 < (found["groundedness"] or 0) < 1


def test_every_metric_says_what_it_is_and_which_way_it_is_better() -> None:
    for metric in METRICS.values():
        assert f"{metric.better} is better" in metric.definition
        assert "Applies" in metric.definition
        assert "lind to" in metric.definition


def test_the_digest_of_the_definitions_names_every_part_of_them() -> None:
    metric = METRICS["mrr"]
    other = Metric("mrr", metric.value, "higher", version=2)
    assert definitions_digest({"mrr": metric}) != definitions_digest({"mrr": other})
    assert definitions_digest() != definitions_digest({"mrr": metric})
    assert RULES["grounded_from"] == "0.5"
