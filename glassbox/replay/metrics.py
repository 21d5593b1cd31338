"""Metrics of a stored trace: pure functions of a case, its trace and the corpus, for ever repeatable.

Each gives a number or None where it does not apply to the case; such a case is left out of the metric's denominator,
which is always shown as n. All are lexical: they count words, citations and documents and know no meaning.
"""

from __future__ import annotations

import inspect
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

from glassbox.contract.canonical import canonical, sha256_hex
from glassbox.replay.suite import Case, Document
from glassbox.replay.trace import Invocation, Trace
from judges.lexical import CHAT_MODEL
from judges.lexical.statements import abstains as _abstains
from judges.text import RULES as WORDS
from judges.text import Span, content_words, normalise, sentences, stem, words

GROUNDED_FROM = 0.5
"""Share of a sentence's content words that must stand in a document that it cites."""
DEPTHS = (1, 3)
"""Ranks down to which retrieval recall is taken."""

RULES: Mapping[str, str] = {"words": WORDS, "abstention": CHAT_MODEL, "grounded_from": str(GROUNDED_FROM)}
"""What every definition rests on: the rules for words and sentences, those for abstentions, and the share above."""

Corpus = Mapping[str, Document]
Value = Callable[[Case, Trace, Corpus], float | None]
Better = Literal["higher", "lower"]
Aggregate = Literal["mean", "median", "p95"]
Unit = Literal["share", "ms", "tokens"]


@dataclass(frozen=True)
class Metric:
    """`value` of one case; `aggregate` makes one figure of all cases to which it applies. `version` changes with the
    definition, so that figures of two definitions are never compared."""

    name: str
    value: Value
    better: Better
    aggregate: Aggregate = "mean"
    unit: Unit = "share"
    version: int = 1

    @property
    def definition(self) -> str:
        """In words, one paragraph."""
        return " ".join(
            (inspect.getdoc(self.value.func if isinstance(self.value, partial) else self.value) or "").split()
        )


def aggregated(how: Aggregate, values: Sequence[float]) -> float | None:
    """One figure of at least one value; None of none. The 95th percentile is by nearest rank: the smallest value that
    at least 95 % of the values do not exceed."""
    if not values:
        return None
    if how == "median":
        return statistics.median(values)
    if how == "p95":
        return sorted(values)[-(-95 * len(values) // 100) - 1]
    return statistics.fmean(values)


# Small caches: what a trace needs again while it is measured, and the documents of a corpus; not every answer of a run.


@lru_cache(maxsize=16)
def said(text: str) -> tuple[Span, ...]:
    """The sentences of an answer; the whole of one that has none."""
    return tuple(sentences(text)) or (Span(0, len(text)),)


@lru_cache(maxsize=16)
def abstains(answer: str) -> bool:
    """Whether an answer declines to answer, or has no word at all.

    By the phrases that the offline model knows: a refusal in other words, or in another language, is taken for an
    answer.
    """
    return not words(answer) or _abstains(answer)


@lru_cache(maxsize=256)
def _phrase(text: str) -> str:
    return f" {' '.join(normalise(word.text) for word in words(text))} "


@lru_cache(maxsize=64)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word.text) for word in content_words(text) or words(text))


@lru_cache(maxsize=4096)
def _document_stems(document: Document) -> frozenset[str]:
    return _stems(f"{document.title}\n{document.text}")


def _answered(trace: Trace) -> Invocation | None:
    """The answer, where there is one that does not abstain."""
    made = trace.invocation
    return None if made is None or abstains(made.answer) else made


def _retrieved(trace: Trace) -> list[str] | None:
    """Ids of the retrieved documents, best first; None where there is no answer or the system does not say."""
    made = trace.invocation
    return None if made is None or made.retrieved is None else [each.document for each in made.retrieved]


def has_keyword(answer: str, alternatives: Sequence[str]) -> bool:
    """Whether one of the alternatives stands in the answer, case folded and on word bounds."""
    return any(_phrase(alternative) in _phrase(answer) for alternative in alternatives)


def keyword_recall(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """Expected keywords that stand in the answer, of all expected; [0, 1], higher is better; 0 for an abstention.

    Applies to answerable cases with keywords that were run without an error. Blind to a keyword in a wrong statement
    ("not 24 months") and to right answers in other words than the accepted alternatives.
    """
    if not case.answerable or not case.keywords or trace.invocation is None:
        return None
    if (made := _answered(trace)) is None:
        return 0.0
    return statistics.fmean(has_keyword(made.answer, keyword) for keyword in case.keywords)


def citing(made: Invocation) -> list[tuple[Span, frozenset[str]]]:
    """Each sentence of an answer with the documents that it cites: those of the citations that overlap it."""
    spans = said(made.answer)
    ends = [span.end for span in spans]
    found: list[set[str]] = [set() for _ in spans]
    for document, start, end in {(each.document, each.start, each.end) for each in made.citations}:
        for n in range(bisect_right(ends, start), len(spans)):
            if spans[n].start >= end:
                break
            found[n].add(document)
    return [(span, frozenset(documents)) for span, documents in zip(spans, found, strict=True)]


def citation_coverage(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """Sentences of the answer that cite a document, of all its sentences; [0, 1], higher is better.

    Applies to answers that do not abstain. Blind to what is cited: see citation_precision and groundedness.
    """
    if (made := _answered(trace)) is None:
        return None
    return statistics.fmean(bool(documents) for _, documents in citing(made))


def citation_precision(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """Distinct cited documents that are declared relevant, of all distinct cited; [0, 1], higher is better.

    Applies to answers with a citation, in cases that declare relevant documents. Blind to documents that also hold
    the answer but were not declared, to how often a document is cited, and to sentences without a citation.
    """
    made = _answered(trace)
    documents = {citation.document for citation in made.citations} if made else set()
    if not documents or not case.relevant:
        return None
    return len(documents & set(case.relevant)) / len(documents)


def grounded(text: str, documents: frozenset[str], corpus: Corpus) -> bool:
    """Whether at least half of a sentence's content words stand, by their stems, in one of the documents; a document
    that the corpus does not have grounds nothing."""
    wanted = _stems(text)
    return any(
        len(wanted & _document_stems(corpus[name])) >= GROUNDED_FROM * len(wanted)
        for name in documents
        if name in corpus
    )


def groundedness(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """Sentences of the answer that are grounded in a document that they cite, of all its sentences; [0, 1], higher is
    better. A sentence is grounded when at least 50 % of its content words stand, by their stems, in one document that
    it cites; so one without a citation is not.

    Applies to answers that do not abstain. Blind to meaning: a negated or wrongly joined sentence of the document's
    own words counts as grounded, a right paraphrase may not.
    """
    if (made := _answered(trace)) is None:
        return None
    return statistics.fmean(
        grounded(made.answer[span.start : span.end], documents, corpus) for span, documents in citing(made)
    )


def abstention(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """1 where an unanswerable case is not answered, else 0; higher is better. Applies to unanswerable cases that were
    run without an error. Blind to why the system abstained."""
    if case.answerable or trace.invocation is None:
        return None
    return float(abstains(trace.invocation.answer))


def wrong_abstention(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """1 where an answerable case is not answered, else 0; lower is better. Applies to answerable cases that were run
    without an error. Blind to a wrong answer, which is worse."""
    if not case.answerable or trace.invocation is None:
        return None
    return float(abstains(trace.invocation.answer))


def retrieval_recall(case: Case, trace: Trace, corpus: Corpus, *, depth: int) -> float | None:
    """Relevant documents among the first k retrieved ones, of all relevant; [0, 1], higher is better. With more than k
    relevant documents it cannot reach 1.

    Applies to cases that declare relevant documents, run without an error by a system that reports what it retrieved.
    Blind to what the answer makes of them.
    """
    if not case.relevant or (retrieved := _retrieved(trace)) is None:
        return None
    return len(set(retrieved[:depth]) & set(case.relevant)) / len(case.relevant)


def reciprocal_rank(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """1 / rank of the first relevant document that was retrieved, 0 if none was; [0, 1], higher is better; its mean is
    the MRR (Voorhees 1999). Applies as retrieval_recall does. Blind to all relevant documents but the first."""
    if not case.relevant or (retrieved := _retrieved(trace)) is None:
        return None
    ranks = (n for n, document in enumerate(retrieved, 1) if document in case.relevant)
    return 1 / first if (first := next(ranks, 0)) else 0.0


def latency(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """Wall time of the last attempt in milliseconds, from 0; lower is better. Applies to cases without an error, so
    that a timeout does not count here but as an error. Blind to the load of the machine that ran the system, and to
    attempts that failed before and waits between them."""
    return None if trace.invocation is None else trace.duration_ms


def tokens(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """Prompt and completion tokens of the answer, from 0; lower is better. Applies where the system reports or
    estimates them; which of the two is said as their provenance. Blind to prices, which differ between the two."""
    usage = trace.invocation.usage if trace.invocation else None
    return None if usage is None else float(usage.prompt_tokens + usage.completion_tokens)


def error(case: Case, trace: Trace, corpus: Corpus) -> float | None:
    """1 where the system gave an error, else 0; lower is better. Applies to every case. Blind to the kind of error."""
    return float(trace.error is not None)


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("keyword_recall", keyword_recall, "higher"),
        Metric("citation_coverage", citation_coverage, "higher"),
        Metric("citation_precision", citation_precision, "higher"),
        Metric("groundedness", groundedness, "higher"),
        Metric("abstention", abstention, "higher"),
        Metric("wrong_abstention", wrong_abstention, "lower"),
        *(Metric(f"retrieval_recall@{depth}", partial(retrieval_recall, depth=depth), "higher") for depth in DEPTHS),
        Metric("mrr", reciprocal_rank, "higher"),
        Metric("latency_median", latency, "lower", "median", "ms"),
        Metric("latency_p95", latency, "lower", "p95", "ms"),
        Metric("tokens", tokens, "lower", "mean", "tokens"),
        Metric("error_rate", error, "lower"),
    )
}
"""By name, in the order in which they are shown. A metric that is added here applies to runs stored before."""


def definitions_digest(metrics: Mapping[str, Metric] = METRICS) -> str:
    """SHA-256 (hex) of what the metrics are: names, versions, directions, aggregates, units and common rules."""
    rows = [[m.name, m.version, m.better, m.aggregate, m.unit] for m in metrics.values()]
    return sha256_hex(canonical({"metrics": rows, "rules": dict(RULES)}))
