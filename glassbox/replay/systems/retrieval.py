"""Keyword retrieval over a suite's corpus: deterministic, without a model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from glassbox.replay.suite import Document
from glassbox.replay.trace import Retrieved
from judges.text import content_words, normalise, stem, words

Weighting = Literal["overlap", "idf"]


class KeywordRetriever:
    """Ranks documents by the words of the question that they have; ties keep the order of the corpus.

    `overlap`: a point for each occurrence of any of the question's words, as a first version would do; so long texts
    and common words win. `idf`: each distinct content stem counts once, by ln(N / df) (Spärck Jones 1972).
    """

    def __init__(self, corpus: Mapping[str, Document], weighting: Weighting, top: int) -> None:
        self.weighting, self.top = weighting, top
        texts = {name: f"{document.title}\n{document.text}" for name, document in corpus.items()}
        self._words = {name: Counter(normalise(word.text) for word in words(text)) for name, text in texts.items()}
        self._stems = {name: frozenset(stem(word.text) for word in words(text)) for name, text in texts.items()}
        self._frequency = Counter(each for stems in self._stems.values() for each in stems)

    def weight(self, word_stem: str) -> float:
        """ln(N / df) of a stem; 0 for one that no document has."""
        frequency = self._frequency[word_stem]
        return math.log(len(self._stems) / frequency) if frequency else 0.0

    def retrieve(self, question: str) -> tuple[Retrieved, ...]:
        """At most `top` documents with a score above 0, best first."""
        scores = self._overlap(question) if self.weighting == "overlap" else self._idf(question)
        ranked = sorted(scores.items(), key=lambda item: -item[1])
        return tuple(Retrieved(document=name, score=round(score, 6)) for name, score in ranked[: self.top] if score > 0)

    def _overlap(self, question: str) -> dict[str, float]:
        asked = {normalise(word.text) for word in words(question)}
        return {name: float(sum(counts[word] for word in asked)) for name, counts in self._words.items()}

    def _idf(self, question: str) -> dict[str, float]:
        asked = sorted({stem(word.text) for word in content_words(question)})
        return {
            name: math.fsum(self.weight(each) for each in asked if each in stems) for name, stems in self._stems.items()
        }
