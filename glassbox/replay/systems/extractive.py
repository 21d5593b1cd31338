"""A deterministic question answerer over a suite's corpus: the same bytes on every machine, no model, no cost.

Its versions differ in one thing each, so that what a comparison should find is known: v1 -> v2 better retrieval, v2 ->
v3 a planted regression (the same words, no citations), v2 -> v4 another rule for when not to answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from glassbox.replay.store import SystemReference
from glassbox.replay.suite import Document, Suite
from glassbox.replay.systems.question import carries, kind_of
from glassbox.replay.systems.retrieval import KeywordRetriever, Weighting
from glassbox.replay.trace import Citation, Invocation, Retrieved, Usage
from judges.text import content_words, sentences, stem, words

ABSTENTION = "The documents do not say."
SENTENCES = 2
SECOND_FROM = 0.5
"""Share of the best sentence's score that the second needs to be quoted too."""
COVERAGE = 0.5
"""v4: share of the question's content words, by weight, that the sentence's document part must have."""
CHARACTERS_A_TOKEN = 4

Style = Literal["faithful", "fluent"]


@dataclass(frozen=True)
class Variant:
    """`kinds`: abstain unless a sentence can carry the kind of answer that is asked for."""

    weighting: Weighting
    top: int
    style: Style
    kinds: bool = False


VARIANTS: Mapping[str, Variant] = {
    "v1": Variant("overlap", 1, "faithful"),
    "v2": Variant("idf", 3, "faithful"),
    "v3": Variant("idf", 3, "fluent"),
    "v4": Variant("idf", 3, "faithful", kinds=True),
}


@dataclass(frozen=True)
class Sentence:
    document: str
    text: str
    score: float


class ExtractiveSystem:
    """Retrieves by keywords and quotes the sentences that share most with the question."""

    def __init__(self, suite: Suite, version: str) -> None:
        self._variant = VARIANTS[version]
        self._corpus = suite.corpus
        self._retriever = KeywordRetriever(suite.corpus, self._variant.weighting, self._variant.top)
        parameters = {
            "retriever": self._variant.weighting,
            "top": self._variant.top,
            "style": self._variant.style,
            "abstains": "no sentence can carry the kind of answer"
            if self._variant.kinds
            else "no sentence shares a word",
        }
        self.reference = SystemReference(name="extractive", version=version, parameters=parameters)
        self.secrets: frozenset[str] = frozenset()

    async def start(self) -> None:
        """Nothing has to be up."""

    async def answer(self, question: str) -> Invocation:
        """Never fails."""
        retrieved = self._retriever.retrieve(question)
        chosen = self._choose(question, retrieved)
        text, citations = _written(chosen, self._variant.style)
        prompt = len(question) + sum(len(self._corpus[each.document].text) for each in retrieved)
        return Invocation(
            answer=text,
            citations=citations,
            retrieved=retrieved,
            usage=Usage(
                prompt_tokens=math.ceil(prompt / CHARACTERS_A_TOKEN),
                completion_tokens=math.ceil(len(text) / CHARACTERS_A_TOKEN),
                provenance="estimated",
            ),
            parameters=dict(self.reference.parameters),
        )

    def _choose(self, question: str, retrieved: tuple[Retrieved, ...]) -> list[Sentence]:
        asked = {stem(word.text) for word in content_words(question)}
        if not asked:
            return []
        found = [sentence for each in retrieved for sentence in self._sentences(self._corpus[each.document], asked)]
        if self._variant.kinds:
            kind = kind_of(question)
            least = COVERAGE * math.fsum(self._retriever.weight(each) or self._unknown for each in asked)
            found = [s for s in found if s.score >= least and carries(kind, s.text, question)]
        ranked = sorted((s for s in found if s.score > 0), key=lambda s: -s.score)
        return [s for s in ranked[:SENTENCES] if s.score >= SECOND_FROM * ranked[0].score]

    @property
    def _unknown(self) -> float:
        """The weight of a word that no document has: it is asked for all the same."""
        return math.log(len(self._corpus) + 1)

    def _sentences(self, document: Document, asked: set[str]) -> list[Sentence]:
        made = []
        for start, end in sentences(document.text):
            text = document.text[start:end]
            there = {stem(word.text) for word in words(text)}
            made.append(
                Sentence(document.id, text, math.fsum(self._retriever.weight(s) for s in sorted(asked & there)))
            )
        return made

    async def close(self) -> None:
        """Nothing is held."""


def _written(chosen: list[Sentence], style: Style) -> tuple[str, tuple[Citation, ...]]:
    """The answer and its citations. `faithful` quotes each sentence and cites it; `fluent` makes one sentence of them
    and cites nothing."""
    if not chosen:
        return ABSTENTION, ()
    if style == "fluent":
        first, *rest = (sentence.text.rstrip(".") for sentence in chosen)
        return "; also, ".join([first, *(text[0].lower() + text[1:] for text in rest)]) + ".", ()
    citations = []
    start = 0
    for sentence in chosen:
        citations.append(Citation(document=sentence.document, start=start, end=start + len(sentence.text)))
        start += len(sentence.text) + 1
    return " ".join(sentence.text for sentence in chosen), tuple(citations)
